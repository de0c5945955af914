// SPDX-License-Identifier: MIT
// What a node's health is made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace slotscope {

enum Signal : size_t {
  kSignalThroughput,  // kernels launched: a second, or against what the node is used to
  kSignalCompute,     // share of the time in which its GPUs had work
  kSignalMemory,      // share of the host's memory that is available
  kSignalCpu,         // share of the CPUs' time that was idle
  kNrSignals,
};
inline constexpr std::array<const char*, kNrSignals> kSignalNames = {"throughput", "compute", "memory",
                                                                     "cpu"};
using Signals = std::array<double, kNrSignals>;

// A node in one interval of slot time.
struct Observation {
  uint64_t end_ns = 0;
  int64_t unix_offset_ns = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC
  // Launches per second first. Nothing if one of them was not measured.
  std::optional<Signals> raw;
  bool has_work = true;  // some process that uses a GPU lives
};

}  // namespace slotscope
