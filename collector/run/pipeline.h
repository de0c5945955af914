// SPDX-License-Identifier: MIT
// The stages of a recording, joined: reader thread -> merge thread -> writer thread (-> raw writer
// thread).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "raw/facts.h"
#include "raw/raw_writer.h"
#include "ring/reader.h"
#include "run/counts.h"
#include "run/engine.h"
#include "run/options.h"
#include "sinks/writer.h"

namespace slotscope {

class Pipeline {
 public:
  // `source` is started, `raw` has its facts or is null; all outlive the pipeline.
  // `clocks` are those of the facts, `others` is what other threads say. Slots go to `first`, which
  // passes them on to the writer, with what is of `keeps` (GpuTracker::Keeps).
  Pipeline(const Facts& facts, const ClockPair& clocks, const OutputOptions& output, Source* source,
           ItemQueue* others, SlotSink* first, uint32_t keeps, Writer* writer, RawSink* raw);
  ~Pipeline();

  // Before Start(), see Reader.
  void AllowQuiet() { reader_.AllowQuiet(); }
  // The writer is started by the caller, once its sinks have their header; slots wait for it.
  Status Start();
  // Drains what is on its way, finishes the last slot and joins. The writers are stopped too.
  void Stop();

  // A little behind the truth, and without what the sinks know.
  RunCounts counts() const;
  // Where the first slot starts; 0 until that is known (some rounds after Start()).
  uint64_t first_slot_ns() const { return first_slot_ns_.load(std::memory_order_relaxed); }
  // Something that cannot go on has happened; status() says what, after Stop().
  bool failed() const {
    return broken_.load(std::memory_order_relaxed) || (raw_writer_ && raw_writer_->failed());
  }
  void SlowDown(bool slow) { reader_.SlowDown(slow); }
  std::vector<std::string> TakeWarnings() { return reader_.TakeWarnings(); }

  // After Stop().
  Status status() const;
  // Of the raw file.
  Status raw_status() const { return raw_writer_ ? raw_writer_->status() : Status(); }
  const Engine& engine() const { return engine_; }

 private:
  void Run();
  RawMoment Now() const { return {engine_.merger().clock_ns(), engine_.builder().unix_offset_ns()}; }

  Writer* writer_;
  Engine engine_;
  Reader reader_;
  std::unique_ptr<RawWriter> raw_writer_;
  std::thread thread_;
  std::atomic<bool> reader_stopped_{false};
  std::atomic<bool> broken_{false};
  mutable std::mutex counts_mutex_;
  RunCounts counts_;
  std::atomic<uint64_t> first_slot_ns_{0};
};

}  // namespace slotscope
