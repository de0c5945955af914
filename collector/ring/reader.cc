// SPDX-License-Identifier: MIT
#include "ring/reader.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/event_fd.h"
#include "base/thread.h"
#include "ring/hotplug_events.h"

namespace slotscope {
namespace {

constexpr uint64_t kHotplugPeriodNs = 50'000'000;
constexpr uint64_t kLossCheckPeriodNs = 1'000'000'000;
// 320 ms of rounds and 16 MB, more on large machines; pages that are never filled cost nothing.
constexpr size_t kBlocks = 64;
constexpr size_t kBlocksLargeMachine = 256;
constexpr size_t kLargeMachineCpus = 16;
// A CLOCK_REALTIME that was set: less is the imprecision of reading two clocks.
constexpr uint64_t kClockStepNs = 10'000;
constexpr size_t kMinDrainBytes = 32u << 10;
constexpr time_t kNever = time_t{1} << 33;  // seconds since 1970

}  // namespace

Reader::Reader(Source* source, size_t nr_cpus, const ClockPair& clocks, ItemQueue* others)
    : source_(source),
      nr_cpus_(nr_cpus),
      others_(others),
      blocks_(nr_cpus > kLargeMachineCpus ? kBlocksLargeMachine : kBlocks),
      cpus_(nr_cpus),
      unix_offset_ns_(clocks.unix_offset_ns),
      unix_error_ns_(clocks.error_ns) {
  for (size_t cpu = 0; cpu < nr_cpus; cpu++)
    cpus_[cpu].online = source->rings().is_open(static_cast<int>(cpu));
}

Reader::~Reader() { Stop(); }

Status Reader::Start() {
  uint64_t now_ns = MonotonicNs();
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++)
    if (cpus_[cpu].online) AnnounceOnline(cpu, now_ns);
  FollowPods();
  if (Status status = TakeDump(); !status.ok()) return status;
  if (Status status = OpenEventFd(&wake_); !status.ok()) return status;
  source_->rings().Watch(wake_.get(), PerfRings::Trigger::kLevel);
  WatchClock();
  if (pods_.fd() >= 0) source_->rings().Watch(pods_.fd(), PerfRings::Trigger::kEdge);
  hotplug_ = OpenHotplugEvents();
  if (hotplug_.valid()) {
    source_->rings().Watch(hotplug_.get(), PerfRings::Trigger::kEdge);
    round_length_.HearOfHotplug();
  }
  thread_ = std::thread([this] { Run(); });
  return {};
}

void Reader::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_relaxed);
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::vector<std::string> Reader::TakeWarnings() {
  std::lock_guard lock(warnings_mutex_);
  return std::exchange(warnings_, {});
}

void Reader::Warn(std::string text) {
  std::lock_guard lock(warnings_mutex_);
  warnings_.push_back(std::move(text));
}

void Reader::HandOver() {
  if (block_ && block_->size() > 0) blocks_.PutFilled(std::exchange(block_, nullptr));
}

// The consumers never wait for us, so a block comes back.
void Reader::MakeRoom(size_t size) {
  if (block_ && block_->room() < size) HandOver();
  while (!block_ && !(block_ = blocks_.TakeEmpty()))
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void Reader::Put(ItemKind kind, size_t stream, uint64_t begin_ns, uint64_t end_ns,
                 std::span<const std::byte> payload) {
  MakeRoom(sizeof(ItemHeader) + payload.size());
  block_->Append({kind, 0, static_cast<uint32_t>(stream), 0, 0, begin_ns, end_ns}, payload);
}

// What is in the ring when we look first, however fast it fills meanwhile: a busy CPU must not keep us
// from the others.
void Reader::DrainRing(size_t cpu) {
  if (!source_->rings().is_open(static_cast<int>(cpu))) return;
  const uint64_t before_ns = std::min(MonotonicNs(), ended_ns_);
  uint64_t until = 0, bytes = 0;
  for (bool more = true; more;) {
    // Some room for records, or a block of its own: a ring that is never empty must not make small
    // items.
    MakeRoom(sizeof(ItemHeader) + kMinDrainBytes);
    std::byte* at = block_->data() + block_->size();
    ItemHeader header = {ItemKind::kRecords, 0, static_cast<uint32_t>(cpu), 0, 0, before_ns, 0};
    Taken taken = source_->rings().Take(static_cast<int>(cpu), &until,
                                        {at + sizeof(header), block_->room() - sizeof(header)});
    header.end_ns = MonotonicNs();
    header.size = static_cast<uint32_t>(taken.size);
    header.flags = taken.more ? kItemMore : 0;
    std::memcpy(at, &header, sizeof(header));
    block_->Resize(block_->size() + sizeof(header) + taken.size);
    more = taken.more;
    bytes += taken.size;
    if (more) HandOver();
  }
  most_bytes_ = std::max(most_bytes_, bytes);
}

void Reader::DrainAll() {
  const uint64_t begun_ns = MonotonicNs();
  most_bytes_ = 0;
  others_->Prompt();
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++) DrainRing(cpu);
  FollowLostCalls(begun_ns);
  round_length_.OnRound(begun_ns, most_bytes_, source_->rings().ring_bytes());
  Put(ItemKind::kRoundEnd, 0, 0);
  HandOver();
}

