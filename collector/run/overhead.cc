// SPDX-License-Identifier: MIT
#include "run/overhead.h"

#include <bpf/bpf.h>
#include <fmt/core.h>
#include <sys/resource.h>

namespace slotscope {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kSampleNs = 100'000'000;
// More than a program ever takes for an event on the machines that we know.
constexpr uint64_t kMaxEventCostNs = 2'000;
constexpr int kPatienceSeconds = 3;

uint64_t ToNs(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * kSecondNs + static_cast<uint64_t>(time.tv_usec) * 1000;
}

}  // namespace

OverheadMeter::OverheadMeter(std::vector<int> program_fds, size_t nr_cpus, double limit_percent)
    : program_fds_(std::move(program_fds)), nr_cpus_(nr_cpus), limit_percent_(limit_percent) {}

uint64_t OverheadMeter::ProgramTimeNs() const {
  uint64_t sum = 0;
  for (int fd : program_fds_) {
    bpf_prog_info info = {};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) == 0) sum += info.run_time_ns;
  }
  return sum;
}

uint64_t OverheadMeter::ProcessTimeNs() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return ToNs(usage.ru_utime) + ToNs(usage.ru_stime);
}

bool OverheadMeter::Poll(uint64_t now_ns, uint64_t nr_events) {
  if (second_began_ns_ == 0) {  // what it took to start is not counted
    second_began_ns_ = now_ns;
    process_time_ns_ = ProcessTimeNs();
    nr_events_ = nr_events;
    return false;
  }
  if (stats_.valid() && now_ns - stats_since_ns_ >= kSampleNs) {
    program_share_ = static_cast<double>(ProgramTimeNs() - program_time_ns_) /
                     static_cast<double>(now_ns - stats_since_ns_);
    stats_.Reset();
  }
  const uint64_t elapsed_ns = now_ns - second_began_ns_;
  if (elapsed_ns < kSecondNs || stats_.valid()) return false;

  const uint64_t process_ns = ProcessTimeNs();
  const double all_ns = static_cast<double>(elapsed_ns) * static_cast<double>(nr_cpus_);
  const double most_ns = static_cast<double>((nr_events - nr_events_) * kMaxEventCostNs);
  const double process_percent = 100 * static_cast<double>(process_ns - process_time_ns_) / all_ns;
  const double most_percent = 100 * most_ns / all_ns;
  // As long as even the bound stays below the limit nothing needs to be measured, and nothing happens.
  const bool may_matter = process_percent + most_percent > limit_percent_;
  percent_ = process_percent +
             (may_matter ? 100 * program_share_ / static_cast<double>(nr_cpus_) : most_percent);
  if (may_matter) {
    stats_.Reset(
        bpf_enable_stats(BPF_STATS_RUN_TIME));  // refused by old kernels: then the process is all
    stats_since_ns_ = now_ns;
    program_time_ns_ = ProgramTimeNs();
  }
  second_began_ns_ = now_ns;
  process_time_ns_ = process_ns;
  nr_events_ = nr_events;
  return true;
}

OverheadGuard::Step OverheadGuard::OnSecond(double percent) {
  nr_above_ = percent > limit_percent_ ? nr_above_ + 1 : 0;
  if (nr_above_ < kPatienceSeconds || last_ == Step::kStop) return Step::kNone;
  nr_above_ = 0;
  switch (last_) {
    case Step::kNone:
      last_ = Step::kSlowRounds;
      break;
    case Step::kSlowRounds:
      last_ = has_counters_ ? Step::kNoCounters : Step::kStop;
      break;
    default:
      last_ = Step::kStop;
  }
  return last_;
}

std::string OverheadGuard::Text(Step step, double percent) const {
  const char* what = "";
  switch (step) {
    case Step::kNone:
      break;
    case Step::kSlowRounds:
      what = "the buffers are drained less often from here on";
      break;
    case Step::kNoCounters:
      what = "perf counters are not read any more, their columns are empty from here on";
      break;
    case Step::kStop:
      what = "the recording stops";
      break;
  }
  return fmt::format("recording takes {:.1f}% of all CPUs, more than --max-overhead {:g}: {}", percent,
                     limit_percent_, what);
}

}  // namespace slotscope
