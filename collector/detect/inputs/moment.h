// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

namespace slotscope {

// A later time is none: sums of times must not overflow.
inline constexpr int64_t kMaxTimeNs = 9'000'000'000'000'000'000;

// When something was, as well as its writer says it: a time of one second's resolution means any
// nanosecond of that second.
struct Moment {
  int64_t begin_ns = 0;       // Unix time
  int64_t resolution_ns = 0;  // 0 and 1: exact

  int64_t last_ns() const { return begin_ns + std::max<int64_t>(resolution_ns - 1, 0); }
  auto operator<=>(const Moment&) const = default;
};

// Whether `one` may have been before `other`, or at the same time.
inline bool MayPrecede(const Moment& one, const Moment& other) {
  return one.begin_ns <= other.last_ns();
}

// Whether the order of the two is told by their times.
inline bool SurelyPrecedes(const Moment& one, const Moment& other) {
  return one.last_ns() < other.begin_ns;
}

// The least time that can be between them; negative if `later` was certainly earlier.
inline int64_t LeastBetween(const Moment& earlier, const Moment& later) {
  return later.begin_ns - earlier.last_ns();
}

}  // namespace slotscope
