// SPDX-License-Identifier: MIT
#include "run/overhead.h"

#include <bpf/bpf.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace slotscope {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kSampleNs = 100'000'000;
constexpr size_t kPatienceDownS = 3;
constexpr int kPatienceUpS = 10, kMaxPatienceUpS = 600;
constexpr int kTooEarlyS = 60;     // after it went up
constexpr int kSayAgainS = 3'600;  // that nothing more can be done

uint64_t ToNs(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * kSecondNs + static_cast<uint64_t>(time.tv_usec) * 1000;
}

struct StepText {
  OverheadGuard::Step step;
  const char* without;
  const char* instead;  // what spares one the step
  const char* again;
};

constexpr StepText kStepTexts[] = {
    {OverheadGuard::Step::kFastRounds,
     "the buffers are drained less often from here on, so rows come later", "",
     "the buffers are drained as often as before again"},
    {OverheadGuard::Step::kCounters,
     "perf counters are not read any more, their columns are empty from here on",
     "--events none does without them from the start, ", "perf counters are read again"},
    {OverheadGuard::Step::kCuda,
     "CUDA is not probed any more, memory and activity of GPUs are not known from here on",
     "--gpu off does without it from the start, ",
     "CUDA is probed again; who uses it already has unknown memory until it starts anew"},
};

const StepText& TextOf(OverheadGuard::Step step) {
  return *std::find_if(std::begin(kStepTexts), std::end(kStepTexts),
                       [&](const StepText& text) { return text.step == step; });
}

}  // namespace

double OverheadLimit::PercentOf(size_t nr_cpus) const {
  return cpus > 0 ? std::min(percent, 100 * cpus / static_cast<double>(nr_cpus)) : percent;
}

std::string OverheadLimit::Text() const {
  return fmt::format("{:g}%{}{}", percent, cpus > 0 ? fmt::format(",{:g}cpus", cpus) : "",
                     stops ? ",stop" : "");
}

uint64_t RunTimeNs(const std::vector<int>& program_fds, double trap_ns) {
  uint64_t sum = 0;
  for (int fd : program_fds) {
    bpf_prog_info info = {};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
      sum += info.run_time_ns + static_cast<uint64_t>(trap_ns * static_cast<double>(info.run_cnt));
  }
  return sum;
}

OverheadMeter::OverheadMeter(CostsFn costs, size_t nr_cpus, double limit_percent)
    : costs_(std::move(costs)), nr_cpus_(nr_cpus), limit_percent_(limit_percent) {}

uint64_t OverheadMeter::ProcessTimeNs() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return ToNs(usage.ru_utime) + ToNs(usage.ru_stime);
}

bool OverheadMeter::Poll(uint64_t now_ns, uint64_t max_programs_ns) {
  if (second_began_ns_ == 0) {  // what it took to start is not counted
    second_began_ns_ = now_ns;
    process_time_ns_ = ProcessTimeNs();
    probe_ns_ = costs_().probe_ns;
    max_programs_ns_ = max_programs_ns;
    return false;
  }
  if (stats_.valid() && now_ns - stats_since_ns_ >= kSampleNs) {
    program_share_ =
        static_cast<double>(costs_().run_ns - run_ns_) / static_cast<double>(now_ns - stats_since_ns_);
    stats_.Reset();
  }
  const uint64_t elapsed_ns = now_ns - second_began_ns_;
  if (elapsed_ns < kSecondNs || stats_.valid()) return false;

  const uint64_t process_ns = ProcessTimeNs();
  const ProgramCosts costs = costs_();
  const auto percent_of = [&](uint64_t ns) {
    return 100 * static_cast<double>(ns) / static_cast<double>(elapsed_ns) /
           static_cast<double>(nr_cpus_);
  };
  const double known_percent =
      percent_of(process_ns - process_time_ns_) + percent_of(costs.probe_ns - probe_ns_);
  const double most_percent = percent_of(max_programs_ns - max_programs_ns_);
  // As long as even the bound stays below the limit nothing needs to be measured, and nothing happens.
  const bool may_matter = known_percent + most_percent > limit_percent_;
  percent_ =
      known_percent + (may_matter ? 100 * program_share_ / static_cast<double>(nr_cpus_) : most_percent);
  if (may_matter) {
    stats_.Reset(
        bpf_enable_stats(BPF_STATS_RUN_TIME));  // refused by old kernels: then the process is all
    stats_since_ns_ = now_ns;
    run_ns_ = costs_().run_ns;
  }
  second_began_ns_ = now_ns;
  process_time_ns_ = process_ns;
  probe_ns_ = costs.probe_ns;
  max_programs_ns_ = max_programs_ns;
  return true;
}

std::optional<OverheadGuard::Change> OverheadGuard::OnSecond(double percent,
                                                             const std::function<bool(Step)>& has) {
  if (since_up_s_ && ++since_up_s_ > kTooEarlyS) {
    since_up_s_ = 0;
    patience_s_ = kPatienceUpS;
  }
  if (since_stay_s_ && ++since_stay_s_ > kSayAgainS) since_stay_s_ = 0;
  if (percent > limit_percent())
    above_.push_back(percent);
  else
    above_.clear();
  nr_below_ = percent <= limit_percent() / 2 ? nr_below_ + 1 : 0;
  most_below_ = nr_below_ > 1 ? std::max(most_below_, percent) : percent;
  if (above_.size() >= kPatienceDownS) return Down(has);
  if (!without_.empty() && nr_below_ >= patience_s_) return Up();
  return {};
}

std::optional<OverheadGuard::Change> OverheadGuard::Down(const std::function<bool(Step)>& has) {
  const double percent =
      std::accumulate(above_.begin(), above_.end(), 0.0) / static_cast<double>(above_.size());
  std::string text = fmt::format(
      "recording took {:.1f}% of all CPUs for {} s, more than --max-overhead {} allows: ", percent,
      above_.size(), limit_.Text());
  above_.clear();
  Change change;
  change.without = true;
  for (const StepText& step : kStepTexts) {
    if (std::find(without_.begin(), without_.end(), step.step) != without_.end() || !has(step.step))
      continue;
    without_.push_back(step.step);
    change.step = step.step;
    change.text = text + fmt::format("{} ({}--max-overhead sets the limit)", step.without, step.instead);
    if (std::exchange(since_up_s_, 0)) patience_s_ = std::min(2 * patience_s_, kMaxPatienceUpS);
    return change;
  }
  change.stop = limit_.stops;
  change.stay = !limit_.stops;
  if (change.stay && since_stay_s_) return {};
  since_stay_s_ = change.stay;
  change.text =
      text + (change.stop ? "the recording stops"
                          : "there is nothing more to do without, and it records on "
                            "(--max-overhead sets the limit; with ,stop it ends the recording)");
  return change;
}

std::optional<OverheadGuard::Change> OverheadGuard::Up() {
  Change change;
  change.step = without_.back();
  change.text = fmt::format("recording took at most {:.1f}% of all CPUs for {} s: {}", most_below_,
                            nr_below_, TextOf(change.step).again);
  without_.pop_back();
  nr_below_ = 0;
  since_up_s_ = 1;
  since_stay_s_ = 0;
  return change;
}

}  // namespace slotscope
