// SPDX-License-Identifier: MIT
// Waits for what must come.
#pragma once

#include <unistd.h>

#include <functional>

#include "base/clock.h"

namespace slotscope {

// False: it has not come in that time; the test is to fail.
inline bool Until(const std::function<bool()>& done, uint64_t most_s = 30) {
  const uint64_t deadline_ns = MonotonicNs() + most_s * 1'000'000'000;
  while (!done()) {
    if (MonotonicNs() > deadline_ns) return false;
    usleep(500);
  }
  return true;
}

}  // namespace slotscope
