// SPDX-License-Identifier: MIT
// What is said of a straggling process, once a second, with the evidence of that second.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "slots/column.h"
#include "slots/preemption.h"
#include "track/tracker.h"

namespace slotscope {

// What a process did in some slots.
inline constexpr ColumnList<4> kEffortColumns = {&ColumnOf("cpu_ns"), &ColumnOf("wait_ns"),
                                                 &ColumnOf("llc_misses"), &ColumnOf("mbm_total_bytes")};
using Effort = ColumnValues<kEffortColumns.size()>;
// Of no slot at all.
inline constexpr Effort kUnknownEffort = {{}, (1u << kEffortColumns.size()) - 1};

struct Preemptor {
  int32_t tgid = 0;
  bool named = false;
  Comm comm = {};
  uint64_t nr = 0;       // times that it took a CPU from the process
  uint64_t ns = 0;       // see Preemption
  Effort effort;         // on all CPUs, in the slots in which it did
  bool has_row = false;  // in one of these slots

  template <typename Archive>
  void State(Archive& state) {
    state(tgid, named, comm, nr, ns, effort, has_row);
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
  std::vector<Preemptor> preemptors;  // who took most time first
  uint64_t nr_left_out = 0;           // slots of those beyond StraggleDetector::kMaxPreemptors
};

}  // namespace slotscope
