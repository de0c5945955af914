// SPDX-License-Identifier: MIT
// What is said of a straggling process, once a second, with the evidence of that second.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "slots/preemption.h"
#include "track/tracker.h"

namespace slotscope {

// What a process did in some slots. A value counts only if its bit in `unmeasured` is clear.
enum EffortValue : size_t { kEffortCpuNs, kEffortWaitNs, kEffortLlcMisses, kEffortMbmTotal, kNrEffort };
inline constexpr std::array<const char*, kNrEffort> kEffortNames = {"cpu_ns", "wait_ns", "llc_misses",
                                                                    "mbm_total_bytes"};
struct Effort {
  std::array<uint64_t, kNrEffort> values = {};
  uint32_t unmeasured = 0;  // bit EffortValue: in one of the slots
  // Of no slot at all.
  static Effort Unknown() { return {{}, (1u << kNrEffort) - 1}; }
};

struct Preemptor {
  int32_t tgid = 0;
  bool named = false;
  Comm comm = {};
  uint64_t nr = 0;       // times that it took a CPU from the process
  uint64_t ns = 0;       // see Preemption
  Effort effort;         // on all CPUs, in the slots in which it did
  bool has_row = false;  // in one of these slots
};

struct StraggleReport {
  enum class State : uint8_t { kInitial, kSustained, kResolved };
  State state;
  ProcessKey process;
  bool named = false;
  Comm comm = {};
  uint64_t episode_ns;  // when the first second of the episode began
  uint64_t since_ns;    // what follows is of since_ns to until_ns
  uint64_t until_ns;
  uint32_t drop_ppm;      // of launches, against the baseline; 0 if there were more
  double launches_per_s;  // now
  double baseline_per_s;  // before the episode
  uint64_t nr_switches;
  Effort effort;
  std::vector<Preemptor> preemptors;  // who took most time first
  uint64_t nr_left_out = 0;           // slots of those beyond StraggleDetector::kMaxPreemptors
};

}  // namespace slotscope