Status Reader::TakeDump() {
  Put(ItemKind::kDumpBegin, nr_cpus_, MonotonicNs());
  Status status = source_->Dump(
      [this](std::span<const std::byte> messages) {
        uint64_t now_ns = MonotonicNs();
        Put(ItemKind::kDump, nr_cpus_, now_ns, now_ns, messages);
      },
      [this] { DrainAll(); });
  if (!status.ok()) return status;
  DrainAll();
  Put(ItemKind::kDumpEnd, nr_cpus_, MonotonicNs());
  return {};
}

void Reader::FollowPods() {
  std::string lines;
  if (!pods_.Take(&lines)) return;
  lines.resize((lines.size() + kItemAlign) / kItemAlign * kItemAlign);
  Put(ItemKind::kPods, 0, MonotonicNs(), 0, std::as_bytes(std::span(lines)));
}

void Reader::AnnounceOnline(size_t cpu, uint64_t now_ns) {
  Put(ItemKind::kOnline, cpu, now_ns);
  const auto& watched = source_->info().watched_cpus;
  if (std::binary_search(watched.begin(), watched.end(), static_cast<int>(cpu)))
    Put(ItemKind::kExpected, cpu, now_ns);
}

void Reader::FollowHotplug() {
  const std::vector<int> online = source_->OnlineCpus();
  if (online.empty()) return;  // unreadable: nothing is known to have changed
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++) {
    bool now_online = std::binary_search(online.begin(), online.end(), static_cast<int>(cpu));
    if (now_online == cpus_[cpu].online) continue;
    if (now_online)
      BringOnline(cpu);
    else
      TakeOffline(cpu);
  }
}

void Reader::BringOnline(size_t index) {
  Cpu& cpu = cpus_[index];
  const uint64_t now_ns = MonotonicNs();
  if (!cpu.backoff.IsDue(now_ns)) return;
  // A CPU in the online list may yet fail to come up. The kernel then frees the perf events on it
  // without taking them out of its lists (6.12: perf:prepare lets them in, and its teardown finds the
  // CPU dead).
  if (!IsCpuOnline(static_cast<int>(index))) return;
  if (Status status = source_->OnlineCpu(static_cast<int>(index)); !status.ok()) {
    // Tried again, ever less often; said once.
    source_->rings().Close(static_cast<int>(index));
    if (cpu.backoff.Fail(now_ns)) Warn(status.message());
    return;
  }
  cpu.online = true;
  cpu.backoff.Succeed();
  AnnounceOnline(index, MonotonicNs());
  RequestDump();  // births between its first switch and its ring found no place to write to
}

void Reader::TakeOffline(size_t index) {
  DrainRing(index);
  source_->OfflineCpu(static_cast<int>(index));
  source_->rings().Close(static_cast<int>(index));
  Put(ItemKind::kOffline, index, MonotonicNs());
  cpus_[index] = {};
}

// A CPU that went away and came back between two looks has a dead ring: whatever it writes is an error.
void Reader::ReopenDeadRings() {
  std::vector<uint64_t> errors = source_->output_errors();
  output_errors_.resize(errors.size());
  for (size_t cpu = 0; cpu < std::min(errors.size(), nr_cpus_); cpu++) {
    if (errors[cpu] == output_errors_[cpu] || !cpus_[cpu].online) continue;
    TakeOffline(cpu);
    BringOnline(cpu);
  }
  output_errors_ = std::move(errors);
}

