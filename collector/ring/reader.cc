// SPDX-License-Identifier: MIT
#include "ring/reader.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "base/cpu_list.h"

namespace slotscope {
namespace {

// A round every 5 ms: short beside the window of 64 slots, and about 100 wake-ups a second and CPU
// cheaper than following the events.
constexpr int kRoundMs = 5;
constexpr uint64_t kHotplugPeriodNs = 50'000'000;
constexpr uint64_t kLossCheckPeriodNs = 1'000'000'000;
// As many bytes as a ring holds: the merge thread may be away as long as the reader.
constexpr size_t kQueueBytes = 2u << 20;
constexpr int kReaderNice = -10;  // a late reader loses data; it works for microseconds per round

}  // namespace

class Reader::Visitor final : public RingVisitor {
 public:
  explicit Visitor(Reader* reader) : reader_(reader) {}

  void OnMessage(int cpu, std::span<const std::byte> bytes) override {
    auto stream = static_cast<size_t>(cpu);
    ss_hdr header = {};
    if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
    // perf pads raw data to 8 bytes, so what it hands out may be longer than the message.
    if (header.size < sizeof(header) || header.size > kMaxMessageSize || header.size > bytes.size() ||
        bytes.size() >= header.size + 8u)
      reader_->Push(stream, FrameKind::kMalformed, 1);
    else if (!reader_->queue(stream).PushMessage(bytes.first(header.size)))
      reader_->RequestDump();
  }
  void OnLost(int cpu, uint64_t nr_records) override {
    reader_->Push(static_cast<size_t>(cpu), FrameKind::kLost, nr_records);
    reader_->RequestDump();  // a birth may be among them
  }

 private:
  Reader* reader_;
};

Reader::Reader(Source* source, size_t nr_cpus) : source_(source), nr_cpus_(nr_cpus), online_(nr_cpus) {
  for (size_t stream = 0; stream <= nr_cpus; stream++)
    queues_.push_back(std::make_unique<FrameQueue>(kQueueBytes));
  for (size_t cpu = 0; cpu < nr_cpus; cpu++)
    online_[cpu] = source->rings().is_open(static_cast<int>(cpu));
}

Reader::~Reader() { Stop(); }

Status Reader::Start() {
  uint64_t now_ns = MonotonicNs();
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++)
    if (online_[cpu]) AnnounceOnline(cpu, now_ns);
  if (Status status = TakeDump(); !status.ok()) return status;
  thread_ = std::thread([this] { Run(); });
  return {};
}

void Reader::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_relaxed);
  thread_.join();
}

std::string Reader::TakeWarning() {
  std::lock_guard lock(warning_mutex_);
  return std::exchange(warning_, {});
}

void Reader::Warn(std::string text) {
  std::lock_guard lock(warning_mutex_);
  warning_ = std::move(text);
}

// A note that finds no room is tried again: losing one would hide a loss or stop the watermark. The
// consumer is a thread that never waits for us.
void Reader::Push(size_t stream, FrameKind kind, uint64_t value) {
  while (!queues_[stream]->PushNote(kind, value))
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void Reader::DrainAll() {
  Visitor visitor(this);
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++) {
    uint64_t before_ns = MonotonicNs();
    if (source_->rings().Drain(static_cast<int>(cpu), &visitor)) Push(cpu, FrameKind::kRound, before_ns);
  }
}

Status Reader::TakeDump() {
  Push(nr_cpus_, FrameKind::kDumpBegin, MonotonicNs());
  Status status = source_->Dump(
      [this](std::span<const std::byte> message) { queues_[nr_cpus_]->PushMessage(message); },
      [this] { DrainAll(); });
  if (!status.ok()) return status;
  DrainAll();
  Push(nr_cpus_, FrameKind::kDumpEnd, MonotonicNs());
  return {};
}

void Reader::AnnounceOnline(size_t cpu, uint64_t now_ns) {
  Push(cpu, FrameKind::kOnline, now_ns);
  const auto& watched = source_->info().watched_cpus;
  if (std::binary_search(watched.begin(), watched.end(), static_cast<int>(cpu)))
    Push(cpu, FrameKind::kExpected, now_ns);
}

void Reader::FollowHotplug() {
  auto online = ReadCpuList("online");
  if (online.empty()) return;  // unreadable: nothing is known to have changed
  for (size_t index = 0; index < nr_cpus_; index++) {
    int cpu = static_cast<int>(index);
    bool now_online = std::binary_search(online.begin(), online.end(), cpu);
    if (now_online == online_[index]) continue;
    if (now_online) {
      if (Status status = source_->OnlineCpu(cpu); !status.ok()) {
        Warn(status.message());
        continue;  // tried again at the next look
      }
      AnnounceOnline(index, MonotonicNs());
      RequestDump();  // births between its first switch and its ring found no place to write to
    } else {
      Visitor visitor(this);
      source_->rings().Drain(cpu, &visitor);
      source_->OfflineCpu(cpu);
      source_->rings().Close(cpu);
      Push(index, FrameKind::kOffline, MonotonicNs());
    }
    online_[index] = now_online;
  }
}

void Reader::Run() {
  setpriority(PRIO_PROCESS, 0,
              kReaderNice);  // this thread only; refused without privilege, and then so be it
  uint64_t next_hotplug_ns = 0, next_loss_check_ns = 0, nr_losses = 0;
  while (!stop_requested_.load(std::memory_order_relaxed)) {
    source_->rings().Wait(kRoundMs);
    DrainAll();
    uint64_t now_ns = MonotonicNs();
    if (now_ns >= next_hotplug_ns) {
      next_hotplug_ns = now_ns + kHotplugPeriodNs;
      FollowHotplug();
      source_->Heal();
    }
    if (now_ns >= next_loss_check_ns) {
      next_loss_check_ns = now_ns + kLossCheckPeriodNs;
      SourceLosses losses = source_->losses();
      uint64_t nr_now = losses.nr_output_errors + losses.nr_skipped_runs;
      if (nr_now != nr_losses) RequestDump();
      nr_losses = nr_now;
    }
    if (dump_requested_.exchange(false, std::memory_order_relaxed))
      if (Status status = TakeDump(); !status.ok()) Warn(status.message());
  }
  source_->Stop();
  DrainAll();
  // Everything queued before is visible to a consumer that sees the flag.
  finished_.store(true, std::memory_order_release);
}

}  // namespace slotscope
