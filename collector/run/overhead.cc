// SPDX-License-Identifier: MIT
#include "run/overhead.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace slotscope {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
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
     "CUDA is probed again; the memory of processes that already use it is unknown until they restart"},
    {OverheadGuard::Step::kWaitCauses,
     "who ran while a process waited for a CPU is not looked for any more, that time is in "
     "wait_unknown_ns from here on",
     "--no-waits does without it from the start, ",
     "who runs while a process waits for a CPU is looked for again"},
    {OverheadGuard::Step::kShortSlots, "slots are longer from here on (column slot_ns says how long)",
     "a longer --slot does so from the start, ", "slots are as long as asked for again"},
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

bool OverheadMeter::Poll(uint64_t now_ns) {
  const bool is_first = second_began_ns_ == 0;  // what it took to start is not counted
  const uint64_t elapsed_ns = now_ns - second_began_ns_;
  if (!is_first && elapsed_ns < kSecondNs) return false;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const uint64_t taken_ns = ToNs(usage.ru_utime) + ToNs(usage.ru_stime) + probe_ns_();
  percent_ = 100 * static_cast<double>(taken_ns - taken_ns_) / static_cast<double>(elapsed_ns) /
             static_cast<double>(nr_cpus_);
  second_began_ns_ = now_ns;
  taken_ns_ = taken_ns;
  return !is_first;
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
  change.text = text + (change.stop ? "the recording stops"
                                    : "nothing is left to switch off, so it records on (--max-overhead "
                                      "sets the limit; with ,stop it ends the recording)");
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