// A step is to be noticed at once, however long a round is.
void Reader::WatchClock() {
  clock_set_.Reset(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec never = {};
  never.it_value.tv_sec = kNever;
  if (clock_set_.valid() &&
      timerfd_settime(clock_set_.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr) ==
          0)
    source_->rings().Watch(clock_set_.get(), PerfRings::Trigger::kEdge);
}

void Reader::FollowClock() {
  ClockPair now = ReadClocks();
  auto moved_ns = static_cast<uint64_t>(std::abs(now.unix_offset_ns - unix_offset_ns_));
  if (moved_ns <= kClockStepNs + now.error_ns + unix_error_ns_) return;
  unix_offset_ns_ = now.unix_offset_ns;
  unix_error_ns_ = now.error_ns;
  Put(ItemKind::kClock, 0, now.monotonic_ns, static_cast<uint64_t>(now.unix_offset_ns));
}

void Reader::FollowNews() {
  std::string news = source_->TakeNews();
  if (news.empty()) return;
  Warn(news);
  others_->PutNote(std::move(news));
}

void Reader::FollowLosses() {
  const uint64_t now_ns = MonotonicNs();  // what is lost from here on is told next time
  SourceLosses losses = source_->losses();
  AddOthersLosses(&losses);
  // At the end nobody writes to a new one.
  if (losses.nr_output_errors != losses_.nr_output_errors && ended_ns_ == UINT64_MAX) ReopenDeadRings();
  if (losses.nr_output_errors != losses_.nr_output_errors ||
      losses.nr_skipped_runs != losses_.nr_skipped_runs || losses.nr_untracked != losses_.nr_untracked ||
      losses.nr_untold_renames != losses_.nr_untold_renames)
    RequestDump();  // a birth may be among them, or an end that cannot be told, or a name
  PutLosses(losses, std::exchange(losses_checked_ns_, now_ns));
}

// In every round: what is lost of them must be known before its slot is finished. Those that are found
// now were made since the last round began, as they wait for each other.
void Reader::FollowLostCalls(uint64_t begun_ns) {
  SourceLosses losses = losses_;
  AddOthersLosses(&losses);
  PutLosses(losses, std::exchange(lost_calls_checked_ns_, begun_ns));
}

void Reader::AddOthersLosses(SourceLosses* losses) {
  std::vector<LostCalls> lost;
  others_->AddLosses(losses, &lost);
  for (const LostCalls& one : lost)
    Put(ItemKind::kLostCalls, 0, MonotonicNs(), lost_calls_checked_ns_,
        std::as_bytes(std::span(&one, 1)));
}

void Reader::PutLosses(const SourceLosses& losses, uint64_t since_ns) {
  if (losses == losses_) return;
  losses_ = losses;
  Put(ItemKind::kLosses, 0, MonotonicNs(), since_ns, std::as_bytes(std::span(&losses_, 1)));
}

void Reader::PutOthers() {
  for (const ItemQueue::Entry& entry : others_->Take())
    Put(entry.kind, 0, entry.begin_ns, 0, entry.payload);
}

void Reader::Run() {
  NameThread("ss-reader");
  RaiseThreadPriority();
  uint64_t next_hotplug_ns = 0, next_loss_check_ns = 0, next_dump_ns = 0;
  while (!stop_requested_.load(std::memory_order_relaxed)) {
    source_->rings().Wait(round_length_.ms());
    FollowClock();
    PutOthers();
    FollowPods();
    DrainAll();
    uint64_t now_ns = MonotonicNs();
    if (now_ns >= next_hotplug_ns) {
      next_hotplug_ns = now_ns + kHotplugPeriodNs;
      if (hotplug_.valid()) TakeHotplugEvents(hotplug_.get());
      FollowHotplug();
      source_->Heal();
    }
    if (now_ns >= next_loss_check_ns) {
      next_loss_check_ns = now_ns + kLossCheckPeriodNs;
      FollowLosses();
      FollowNews();
    }
    if (now_ns >= next_dump_ns && dump_requested_.exchange(false, std::memory_order_relaxed)) {
      if (Status status = TakeDump(); !status.ok()) Warn(status.message());
      next_dump_ns = NextDumpNs(now_ns, MonotonicNs());
    }
  }
  // To detach takes from milliseconds to seconds (PREEMPT_RT). That no measure came meanwhile is no
  // loss.
  ended_ns_ = MonotonicNs();
  source_->Stop();
  others_->Prompt();  // what it cannot write is lost, too
  FollowLosses();
  FollowNews();
  PutOthers();
  DrainAll();
  // Everything queued before is visible to a consumer that sees the flag.
  finished_.store(true, std::memory_order_release);
}

}  // namespace slotscope
