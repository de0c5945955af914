// SPDX-License-Identifier: MIT
#include "cli/pipeline.h"

#include <chrono>

#include "base/cpu_list.h"
#include "ring/bpf_object.h"

namespace slotscope {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);
constexpr int kFramesPerTurn = 1024;  // of one stream, so that no stream waits for a busy one

SlotBuilderOptions BuilderOptions(const PipelineOptions& options) {
  SlotBuilderOptions builder;
  builder.slot_ns = options.slot_ns;
  builder.window_ns = options.window_ns;
  builder.present_cpus = ReadCpuList("present");
  return builder;
}

}  // namespace

Pipeline::Pipeline(const PipelineOptions& options, Source* source, Writer* writer)
    : writer_(writer),
      builder_(BuilderOptions(options), writer),
      merger_(PossibleCpus(), options.window_ns, &builder_),
      reader_(source, PossibleCpus()) {
  if (options.follow_tgid) builder_.Follow(options.follow_tgid);
}

Pipeline::~Pipeline() { Stop(); }

Status Pipeline::Start() {
  // Before the reader: the first state dump may be larger than a queue.
  thread_ = std::thread([this] { Run(); });
  return reader_.Start();
}

void Pipeline::Stop() {
  if (!thread_.joinable()) return;
  reader_.Stop();
  reader_stopped_.store(true, std::memory_order_release);  // everything it queued is visible to Run()
  thread_.join();
  writer_->Stop();
}

PipelineProgress Pipeline::progress() const {
  return {nr_messages_.load(std::memory_order_relaxed), nr_lost_.load(std::memory_order_relaxed)};
}

bool Pipeline::TakeFrames() {
  bool any = false;
  FrameBuffer frame;
  for (size_t stream = 0; stream < reader_.nr_streams(); stream++)
    for (int i = 0; i < kFramesPerTurn && reader_.queue(stream).Pop(&frame); i++) {
      merger_.OnFrame(stream, frame);
      any = true;
    }
  return any;
}

void Pipeline::Run() {
  for (;;) {
    bool stopped = reader_stopped_.load(std::memory_order_acquire);
    bool any = TakeFrames();
    merger_.Advance();
    first_slot_ns_.store(builder_.first_ns(), std::memory_order_relaxed);
    nr_messages_.store(merger_.stats().nr_messages, std::memory_order_relaxed);
    nr_lost_.store(merger_.stats().nr_lost + merger_.stats().nr_dropped, std::memory_order_relaxed);
    if (!any && stopped) break;
    if (!any) std::this_thread::sleep_for(kPause);
  }
  merger_.Flush();
  builder_.Finish();
}

}  // namespace slotscope
