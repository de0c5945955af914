// SPDX-License-Identifier: MIT
// What is said of a straggling process, once a second, with the evidence of that second.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "slots/column.h"
#include "track/tracker.h"

namespace slotscope {

// What a process did in some slots.
inline constexpr ColumnList<4> kEffortColumns = {&ColumnOf("cpu_ns"), &ColumnOf("wait_ns"),
                                                 &ColumnOf("llc_misses"), &ColumnOf("mbm_total_bytes")};
using Effort = ColumnValues<kEffortColumns.size()>;
// Of a process that launches: why its GPU had no work of it.
inline constexpr ColumnList<9> kNoWorkColumns = {
    &ColumnOf("gpu_no_work_ns"),           &ColumnOf("gpu_no_work_ran_ns"),
    &ColumnOf("gpu_no_work_waited_ns"),    &ColumnOf("gpu_no_work_throttled_ns"),
    &ColumnOf("gpu_no_work_cuda_wait_ns"), &ColumnOf("gpu_no_work_disk_ns"),
    &ColumnOf("gpu_no_work_stopped_ns"),   &ColumnOf("gpu_no_work_asleep_ns"),
    &ColumnOf("gpu_no_work_unknown_ns")};
using NoWorkSums = ColumnValues<kNoWorkColumns.size()>;
// Why it waited for a CPU. [WaitCause]
inline constexpr ColumnList<kNrWaitCauses> kWaitCauseColumns = {
    &ColumnOf("wait_others_ns"), &ColumnOf("wait_self_ns"),  &ColumnOf("wait_throttled_ns"),
    &ColumnOf("wait_wakeup_ns"), &ColumnOf("wait_steal_ns"), &ColumnOf("wait_unknown_ns")};
using WaitCauseValues = ColumnValues<kWaitCauseColumns.size()>;
// Of no slot at all.
inline constexpr Effort kUnknownEffort = {{}, (1u << kEffortColumns.size()) - 1};

// Who ran on a CPU while the process waited there for it.
struct RanInstead {
  bool named = false;
  Comm comm = {};
  uint64_t ns = 0;       // of the process's waiting
  Effort effort;         // its own, on all CPUs, in the slots in which it did
  bool has_row = false;  // in one of these slots
  uint64_t slot_ns = 0;  // start of the last one of these

  template <typename Archive>
  void State(Archive& state) {
    state(named, comm, ns, effort, has_row, slot_ns);
  }
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
  // Who ran longest first. has_waits: false: nobody knows.
  std::vector<std::pair<ProcessKey, RanInstead>> ran_instead;
  bool has_waits = false;
  uint64_t left_out_ns = 0;  // of waiting for those beyond StraggleDetector::kMaxRanInstead
  NoWorkSums no_work;
  WaitCauseValues wait_causes;
};

}  // namespace slotscope
