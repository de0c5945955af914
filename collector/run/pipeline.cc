// SPDX-License-Identifier: MIT
#include "run/pipeline.h"

#include <string>
#include <utility>

#include "base/thread.h"

namespace slotscope {

Pipeline::Pipeline(const Facts& facts, const ClockPair& clocks, const OutputOptions& output,
                   Source* source, ItemQueue* others, SlotSink* first, uint32_t keeps, Writer* writer,
                   RawSink* raw)
    : writer_(writer),
      engine_(facts, output.slot_ns, output.window_ns, KeepsOf(output) | keeps, first),
      reader_(source, facts.nr_streams, clocks, others) {
  if (raw) raw_writer_ = std::make_unique<RawWriter>(raw, &reader_.blocks());
}

Pipeline::~Pipeline() { Stop(); }

Status Pipeline::Start() {
  // Before the reader: the first state dump may be larger than all blocks.
  thread_ = std::thread([this] { Run(); });
  return reader_.Start();
}

void Pipeline::Stop() {
  if (!thread_.joinable()) return;
  reader_.Stop();
  reader_stopped_.store(true, std::memory_order_release);  // everything it queued is visible to Run()
  reader_.blocks().filled_wakeup().Notify();
  thread_.join();
  if (raw_writer_) raw_writer_->Stop();
  writer_->Stop();
}

RunCounts Pipeline::counts() const {
  std::lock_guard lock(counts_mutex_);
  return counts_;
}

Status Pipeline::status() const {
  if (broken_.load(std::memory_order_relaxed))
    return {Exit::kTryAgain,
            "CLOCK_MONOTONIC has jumped by more than ten minutes, or by more in sum than it ran (was "
            "the machine, or this process, paused?); the recording ends there"};
  return raw_status();
}

void Pipeline::Run() {
  NameThread("ss-merge");
  RaiseThreadPriority();
  for (;;) {
    uint32_t seen = reader_.blocks().filled_wakeup().seen();
    bool stopped = reader_stopped_.load(std::memory_order_acquire);
    Block* block = reader_.blocks().TakeFilled();
    if (block) {
      std::unique_ptr<std::string> state;
      if (raw_writer_ && engine_.builder().first_ns() && raw_writer_->WantsSegment(Now()))
        state = std::make_unique<std::string>(engine_.SaveState());
      // The reader's own: they are well-formed, but the machine's clock may be broken.
      if (!engine_.merger().OnItems(block->bytes())) broken_.store(true, std::memory_order_relaxed);
      if (raw_writer_)
        raw_writer_->Put(block, Now(), std::move(state));
      else
        reader_.blocks().PutEmpty(block);
    }
    const MergeStats& merge = engine_.merger().stats();
    if (merge.nr_lost != counts_.merge.nr_lost) reader_.RequestDump();  // a birth may be among them
    {
      std::lock_guard lock(counts_mutex_);
      counts_ = CountsOf(engine_);
    }
    first_slot_ns_.store(engine_.builder().first_ns(), std::memory_order_relaxed);
    if (!block && stopped) break;
    writer_->Wake();
    if (!block) reader_.blocks().filled_wakeup().Wait(seen);
  }
  engine_.Finish();
}

}  // namespace slotscope
