// SPDX-License-Identifier: MIT
// What a process did, added up.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace slotscope {

// Everything that is added up, so that each can be accounted for: received = written + late + before
// the first slot + after the last one.
enum Additive : size_t {
  kCpuNs,
  kWaitNs,
  kSwitches,
  kPreemptions,
  kCycles,
  kInstructions,
  kLlcMisses,
  kEnabledNs,  // of the first counter that is counted, for mux_pct
  kRunningNs,
  kMigrations,
  kNrAdditive,
};
inline constexpr std::array<const char*, kNrAdditive> kAdditiveNames = {
    "cpu_ns",       "wait_ns",    "switches",   "preemptions", "cycles",
    "instructions", "llc_misses", "enabled_ns", "running_ns",  "migrations"};
static_assert(kLlcMisses - kCycles == SS_LLC_MISSES - SS_CYCLES);
// The first version of the messages that has it: older recordings cannot know it.
inline constexpr std::array<uint32_t, kNrAdditive> kAdditiveSince = {1, 1, 1, 1, 1, 1, 1, 1, 1, 3};

using Sums = std::array<uint64_t, kNrAdditive>;

inline void Add(Sums* to, const Sums& what) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kNrAdditive; i++) (*to)[i] += what[i];
}

inline Sums Difference(const Sums& a, const Sums& b) {
  Sums sums;
#pragma GCC unroll 16
  for (size_t i = 0; i < kNrAdditive; i++) sums[i] = a[i] - b[i];
  return sums;
}

}  // namespace slotscope
