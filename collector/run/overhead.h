// SPDX-License-Identifier: MIT
// What a recording costs the machine, and what is done when that is too much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace slotscope {

// Measures once a second: the CPU time of this process, and that of its BPF programs. The kernel's own
// statistics of programs cost each run some 30 ns, so they are switched on for a part of the second
// only, and not at all while there are so few events that the limit cannot be reached.
class OverheadMeter {
 public:
  OverheadMeter(std::vector<int> program_fds, size_t nr_cpus, double limit_percent);

  // To be called ten times a second or so. True when a new value is there.
  // nr_events: runs of programs so far, about: messages and switches, since a batch holds many.
  bool Poll(uint64_t now_ns, uint64_t nr_events);
  // Of all CPUs, in the last second. Above the limit only if it was measured; below it may be a bound.
  double percent() const { return percent_; }

 private:
  uint64_t ProgramTimeNs() const;
  static uint64_t ProcessTimeNs();

  std::vector<int> program_fds_;
  size_t nr_cpus_;
  double limit_percent_;
  UniqueFd stats_;  // open: the kernel measures programs
  uint64_t stats_since_ns_ = 0, program_time_ns_ = 0;
  double program_share_ = 0;  // of one CPU, as last measured
  uint64_t second_began_ns_ = 0, process_time_ns_ = 0, nr_events_ = 0;
  double percent_ = 0;
};

// Decides. What is above the limit for some seconds on end makes it take the next step.
class OverheadGuard {
 public:
  enum class Step { kNone, kSlowRounds, kNoCounters, kStop };

  // has_counters: are there any to do without?
  OverheadGuard(double limit_percent, bool has_counters)
      : limit_percent_(limit_percent), has_counters_(has_counters) {}

  // Once a second.
  Step OnSecond(double percent);
  // A sentence about it.
  std::string Text(Step step, double percent) const;

 private:
  double limit_percent_;
  bool has_counters_;
  int nr_above_ = 0;
  Step last_ = Step::kNone;
};

}  // namespace slotscope
