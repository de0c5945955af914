// SPDX-License-Identifier: MIT
// The two clocks. Only the stage that records reads them; the pipeline gets time as data.
#pragma once

#include <time.h>

#include <cstdint>

namespace slotscope {

inline int64_t NsOf(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

// Rounded down, also before 1970: a clock may be wrong. REQUIRES: by > 0.
inline int64_t FloorDiv(int64_t number, int64_t by) { return number / by - (number % by < 0); }

inline uint64_t ClockNs(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return static_cast<uint64_t>(NsOf(ts));
}

inline uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }

struct ClockPair {
  uint64_t monotonic_ns;
  int64_t unix_offset_ns;  // CLOCK_REALTIME - CLOCK_MONOTONIC
  uint64_t error_ns;       // of the offset, at most
};

// Two reads of one clock bracket that of the other: the offset is right to half their distance. Whoever
// is interrupted in between tries again, a few times.
inline ClockPair ReadClocks() {
  constexpr uint64_t kGoodErrorNs = 1'000;
  ClockPair best = {0, 0, UINT64_MAX};
  for (int i = 0; i < 5 && best.error_ns > kGoodErrorNs; i++) {
    uint64_t before = MonotonicNs();
    uint64_t real = ClockNs(CLOCK_REALTIME);
    uint64_t after = MonotonicNs();
    uint64_t middle = before + (after - before) / 2;
    uint64_t error = (after - before) / 2 + 1;
    if (error < best.error_ns) best = {middle, static_cast<int64_t>(real - middle), error};
  }
  return best;
}

}  // namespace slotscope
