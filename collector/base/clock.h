// SPDX-License-Identifier: MIT
// The two clocks. Only the stage that records reads them; the pipeline gets time as data.
#pragma once

#include <time.h>

#include <cstdint>

namespace slotscope {

inline uint64_t ClockNs(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

inline uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }

// CLOCK_REALTIME - CLOCK_MONOTONIC now; the two reads are bracketed to halve their distance.
inline int64_t UnixOffsetNs() {
  uint64_t before = MonotonicNs();
  uint64_t real = ClockNs(CLOCK_REALTIME);
  uint64_t after = MonotonicNs();
  return static_cast<int64_t>(real - (before + (after - before) / 2));
}

}  // namespace slotscope
