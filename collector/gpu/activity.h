// SPDX-License-Identifier: MIT
// The union of intervals that begin and end one after the other, by the time in each slot.
#pragma once

#include <algorithm>
#include <cstdint>

namespace slotscope {

// Several things may be active at once; time counts while any is. What begins before something that has
// ended is counted from that end on, so nothing counts twice.
class Activity {
 public:
  void Begin(uint64_t ns) {
    if (nr_active_++ == 0) since_ns_ = std::max(ns, counted_until_ns_);
  }
  // REQUIRES: something is active.
  void End(uint64_t ns) {
    if (--nr_active_ == 0) CountUntil(ns);
  }
  bool active() const { return nr_active_ > 0; }
  template <typename Archive>
  void State(Archive& state) {
    state(nr_active_, since_ns_, counted_until_ns_, active_ns_);
  }
  // The time since the last call, up to ns, which is where a slot ends: 100% of it at most.
  uint64_t Take(uint64_t ns) {
    if (active()) CountUntil(ns);
    const uint64_t taken_ns = active_ns_;
    active_ns_ = 0;
    return taken_ns;
  }

 private:
  void CountUntil(uint64_t ns) {
    ns = std::max(ns, since_ns_);
    active_ns_ += ns - since_ns_;
    since_ns_ = counted_until_ns_ = ns;
  }

  uint64_t nr_active_ = 0;
  uint64_t since_ns_ = 0;          // with nr_active_: what is not counted yet begins here
  uint64_t counted_until_ns_ = 0;  // nothing before it counts any more
  uint64_t active_ns_ = 0;
};

}  // namespace slotscope
