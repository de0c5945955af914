// SPDX-License-Identifier: MIT
// Waits for what must come.
#pragma once

#include <unistd.h>

#include <functional>

#include "base/clock.h"

namespace slotscope {

// False: it has not come; the test is to fail.
inline bool Until(const std::function<bool()>& done) {
  const uint64_t deadline_ns = MonotonicNs() + 30'000'000'000;
  while (!done()) {
    if (MonotonicNs() > deadline_ns) return false;
    usleep(500);
  }
  return true;
}

}  // namespace slotscope
