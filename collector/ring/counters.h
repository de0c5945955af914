// SPDX-License-Identifier: MIT
// Perf counters: which ones, and one group of them per CPU.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

inline constexpr std::array<const char*, SS_NR_COUNTERS> kCounterNames = {"cycles", "instructions",
                                                                          "llc_misses"};

// What is counted in one column.
struct CounterSpec {
  bool wanted = false;
  std::string event;  // as the user sees it: "cycles", "msr/tsc/", "r412e", "task-clock"
  uint32_t type = 0;  // perf_event_attr.type
  uint64_t config = 0;
};
using CounterSpecs = std::array<CounterSpec, SS_NR_COUNTERS>;

// "cycles,instructions,llc_misses", each optionally "=EVENT" to count something else in that column:
// a generic hardware or software event, rHEX, or PMU/NAME/ as listed under
// /sys/bus/event_source/devices. An empty text or "none" wants no counter.
Status ParseCounterSpecs(std::string_view text, CounterSpecs* specs);

// The groups of all CPUs. A counter that this machine cannot count is noted and left out; the others
// still form a group: enabled together, not pinned, never scaled.
class CounterGroups {
 public:
  CounterGroups(const CounterSpecs& specs, size_t nr_cpus);

  // Tries each wanted counter on `cpu`. After it opened() and notes() are known.
  void Probe(int cpu);
  bool opened(ss_counter_id id) const { return opened_ >> id & 1; }
  uint32_t opened_mask() const { return opened_; }
  // Why a wanted counter is not there, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  // Opens the group of `cpu` anew and puts its members into the BPF_MAP_TYPE_PERF_EVENT_ARRAYs.
  Status Open(int cpu, const std::array<int, SS_NR_COUNTERS>& map_fds);
  void Close(int cpu);

 private:
  CounterSpecs specs_;
  uint32_t opened_ = 0;  // bit i: counter i can be opened
  std::vector<std::string> notes_;
  std::vector<std::array<UniqueFd, SS_NR_COUNTERS>> fds_;  // by CPU
};

}  // namespace slotscope
