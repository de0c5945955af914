// SPDX-License-Identifier: MIT
// A recorder of our own, where no service records: a process that records to a folder that goes with it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

class TopRecorder {
 public:
  TopRecorder() = default;
  ~TopRecorder() { Stop(); }
  TopRecorder(const TopRecorder&) = delete;
  TopRecorder& operator=(const TopRecorder&) = delete;

  // Records to that path until it is told to end, in a process of its own; returns its exit code.
  using Record = std::function<int(const std::string& path)>;
  // Returns when it records, or has ended: then with its exit code, and what it said. *recording: to be
  // read. Nothing is executed: what a program's own file is, is not always known. REQUIRES: one thread.
  // wants_end: somebody does not want to wait for that any longer.
  Status Start(const Record& record, const std::function<bool()>& wants_end, std::string* recording);
  // It has ended, and should not have: as Start().
  Status Check();
  // Ends it, and removes what it has written.
  void Stop();

 private:
  std::string Said() const;

  std::string folder_;
  UniqueFd lock_;  // on the folder: while it is held, somebody is at it
  pid_t pid_ = -1;
};

}  // namespace slotscope
