// SPDX-License-Identifier: MIT
// What a recording costs the machine, and what is done when that is too much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Measures once a second: the CPU time of this process, and of what runs in the kernel for it.
class OverheadMeter {
 public:
  // probe_ns: what the latter took so far.
  OverheadMeter(std::function<uint64_t()> probe_ns, size_t nr_cpus)
      : probe_ns_(std::move(probe_ns)), nr_cpus_(nr_cpus) {}

  // To be called once a second or so. True when a new value is there.
  bool Poll(uint64_t now_ns);
  // Of all CPUs, in the last second.
  double percent() const { return percent_; }

 private:
  std::function<uint64_t()> probe_ns_;
  size_t nr_cpus_;
  uint64_t second_began_ns_ = 0;
  uint64_t taken_ns_ = 0;  // until then
  double percent_ = 0;
};

// Decides. What is above the limit for some seconds on end makes it take the next step, and what is
// below half of it for longer makes it take the last one back: later each time that this was too early.
class OverheadGuard {
 public:
  // What a recording can do without, the least first.
  enum class Step { kFastRounds, kCounters, kCuda, kWaitCauses, kShortSlots };
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
