// SPDX-License-Identifier: MIT
// What a recording costs the machine, and what is done when that is too much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace slotscope {

// The smaller of both counts.
struct OverheadLimit {
  double percent = 3;  // of all CPUs
  double cpus = 2;     // in sum; 0: no matter
  bool stops = false;  // the recording ends when nothing else helps

  double PercentOf(size_t nr_cpus) const;
  // As it is written on the command line.
  std::string Text() const;
};

// What runs in the kernel for us.
struct ProgramCosts {
  uint64_t run_ns = 0;    // while statistics are on, of BPF programs; of traps that lead to them
  uint64_t probe_ns = 0;  // at any time: of the module's probes and ticks, with what listens to them
};

// Measures once a second: the CPU time of this process, and of what runs in the kernel for it. The
// kernel's own statistics of programs cost each run some 30 ns, so they are switched on for a part of
// the second only, and not at all while there are so few events that the limit cannot be reached.
class OverheadMeter {
 public:
  using CostsFn = std::function<ProgramCosts()>;
  OverheadMeter(CostsFn costs, size_t nr_cpus, double limit_percent);

  // To be called twice a second, ten times while is_sampling(). True when a new value is there.
  // max_programs_ns: what programs may have taken so far at most, by the number of events.
  bool Poll(uint64_t now_ns, uint64_t max_programs_ns);
  // Programs are being measured: for a tenth of a second.
  bool is_sampling() const { return stats_.valid(); }
  // Of all CPUs, in the last second. Above the limit only if it was measured; below it may be a bound.
  double percent() const { return percent_; }

 private:
  static uint64_t ProcessTimeNs();

  CostsFn costs_;
  size_t nr_cpus_;
  double limit_percent_;
  UniqueFd stats_;  // open: the kernel measures programs
  uint64_t stats_since_ns_ = 0, run_ns_ = 0;
  double program_share_ = 0;  // of one CPU, as last measured
  uint64_t second_began_ns_ = 0, process_time_ns_ = 0, max_programs_ns_ = 0, probe_ns_ = 0;
  double percent_ = 0;
};

// Of BPF programs, by their descriptors. `trap_ns`: what it takes to get to one, beside its own time.
uint64_t RunTimeNs(const std::vector<int>& program_fds, double trap_ns = 0);

// Decides. What is above the limit for some seconds on end makes it take the next step, and what is
// below half of it for longer makes it take the last one back: later each time that this was too early.
class OverheadGuard {
 public:
  // What a recording can do without, the least first.
  enum class Step { kFastRounds, kCounters, kCuda };
  struct Change {
    Step step = Step::kFastRounds;
    bool without = false;  // from here on; else it is there again
    bool stop = false;     // the recording ends; `step` says nothing
    bool stay = false;     // nothing more can be done without; `step` says nothing
    std::string text;      // a sentence about it
  };

  OverheadGuard(const OverheadLimit& limit, size_t nr_cpus) : limit_(limit), nr_cpus_(nr_cpus) {}

  // Once a second. `has`: is there anything to do without?
  std::optional<Change> OnSecond(double percent, const std::function<bool(Step)>& has);
  double limit_percent() const { return limit_.PercentOf(nr_cpus_); }

 private:
  std::optional<Change> Down(const std::function<bool(Step)>& has);
  std::optional<Change> Up();

  OverheadLimit limit_;
  size_t nr_cpus_;
  std::vector<Step> without_;
  std::vector<double> above_;  // percent, in the last seconds on end
  double most_below_ = 0;      // in the last nr_below_ seconds
  int nr_below_ = 0;
  int patience_s_ = 10;   // below, before it goes up
  int since_up_s_ = 0;    // 0: it has not
  int since_stay_s_ = 0;  // that it said that there is nothing more; 0: it has not
};

}  // namespace slotscope
