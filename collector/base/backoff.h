// SPDX-License-Identifier: MIT
// When something that has failed is tried again: not at each event that would be a reason to.
#pragma once

#include <algorithm>
#include <cstdint>

namespace slotscope {

class Backoff {
 public:
  // first_ns after the first failure, twice as long after each further one, most_ns at most.
  constexpr Backoff(uint64_t first_ns, uint64_t most_ns) : first_ns_(first_ns), most_ns_(most_ns) {}

  bool IsDue(uint64_t now_ns) const { return now_ns >= due_ns_; }
  // Returns whether it is the first failure on end.
  bool Fail(uint64_t now_ns) {
    const bool is_first = wait_ns_ == 0;
    wait_ns_ = std::clamp(2 * wait_ns_, first_ns_, most_ns_);
    due_ns_ = now_ns + wait_ns_;
    return is_first;
  }
  void Succeed() { wait_ns_ = due_ns_ = 0; }

 private:
  uint64_t first_ns_, most_ns_;
  uint64_t wait_ns_ = 0, due_ns_ = 0;
};

}  // namespace slotscope
