// SPDX-License-Identifier: MIT
// DuckDB, if its library is on this machine: loaded when somebody asks for it, never linked.
#pragma once

#include <string>

#include "base/status.h"

namespace slotscope {

class DuckDb {
 public:
  DuckDb() = default;
  ~DuckDb();
  DuckDb(const DuckDb&) = delete;
  DuckDb& operator=(const DuckDb&) = delete;

  // A database in memory, which downloads nothing. Exit::kUsage: there is no library, with how to get
  // one; or it is none that this knows.
  Status Open();
  // Is that one statement? Nothing is done. Exit::kUsage with what the database says, if it is none.
  Status Check(const std::string& sql);
  // One statement or several. What it returns is left out: COPY writes it to a file. Exit::kUsage with
  // what the database says.
  Status Run(const std::string& sql);
  // "v1.5.6".
  const std::string& version() const { return version_; }

 private:
  struct Functions;

  Status Load();

  void* library_ = nullptr;
  Functions* functions_ = nullptr;
  void* database_ = nullptr;
  void* connection_ = nullptr;
  std::string version_;
};

}  // namespace slotscope
