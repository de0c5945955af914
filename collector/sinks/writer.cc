// SPDX-License-Identifier: MIT
#include "sinks/writer.h"

#include <utility>

#include "base/clock.h"

namespace slotscope {
namespace {

constexpr size_t kQueuedSlots = 512;              // half a second
constexpr uint64_t kFlushPeriodNs = 500'000'000;  // a killed run loses at most a second

}  // namespace

Writer::Writer(FoldOptions fold, CsvSink* csv, TopTable* table, std::vector<SideSink*> sides)
    : fold_(std::move(fold)),
      csv_(csv),
      table_(table),
      sides_(std::move(sides)),
      empty_(kQueuedSlots),
      finished_(kQueuedSlots) {
  for (size_t i = 0; i < kQueuedSlots; i++) {
    slots_.push_back(std::make_unique<Slot>());
    empty_.push(slots_.back().get());
  }
}

Writer::~Writer() { Stop(); }

void Writer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Writer::OnSlot(Slot* slot) {
  Slot* copy;
  for (;;) {
    uint32_t seen = empty_wakeup_.seen();
    if (empty_.pop(copy)) break;
    Wake();
    empty_wakeup_.Wait(seen);
  }
  std::swap(*copy, *slot);
  finished_.push(copy);  // there is room: no more slots exist than it holds
  nr_unannounced_++;
}

void Writer::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_release);  // after the last push, for Run()'s last look
  finished_wakeup_.Notify();
  thread_.join();
}

void Writer::Take(Slot* slot) {
  table_->OnSlot(*slot);
  FoldSlot(fold_, slot);
  for (SideSink* side : sides_) side->OnSlot(*slot);
  csv_->OnSlot(*slot);
  nr_slots_.fetch_add(1, std::memory_order_relaxed);
  nr_rows_.store(csv_->nr_rows(), std::memory_order_relaxed);
  if (csv_->is_full()) full_.store(true, std::memory_order_release);
  empty_.push(slot);
  empty_wakeup_.Notify();
}

void Writer::Run() {
  uint64_t next_flush_ns = MonotonicNs() + kFlushPeriodNs;
  for (;;) {
    uint32_t seen = finished_wakeup_.seen();
    bool stopping = stop_requested_.load(std::memory_order_acquire);
    Slot* slot;
    bool any = false;
    while (finished_.pop(slot)) {
      Take(slot);
      any = true;
    }
    if (uint64_t now_ns = MonotonicNs(); now_ns >= next_flush_ns) {
      csv_->Flush();
      for (SideSink* side : sides_) side->Flush();
      next_flush_ns = now_ns + kFlushPeriodNs;
    }
    if (!csv_->status().ok()) failed_.store(true, std::memory_order_release);
    if (!any && stopping) return;
    if (!any) finished_wakeup_.Wait(seen);
  }
}

}  // namespace slotscope
