// SPDX-License-Identifier: MIT
// What a shipper tells of itself: how much it has shipped, what waits and since when, and whether the
// server answers.
#pragma once

#include <cstdint>
#include <mutex>

#include "metrics/families.h"
#include "ship/shipper.h"

namespace slotscope {

// Of one that goes on: it is told by the thread that ships, and asked by others.
class ShipMeter {
 public:
  void OnProgress(const ShipStats& stats, const Backlog& backlog);
  // ShipAll() has ended, at that time (Unix time in ns): could the recording be read, and what did the
  // server say?
  void OnRound(bool is_readable, bool has_answered, int64_t unix_ns);

  Families families() const;

 private:
  mutable std::mutex mutex_;
  ShipStats stats_;
  Backlog backlog_;
  bool has_looked_ = false;  // what waits is known
  bool has_ended_ = false;   // a round has
  bool is_readable_ = false, has_answered_ = false;
  int64_t success_unix_ns_ = 0;  // of the latest round in which nothing was wrong; 0: there was none
};

}  // namespace slotscope
