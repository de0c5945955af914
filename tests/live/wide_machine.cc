// SPDX-License-Identifier: MIT
#include "wide_machine.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <numeric>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/thread.h"
#include "ring/bpf_object.h"
#include "wide.skel.h"

namespace slotscope {
namespace {

constexpr size_t kMaxRings = sizeof(wide::wide__bss::ss_wide_first) / sizeof(uint32_t);
// As often as a CPU would write itself, about, and little beside the rest.
constexpr auto kPause = std::chrono::microseconds(500);

// struct ss_wide_ring of wide.bpf.c.
struct Ring {
  uint64_t last_ns, switch_ns, nr_written, nr_refused, written_ns;
  uint32_t seq, running;
};

uint64_t ThreadCpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void WideMachine::Deleter::operator()(wide* skeleton) const { wide__destroy(skeleton); }

WideMachine::~WideMachine() { Stop(); }

Status WideMachine::Start() {
  if (Status status = CheckBpfUsable(); !status.ok()) return status;
  if (shape_.nr_cpus > kMaxRings) return {Exit::kUsage, "too many CPUs"};
  skeleton_.reset(wide__open());
  if (!skeleton_) return {Exit::kKernel, "cannot open the writer: " + LastLibbpfWarning()};
  bpf_map__set_max_entries(skeleton_->maps.ss_events, static_cast<uint32_t>(shape_.nr_cpus));
  if (wide__load(skeleton_.get()))
    return {Exit::kKernel, "cannot load the writer: " + LastLibbpfWarning()};
  skeleton_->bss->ss_wide_processes = shape_.nr_processes;
  skeleton_->bss->ss_wide_mute = shape_.nr_mute;
  skeleton_->bss->ss_wide_period_ns = 1'000'000'000 / shape_.switches_per_s;

  rings_ = std::make_unique<PerfRings>(bpf_map__fd(skeleton_->maps.ss_events), shape_.nr_cpus);
  const std::vector<int> real = ReadCpuList("online");
  for (size_t i = 0; i < real.size(); i++) {
    const Share share = {real[i], shape_.nr_cpus * i / real.size(),
                         shape_.nr_cpus * (i + 1) / real.size()};
    shares_.push_back(share);
    for (size_t ring = share.first; ring < share.end; ring++)
      if (Status status = rings_->Open(static_cast<int>(ring), share.cpu); !status.ok()) return status;
  }
  info_.name = "wide";
  info_.backend = "none";
  info_.tick = "written with the rest";
  info_.counted = (1u << SS_NR_COUNTERS) - 1;
  info_.watched_cpus.resize(shape_.nr_cpus);
  std::iota(info_.watched_cpus.begin(), info_.watched_cpus.end(), 0);
  return {};
}

Status WideMachine::Dump(const MessagesFn& sink, const std::function<void()>&) {
  std::vector<ss_task_meta> messages;
  const auto hand_over = [&] {
    sink(std::as_bytes(std::span(messages)));
    messages.clear();
  };
  for (uint32_t i = 0; i < shape_.nr_cpus * shape_.nr_processes; i++) {
    ss_task_meta meta = {};
    meta.hdr = {MonotonicNs(), SS_TASK_META, sizeof(meta), 0};
    meta.tgid = static_cast<int32_t>(1'000'000 + i);
    meta.start_time_ns = 1'000'000 + i;
    meta.flags = SS_TASK_EXISTING;
    std::snprintf(meta.comm, sizeof(meta.comm), "worker%u", i);
    messages.push_back(meta);
    if (messages.size() == 50) hand_over();
  }
  hand_over();
  nr_dumps_++;
  if (threads_.empty() && !stop_requested_)
    for (const Share& share : shares_) threads_.emplace_back([this, share] { Run(share); });
  return {};
}

// Whatever has passed since the last look is written at once; so one that gets no CPU for a while is
// late, as a real one would not be.
void WideMachine::Run(const Share& share) {
  NameThread("wide");
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(share.cpu, &only);
  if (sched_setaffinity(0, sizeof(only), &only)) failed_ = true;
  skeleton_->bss->ss_wide_first[share.cpu] = static_cast<uint32_t>(share.first);
  skeleton_->bss->ss_wide_end[share.cpu] = static_cast<uint32_t>(share.end);
  while (!stop_requested_ && !failed_) {
    std::this_thread::sleep_for(kPause);
    skeleton_->bss->ss_wide_until_ns[share.cpu] = MonotonicNs();
    LIBBPF_OPTS(bpf_test_run_opts, options);
    if (bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.ss_wide_fill), &options)) failed_ = true;
  }
  own_cpu_ns_ += ThreadCpuNs();
}

void WideMachine::Stop() {
  if (threads_.empty()) return;
  stop_requested_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::this_thread::sleep_for(std::chrono::milliseconds(shape_.detach_ms));
}

Facts WideMachine::MakeFacts(const ClockPair& clocks) const {
  Facts facts;
  facts.source = info_.name;
  facts.backend = info_.backend;
  facts.tick = info_.tick;
  facts.events = {"cycles", "instructions", "misses"};
  facts.present_cpus = info_.watched_cpus;
  facts.nr_streams = shape_.nr_cpus;
  facts.unix_offset_ns = clocks.unix_offset_ns;
  return facts;
}

WideMachine::Truth WideMachine::truth() const {
  Truth truth;
  for (uint32_t i = 0; i < shape_.nr_cpus; i++) {
    Ring ring = {};
    bpf_map__lookup_elem(skeleton_->maps.ss_wide_rings, &i, sizeof(i), &ring, sizeof(ring), 0);
    truth.nr_written += ring.nr_written;
    truth.nr_refused += ring.nr_refused;
    truth.measured_ns += ring.written_ns;
  }
  return truth;
}

WideRecording::WideRecording(const WideShape& shape, size_t top, OutFile* file)
    : top_(top), file_(file), machine_(shape) {}

Status WideRecording::Start() {
  if (Status status = machine_.Start(); !status.ok()) return status;
  const ClockPair clocks = ReadClocks();
  const Facts facts = machine_.MakeFacts(clocks);
  output_.fold.top = top_;
  csv_ = std::make_unique<CsvSink>(file_, facts.unix_offset_ns, 0);
  writer_ = std::make_unique<Writer>(Writer::Queue::kLive, output_.fold, csv_.get(), &table_);
  pipeline_ = std::make_unique<Pipeline>(facts, clocks, output_, &machine_, &others_, this,
                                         GpuTracker::kNothing, writer_.get(), nullptr);
  csv_->WriteHeader({});
  writer_->Start();
  return pipeline_->Start();
}

void WideRecording::Stop() {
  if (pipeline_) pipeline_->Stop();
}

void WideRecording::OnSlot(Slot* slot) {
  nr_slots_++;
  nr_rows_ += slot->rows.size();
  writer_->OnSlot(slot);
}

}  // namespace slotscope
