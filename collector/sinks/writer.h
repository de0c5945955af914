// SPDX-License-Identifier: MIT
// The writer thread: what the merge thread has finished, in order, to the sinks. A slow disk stops here
// first; when the queue is full the merge thread waits, its queues fill, and the reader drops and
// counts.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/wakeup.h"
#include "sinks/csv_sink.h"
#include "sinks/side_sink.h"
#include "sinks/top_table.h"
#include "slots/fold.h"
#include "slots/slot.h"

namespace slotscope {

class Writer final : public SlotSink {
 public:
  // The sinks are the writer thread's from Start() to Stop().
  Writer(FoldOptions fold, CsvSink* csv, TopTable* table, std::vector<SideSink*> sides = {});
  ~Writer() override;

  void Start();
  // Merge thread. Waits while the queue is full.
  void OnSlot(Slot* slot) override;
  // Merge thread, after some slots: one wake-up for all of them.
  void Wake() {
    if (nr_unannounced_ == 0) return;
    nr_unannounced_ = 0;
    finished_wakeup_.Notify();
  }
  // After the last OnSlot(): everything is with the sinks when it returns.
  void Stop();

  // Any thread.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  bool full() const { return full_.load(std::memory_order_acquire); }
  uint64_t nr_rows() const { return nr_rows_.load(std::memory_order_relaxed); }
  uint64_t nr_slots() const { return nr_slots_.load(std::memory_order_relaxed); }

 private:
  void Run();
  void Take(Slot* slot);

  FoldOptions fold_;
  CsvSink* csv_;
  TopTable* table_;
  std::vector<SideSink*> sides_;
  std::vector<std::unique_ptr<Slot>> slots_;     // all there are; each is in one queue or in use
  boost::lockfree::spsc_queue<Slot*> empty_;     // produced by the writer, consumed by the merge thread
  boost::lockfree::spsc_queue<Slot*> finished_;  // produced by the merge thread, consumed by the writer
  Wakeup finished_wakeup_, empty_wakeup_;
  size_t nr_unannounced_ = 0;  // merge thread
  std::thread thread_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> nr_rows_{0};
  std::atomic<uint64_t> nr_slots_{0};
};

}  // namespace slotscope
