// SPDX-License-Identifier: MIT
// Which processes a page knows by name, which of them to the millisecond, and when all of them.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "explain/moments.h"
#include "report/overview.h"
#include "report/tracks.h"
#include "report/wait_table.h"

namespace slotscope {

// How many are shown to the millisecond, and in steps of 20 ms; the others are in the sums only.
inline constexpr size_t kFineProcesses = 50, kShownProcesses = 300;
// Rows of milliseconds (a byte or so each, when packed) of which a page has room.
inline constexpr size_t kMostFineRows = 3'000'000;

class Cast {
 public:
  // The tracks outlive it. Those who are told of come first, with all that are in a place that is told
  // of, then those who waited most.
  Cast(const Moments& moments, const Tracks& tracks, const ProcessPlaces& places, GroupBy by);

  size_t size() const { return order_.size(); }
  const Track& At(size_t i) const { return tracks_.processes()[order_[i]]; }
  bool IsFine(size_t i) const { return i < nr_fine_; }
  // size(): it is one of the others.
  size_t Find(const ProcessKey& process) const;

 private:
  const Tracks& tracks_;
  std::vector<size_t> order_;  // places in the tracks
  size_t nr_fine_ = 0;
  std::unordered_map<ProcessKey, size_t, ProcessKeyHash> places_;
};

// Of a range, near the moments that are told and what happened.
Stretches NearMarks(const Moments& moments, const Overview& overview, const UnixRange& range,
                    size_t nr_ms);

}  // namespace slotscope
