// SPDX-License-Identifier: MIT
// The writer thread: what the merge thread has finished, in order, to the sinks. A slow disk stops here
// first; when the queue is full the merge thread waits, its queues fill, and the reader drops and
// counts.
//
// Slots change hands in batches, of a size that a core's cache holds: a wake-up for each, and who fills
// the next one gets the one that was emptied last, which is still in the cache.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/news.h"
#include "base/wakeup.h"
#include "sinks/csv_sink.h"
#include "sinks/pair_table.h"
#include "sinks/side_sink.h"
#include "sinks/top_table.h"
#include "slots/fold.h"
#include "slots/slot.h"

namespace slotscope {

// Told of each slot before the sinks get it, by the writer thread: where files end and begin.
class SlotBorder {
 public:
  virtual ~SlotBorder() = default;
  // After an error nothing more is written.
  virtual Status Before(const Slot& slot) = 0;
};

// What the summary shows of the whole run.
struct RunTables {
  TopTable totals;
  PairTable pairs;
};

class Writer final : public SlotSink {
 public:
  // How many batches may wait. Live, for half a second and more, as a disk may take that long to write;
  // a file that is read can wait.
  enum class Queue : size_t { kLive = 256, kFile = 4 };

  // The sinks, and what is told of borders (may be null), are the writer thread's from Start() to
  // Stop().
  Writer(Queue queue, FoldOptions fold, CsvSink* csv, RunTables* table,
         std::vector<SideSink*> sides = {}, SlotBorder* border = nullptr);
  ~Writer() override;

  void Start();
  // Merge thread. Waits while the queue is full.
  void OnSlot(Slot* slot) override;
  // Merge thread: what it has finished since does not wait until there is more of it.
  void Wake() {
    if (filling_) HandOver();
  }
  // After the last OnSlot(): everything is with the sinks when it returns.
  void Stop();

  // Any thread. A file beside slots.csv that cannot be written any more; the others go on.
  std::vector<std::string> TakeNews() { return news_.Take(); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // After Stop(). The first error of the borders.
  const Status& border_status() const { return border_status_; }
  bool full() const { return full_.load(std::memory_order_acquire); }
  uint64_t nr_rows() const { return nr_rows_.load(std::memory_order_relaxed); }
  uint64_t nr_slots() const { return nr_slots_.load(std::memory_order_relaxed); }

 private:
  struct Batch {
    std::vector<Slot> slots;  // its first nr_slots are finished
    size_t nr_slots = 0;
    size_t nr_rows = 0;  // of them
  };

  Batch* TakeEmpty();
  void HandOver();
  void Run();
  void Take(Batch* batch);
  void Take(Slot* slot);
  void AddToTables(const Slot& slot);
  void Trim(Batch* batch);
  void FreeSpares();

  FoldOptions fold_;
  GroupMembers members_;
  CsvSink* csv_;
  RunTables* table_;
  std::vector<SideSink*> sides_;
  SlotBorder* border_;
  Status border_status_;
  std::vector<Batch> batches_;  // all there are; each is in one of these or in use
  boost::lockfree::stack<Batch*> empty_;
  boost::lockfree::spsc_queue<Batch*> finished_;
  Wakeup finished_wakeup_, empty_wakeup_;
  Batch* filling_ = nullptr;  // merge thread
  std::thread thread_;
  size_t most_waiting_ = 0;  // writer thread: batches, since the last FreeSpares()
  News news_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> nr_rows_{0};
  std::atomic<uint64_t> nr_slots_{0};
};

}  // namespace slotscope
