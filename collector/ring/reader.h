// SPDX-License-Identifier: MIT
// The reader thread: drains every ring into its frame queue, watches CPUs come and go, and fetches state
// dumps. The only thread that touches the source while it records.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "ring/frame_queue.h"
#include "ring/source.h"

namespace slotscope {

class Reader {
 public:
  // Streams 0 .. nr_cpus-1 are the CPUs' rings, stream nr_cpus is the dumps'. `source` is started.
  Reader(Source* source, size_t nr_cpus);
  ~Reader();

  size_t nr_streams() const { return queues_.size(); }
  // To be consumed by one thread.
  FrameQueue& queue(size_t stream) { return *queues_[stream]; }

  // Takes the first state dump (measures begin with it) and starts the thread.
  Status Start();
  // Any thread: a dump is taken soon; several requests are one.
  void RequestDump() { dump_requested_.store(true, std::memory_order_relaxed); }
  // Detaches the source, drains the rest, announces the last rounds and joins.
  void Stop();
  // After Stop() and whatever was queued, there is no more.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // A sentence if something failed while recording (a CPU that could not be opened, a dump).
  std::string TakeWarning();

 private:
  class Visitor;

  void Run();
  void DrainAll();
  void AnnounceOnline(size_t cpu, uint64_t now_ns);
  void FollowHotplug();
  Status TakeDump();
  void Push(size_t stream, FrameKind kind, uint64_t value);
  void Warn(std::string text);

  Source* source_;
  size_t nr_cpus_;
  std::vector<std::unique_ptr<FrameQueue>> queues_;
  std::vector<bool> online_;  // reader thread
  std::thread thread_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> dump_requested_{false};
  std::atomic<bool> finished_{false};
  std::mutex warning_mutex_;
  std::string warning_;
};

}  // namespace slotscope
