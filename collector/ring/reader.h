// SPDX-License-Identifier: MIT
// The reader thread: drains every ring into blocks, round by round, watches CPUs and the wall clock, and
// fetches state dumps. The only thread that touches the source while it records.
//
// When all blocks are with the others it waits, and the rings fill: the kernel counts what it cannot
// write (PERF_RECORD_LOST), so there is one place where messages can be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "ring/block_queue.h"
#include "ring/item_queue.h"
#include "ring/pod_logs.h"
#include "ring/round_length.h"
#include "ring/source.h"

namespace slotscope {

// When a state dump may begin again after one that took from begin_ns to end_ns. A dump must not be what
// loses the next records; of many processes it takes long, and while the table of processes is full,
// there is one after another: so it rests fifty times as long as it took.
constexpr uint64_t NextDumpNs(uint64_t begin_ns, uint64_t end_ns) {
  constexpr uint64_t kPeriodNs = 1'000'000'000, kRest = 50;
  return end_ns + std::max(kPeriodNs, kRest * (end_ns - begin_ns));
}

class Reader {
 public:
  // Streams 0 .. nr_cpus-1 are the CPUs' rings, stream nr_cpus is the dumps'. `source` is started.
  // `clocks`: what the output's header has. `others`: what other threads say. All outlive the reader.
  Reader(Source* source, size_t nr_cpus, const ClockPair& clocks, ItemQueue* others);
  ~Reader();

  // What it fills. To be consumed by one thread, from before Start().
  BlockQueue& blocks() { return blocks_; }

  // Takes the first state dump (measures begin with it) and starts the thread.
  Status Start();
  // Any thread: a dump is taken soon; several requests are one.
  void RequestDump() { dump_requested_.store(true, std::memory_order_relaxed); }
  // Before Start(): while little comes, rounds may be long. Nobody acts on what we say within less.
  void AllowQuiet() { round_length_.AllowQuiet(); }
  // Any thread: drains less often or not, when the recording costs too much.
  void SlowDown(bool slow) { round_length_.SlowDown(slow); }
  // Detaches the source, drains the rest, announces the last rounds and joins.
  void Stop();
  // After Stop() and whatever was queued, there is no more.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // Sentences about what failed while recording (a CPU that could not be opened, a dump).
  std::vector<std::string> TakeWarnings();

 private:
  struct Cpu {
    bool online = false;                          // its ring is open
    Backoff backoff{50'000'000, 10'000'000'000};  // it could not be opened
  };

  void Run();
  // An item of the current block, or of a new one.
  void Put(ItemKind kind, size_t stream, uint64_t begin_ns, uint64_t end_ns = 0,
           std::span<const std::byte> payload = {});
  void MakeRoom(size_t size);
  void HandOver();
  void DrainRing(size_t cpu);
  // Drains every ring: a round, which the merge gets at once.
  void DrainAll();
  void AnnounceOnline(size_t cpu, uint64_t now_ns);
  void FollowHotplug();
  void BringOnline(size_t cpu);
  void TakeOffline(size_t cpu);
  void ReopenDeadRings();
  void WatchClock();
  void FollowClock();
  void FollowLosses();
  void FollowLostCalls(uint64_t begun_ns);
  void AddOthersLosses(SourceLosses* losses);
  void PutLosses(const SourceLosses& losses, uint64_t since_ns);
  void FollowNews();
  void PutOthers();
  void FollowPods();
  Status TakeDump();
  void Warn(std::string text);

  Source* source_;
  size_t nr_cpus_;
  ItemQueue* others_;
  BlockQueue blocks_;
  // Of the reader thread, once it runs:
  Block* block_ = nullptr;  // being filled
  std::vector<Cpu> cpus_;
  std::vector<uint64_t> output_errors_;  // [cpu]
  PodLogs pods_;
  RoundLength round_length_;
  uint64_t most_bytes_ = 0;         // of a ring, in this round
  uint64_t ended_ns_ = UINT64_MAX;  // from when on the source need not send measures
  UniqueFd wake_;                   // somebody wants the thread to look around
  UniqueFd hotplug_;                // see OpenHotplugEvents()
  UniqueFd clock_set_;              // a timer that never ends, but when somebody sets the wall clock
  int64_t unix_offset_ns_;
  uint64_t unix_error_ns_;
  SourceLosses losses_;
  uint64_t losses_checked_ns_ = 0;
  uint64_t lost_calls_checked_ns_ = 0;
  std::thread thread_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> dump_requested_{false};
  std::atomic<bool> finished_{false};
  std::mutex warnings_mutex_;
  std::vector<std::string> warnings_;
};

}  // namespace slotscope
