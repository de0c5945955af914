// SPDX-License-Identifier: MIT
// The stages of a recording, joined: reader thread -> merge thread -> writer thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/status.h"
#include "merge/merger.h"
#include "ring/reader.h"
#include "sinks/writer.h"
#include "slots/slot_builder.h"

namespace slotscope {

struct PipelineOptions {
  uint64_t slot_ns;
  uint64_t window_ns;
  int32_t follow_tgid = 0;  // 0: nobody
};

// What the progress line shows; a little behind the truth.
struct PipelineProgress {
  uint64_t nr_messages;
  uint64_t nr_lost;  // records lost and messages dropped
};

class Pipeline {
 public:
  // `source` is started; all outlive the pipeline.
  Pipeline(const PipelineOptions& options, Source* source, Writer* writer);
  ~Pipeline();

  // The writer is started by the caller, once its sinks have their header; slots wait for it.
  Status Start();
  // Drains what is on its way, finishes the last slot and joins. The writer is stopped too.
  void Stop();

  PipelineProgress progress() const;
  // Where the first slot starts; 0 until that is known (some rounds after Start()).
  uint64_t first_slot_ns() const { return first_slot_ns_.load(std::memory_order_relaxed); }
  std::string TakeWarning() { return reader_.TakeWarning(); }

  // After Stop().
  const MergeStats& merge_stats() const { return merger_.stats(); }
  const SlotBuilder& builder() const { return builder_; }

 private:
  void Run();
  bool TakeFrames();

  Writer* writer_;
  SlotBuilder builder_;
  Merger merger_;
  Reader reader_;
  std::thread thread_;
  std::atomic<bool> reader_stopped_{false};
  std::atomic<uint64_t> nr_messages_{0};
  std::atomic<uint64_t> nr_lost_{0};
  std::atomic<uint64_t> first_slot_ns_{0};
};

}  // namespace slotscope
