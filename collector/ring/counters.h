// SPDX-License-Identifier: MIT
// Perf counters of CPUs: which ones, and how they are opened.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

// The names of all columns, with commas in between.
std::string CounterColumns();

// What is counted in one column.
struct CounterSpec {
  bool wanted = false;
  std::string event;  // as the user sees it: "cycles", "msr/tsc/", "r412e", "task-clock"
  uint32_t type = 0;  // perf_event_attr.type
  uint64_t config = 0;
};
using CounterSpecs = std::array<CounterSpec, SS_MAX_COUNTERS>;  // by kPerfCounters

// Names of kPerfCounters with commas in between, each optionally "=EVENT" to count something else in
// that column: a generic hardware or software event, rHEX, or PMU/NAME/ as listed under
// /sys/bus/event_source/devices. An empty text or "none" wants no counter.
Status ParseCounterSpecs(std::string_view text, CounterSpecs* specs);

// perf_event_open(2) of what one CPU counts, in the group of that leader, or as a leader (-1), which
// counts nothing until it is enabled. An invalid one with errno says that it cannot.
using OpenCounterFn = std::function<UniqueFd(const CounterSpec& spec, int cpu, int leader_fd)>;
UniqueFd OpenCounter(const CounterSpec& spec, int cpu, int leader_fd);

// The counters of all CPUs, in groups that a PMU can count at once: a counter joins the first one that
// has room for it. Groups that do not fit beside each other take turns. All of a group are enabled
// together, not pinned, never scaled. A counter that this machine cannot count is noted and left out.
class CounterGroups {
 public:
  CounterGroups(const CounterSpecs& specs, size_t nr_cpus, OpenCounterFn open = OpenCounter);

  // Tries each wanted counter on `cpu`. After it all of these are known.
  void Probe(int cpu);
  uint32_t opened_mask() const { return opened_; }  // a bit per counter
  // How many counters each measure has behind it: up to the last one that was asked for.
  uint32_t nr_more() const { return nr_more_; }
  size_t nr_groups() const { return nr_groups_; }
  // Why a wanted counter is not there, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  // What the programs of bpf/counters.bpf.h have to know before they are loaded.
  template <typename Rodata>
  void Tell(Rodata* rodata) const {
    rodata->ss_counters_opened = opened_;
    rodata->ss_nr_more = nr_more_;
    rodata->ss_nr_possible_cpus = static_cast<uint32_t>(fds_.size());
  }
  uint32_t nr_map_entries() const { return static_cast<uint32_t>(SS_MAX_COUNTERS * fds_.size()); }

  // Opens the counters of `cpu` anew and puts them into the BPF_MAP_TYPE_PERF_EVENT_ARRAY of
  // nr_map_entries(), at counter x nr_cpus + cpu.
  Status Open(int cpu, int map_fd);
  void Close(int cpu);

 private:
  using Fds = std::array<UniqueFd, SS_MAX_COUNTERS>;

  CounterSpecs specs_;
  OpenCounterFn open_;
  uint32_t opened_ = 0;
  uint32_t nr_more_ = 0;
  size_t nr_groups_ = 0;
  std::array<size_t, SS_MAX_COUNTERS> leader_ = {};  // counter -> the first one of its group
  std::vector<std::string> notes_;
  std::vector<Fds> fds_;  // by CPU
};

}  // namespace slotscope
