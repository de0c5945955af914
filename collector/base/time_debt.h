// SPDX-License-Identifier: MIT
// How much of our time somebody else's input may take: so much at once, and of the time behind that one
// part in so many.
#pragma once

#include <algorithm>
#include <cstdint>

namespace slotscope {

class TimeDebt {
 public:
  constexpr TimeDebt(uint64_t burst_ns, uint64_t share) : burst_ns_(burst_ns), share_(share) {}

  // May it have some now?
  bool Allows(uint64_t now_ns) const { return OwedAt(now_ns) < burst_ns_; }
  // It took so much CPU time.
  void Took(uint64_t took_ns, uint64_t now_ns) {
    owed_ns_ = OwedAt(now_ns) + took_ns;
    since_ns_ = now_ns;
  }
  uint64_t OwedAt(uint64_t now_ns) const {
    return owed_ns_ - std::min(owed_ns_, (now_ns - std::min(now_ns, since_ns_)) / share_);
  }

 private:
  uint64_t burst_ns_;
  uint64_t share_;
  uint64_t owed_ns_ = 0;
  uint64_t since_ns_ = 0;
};

}  // namespace slotscope
