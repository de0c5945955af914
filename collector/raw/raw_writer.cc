// SPDX-License-Identifier: MIT
#include "raw/raw_writer.h"

#include "base/thread.h"

namespace slotscope {

RawWriter::RawWriter(RawSink* sink, BlockQueue* blocks)
    : sink_(sink), blocks_(blocks), written_next_(blocks->nr_blocks()), thread_([this] { Run(); }) {}

RawWriter::~RawWriter() { Stop(); }

void RawWriter::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_release);  // after the last push, for Run()'s last look
  wakeup_.Notify();
  thread_.join();
}

Status RawWriter::Write(const Work& work) {
  if (work.state)
    if (Status status = sink_->BeginSegment(*work.state, work.now); !status.ok()) return status;
  return sink_->WriteItems(work.block->bytes(), work.now);
}

void RawWriter::Run() {
  NameThread("ss-raw");
  for (;;) {
    uint32_t seen = wakeup_.seen();
    bool stopping = stop_requested_.load(std::memory_order_acquire);
    Work work;
    bool any = false;
    while (written_next_.pop(work)) {
      any = true;
      // After an error blocks still go back: the recording ends in good order.
      if (status_.ok()) status_ = Write(work);
      if (!status_.ok()) failed_.store(true, std::memory_order_relaxed);
      delete work.state;
      blocks_->PutEmpty(work.block);
    }
    if (!any && stopping) return;
    if (!any) wakeup_.Wait(seen);
  }
}

}  // namespace slotscope
