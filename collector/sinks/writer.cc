// SPDX-License-Identifier: MIT
#include "sinks/writer.h"

#include <chrono>

#include "base/clock.h"

namespace slotscope {
namespace {

constexpr size_t kQueuedSlots = 512;  // half a second
constexpr auto kPause = std::chrono::milliseconds(2);
constexpr uint64_t kFlushPeriodNs = 500'000'000;  // a killed run loses at most a second

}  // namespace

Writer::Writer(FoldOptions fold, CsvSink* csv, TopTable* table)
    : fold_(std::move(fold)), csv_(csv), table_(table), empty_(kQueuedSlots), finished_(kQueuedSlots) {
  for (size_t i = 0; i < kQueuedSlots; i++) {
    slots_.push_back(std::make_unique<Slot>());
    empty_.push(slots_.back().get());
  }
}

Writer::~Writer() { Stop(); }

void Writer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Writer::OnSlot(const Slot& slot) {
  Slot* copy;
  while (!empty_.pop(copy)) std::this_thread::sleep_for(kPause);
  copy->start_ns = slot.start_ns;
  copy->rows.assign(slot.rows.begin(), slot.rows.end());
  finished_.push(copy);  // there is room: no more slots exist than it holds
}

void Writer::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_release);  // after the last push, for Run()'s last look
  thread_.join();
}

void Writer::Take(Slot* slot) {
  table_->OnSlot(*slot);
  FoldSlot(fold_, slot);
  csv_->OnSlot(*slot);
  nr_slots_.fetch_add(1, std::memory_order_relaxed);
  nr_rows_.store(csv_->nr_rows(), std::memory_order_relaxed);
  if (csv_->is_full()) full_.store(true, std::memory_order_release);
  empty_.push(slot);
}

void Writer::Run() {
  uint64_t next_flush_ns = MonotonicNs() + kFlushPeriodNs;
  for (;;) {
    bool stopping = stop_requested_.load(std::memory_order_acquire);
    Slot* slot;
    bool any = false;
    while (finished_.pop(slot)) {
      Take(slot);
      any = true;
    }
    if (uint64_t now_ns = MonotonicNs(); now_ns >= next_flush_ns) {
      csv_->Flush();
      next_flush_ns = now_ns + kFlushPeriodNs;
    }
    if (!csv_->status().ok()) failed_.store(true, std::memory_order_release);
    if (!any && stopping) return;
    if (!any) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace slotscope
