// SPDX-License-Identifier: MIT
// What a shipper tells of itself: how much it has shipped, what waits and since when, and whether the
// server answers.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "metrics/families.h"
#include "ship/shipper.h"

namespace slotscope {

// How ShipAll() went.
struct ShipRound {
  bool is_readable = false;          // the recording was
  bool is_whole = false;             // all of it, and there was a table for all of it
  std::optional<bool> has_answered;  // the server; nothing: it was not asked
};

// Of one that goes on: it is told by the thread that ships, and asked by others.
class ShipMeter {
 public:
  void OnProgress(const ShipStats& stats, const Backlog& backlog);
  // `unix_ns`: now.
  void OnRound(const ShipRound& round, int64_t unix_ns);

  Families families() const;

 private:
  mutable std::mutex mutex_;
  ShipStats stats_;
  Backlog backlog_;
  std::optional<bool> is_readable_, has_answered_;  // the last time
  int64_t success_unix_ns_ = 0;  // of the latest round in which nothing was wrong; 0: there was none
};

}  // namespace slotscope
