// SPDX-License-Identifier: MIT
#include "raw/raw_writer.h"

#include "base/thread.h"

namespace slotscope {

RawWriter::RawWriter(RawFileWriter* file, BlockQueue* blocks)
    : file_(file), blocks_(blocks), written_next_(blocks->nr_blocks()), thread_([this] { Run(); }) {}

RawWriter::~RawWriter() { Stop(); }

void RawWriter::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_release);  // after the last push, for Run()'s last look
  wakeup_.Notify();
  thread_.join();
}

void RawWriter::Run() {
  NameThread("ss-raw");
  for (;;) {
    uint32_t seen = wakeup_.seen();
    bool stopping = stop_requested_.load(std::memory_order_acquire);
    Block* block;
    bool any = false;
    while (written_next_.pop(block)) {
      any = true;
      // After an error blocks still go back: the recording ends in good order.
      if (status_.ok()) status_ = file_->WriteItems(block->bytes());
      if (!status_.ok()) failed_.store(true, std::memory_order_relaxed);
      blocks_->PutEmpty(block);
    }
    if (!any && stopping) return;
    if (!any) wakeup_.Wait(seen);
  }
}

}  // namespace slotscope
