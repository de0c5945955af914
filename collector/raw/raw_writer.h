// SPDX-License-Identifier: MIT
// The raw writer thread: blocks that the merge is done with, to a raw file, and back to the reader. When
// the disk is slow the blocks run out, the reader waits, and the kernel counts what the rings cannot
// hold.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/wakeup.h"
#include "raw/raw_sink.h"
#include "ring/block_queue.h"

namespace slotscope {

class RawWriter {
 public:
  // `sink` has its facts; it is the thread's from here to Stop(), but for WantsSegment().
  RawWriter(RawSink* sink, BlockQueue* blocks);
  ~RawWriter();

  // Merge thread, before the next block is Put(): see RawSink.
  bool WantsSegment(const RawMoment& now) { return sink_->WantsSegment(now); }
  // Merge thread. In the order of the recording; `state`: a segment begins in front of it. `now`: after
  // the block.
  void Put(Block* block, const RawMoment& now, std::unique_ptr<std::string> state = nullptr) {
    written_next_.push({block, now, state.release()});
    wakeup_.Notify();
  }
  // After the last Put(): everything is with the file when it returns.
  void Stop();

  // Any thread.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // After Stop(): the first error.
  const Status& status() const { return status_; }

 private:
  struct Work {
    Block* block;
    RawMoment now;
    std::string* state;  // owned, may be null
  };

  void Run();
  Status Write(const Work& work);

  RawSink* sink_;
  BlockQueue* blocks_;
  boost::lockfree::spsc_queue<Work> written_next_;  // produced by merge, consumed by this thread
  Wakeup wakeup_;
  Status status_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace slotscope
