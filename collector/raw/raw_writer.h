// SPDX-License-Identifier: MIT
// The raw writer thread: blocks that the merge is done with, to a raw file, and back to the reader. When
// the disk is slow the blocks run out, the reader waits, and the kernel counts what the rings cannot
// hold.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <thread>

#include "base/status.h"
#include "base/wakeup.h"
#include "raw/raw_file.h"
#include "ring/block_queue.h"

namespace slotscope {

class RawWriter {
 public:
  // `file` is open and has its facts; it is the thread's from here to Stop().
  RawWriter(RawFileWriter* file, BlockQueue* blocks);
  ~RawWriter();

  // Merge thread. In the order of the recording.
  void Put(Block* block) {
    written_next_.push(block);
    wakeup_.Notify();
  }
  // After the last Put(): everything is with the file when it returns.
  void Stop();

  // Any thread.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // After Stop(): the first error.
  const Status& status() const { return status_; }

 private:
  void Run();

  RawFileWriter* file_;
  BlockQueue* blocks_;
  boost::lockfree::spsc_queue<Block*> written_next_;  // produced by merge, consumed by this thread
  Wakeup wakeup_;
  Status status_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace slotscope
