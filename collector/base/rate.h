// SPDX-License-Identifier: MIT
// How often something may be done or said: so many at once, and then one in each period.
#pragma once

#include <algorithm>
#include <cstdint>

namespace slotscope {

class Rate {
 public:
  constexpr Rate(uint32_t burst, uint64_t period_ns)
      : burst_(burst), period_ns_(period_ns), left_(burst) {}

  // Whether it may be now.
  bool Take(uint64_t now_ns) {
    Refill(now_ns);
    if (left_ == 0) return false;
    left_--;
    return true;
  }
  // Nothing has been taken for so long that it is as at first.
  bool IsRested(uint64_t now_ns) const {
    return now_ns >= since_ns_ && left_ + (now_ns - since_ns_) / period_ns_ >= burst_;
  }

 private:
  void Refill(uint64_t now_ns) {
    since_ns_ = std::min(since_ns_, now_ns);  // a clock that was set back
    const uint64_t nr = (now_ns - since_ns_) / period_ns_;
    since_ns_ += nr * period_ns_;
    left_ = static_cast<uint32_t>(std::min<uint64_t>(burst_, left_ + nr));
  }

  const uint32_t burst_;
  const uint64_t period_ns_;
  uint32_t left_;
  uint64_t since_ns_ = 0;
};

}  // namespace slotscope
