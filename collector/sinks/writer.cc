// SPDX-License-Identifier: MIT
#include "sinks/writer.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"
#include "base/trim.h"

namespace slotscope {
namespace {

// Of some 140 bytes: a batch has this many, and as many more as a slot.
constexpr size_t kBatchRows = 1024;
constexpr size_t kBatchSlots = 256;
constexpr size_t kMaxSpareRows = 2 * kBatchRows;  // that a batch keeps room for
constexpr size_t kMaxKeepingBatches = 4;          // as many as wait on a usual day
constexpr uint64_t kFlushPeriodNs = 500'000'000;  // a killed run loses at most a second

}  // namespace

Writer::Writer(Queue queue, FoldOptions fold, CsvSink* csv, RunTables* table,
               std::vector<SideSink*> sides, SlotBorder* border)
    : fold_(std::move(fold)),
      members_(fold_.groups),
      csv_(csv),
      table_(table),
      sides_(std::move(sides)),
      border_(border),
      batches_(static_cast<size_t>(queue)),
      empty_(batches_.size()),
      finished_(batches_.size()) {
  for (Batch& batch : batches_) empty_.push(&batch);
}

Writer::~Writer() { Stop(); }

void Writer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Writer::OnSlot(Slot* slot) {
  if (!filling_) filling_ = TakeEmpty();
  Batch& batch = *filling_;
  if (batch.nr_slots == batch.slots.size()) batch.slots.emplace_back();
  batch.nr_rows += slot->rows.size();
  std::swap(batch.slots[batch.nr_slots++], *slot);
  if (batch.nr_slots >= kBatchSlots || batch.nr_rows >= kBatchRows) HandOver();
}

Writer::Batch* Writer::TakeEmpty() {
  for (;;) {
    uint32_t seen = empty_wakeup_.seen();
    if (Batch * batch; empty_.pop(batch)) return batch;
    empty_wakeup_.Wait(seen);
  }
}

void Writer::HandOver() {
  finished_.push(std::exchange(filling_, nullptr));  // there is room for all there are
  finished_wakeup_.Notify();
}

void Writer::Stop() {
  if (!thread_.joinable()) return;
  Wake();
  stop_requested_.store(true, std::memory_order_release);  // after the last push, for Run()'s last look
  finished_wakeup_.Notify();
  thread_.join();
}

void Writer::Take(Batch* batch) {
  for (size_t i = 0; i < batch->nr_slots; i++) Take(&batch->slots[i]);
  nr_slots_.fetch_add(batch->nr_slots, std::memory_order_relaxed);
  nr_rows_.store(csv_->nr_rows(), std::memory_order_relaxed);
  Trim(batch);
  batch->nr_slots = batch->nr_rows = 0;
  empty_.push(batch);
  empty_wakeup_.Notify();
}

// What a burst or a stall took goes back: else one after the other would meet other slots of other
// batches, until each had room for one.
void Writer::Trim(Batch* batch) {
  const size_t nr_waiting = finished_.read_available();
  most_waiting_ = std::max(most_waiting_, nr_waiting);
  if (nr_waiting >= kMaxKeepingBatches) {
    std::vector<Slot>().swap(batch->slots);
    return;
  }
  size_t most_rows = 0, most_details = 0, nr_room = 0, nr_needed = 0;
  for (size_t i = 0; i < batch->nr_slots; i++) {
    const Slot& slot = batch->slots[i];
    most_rows = std::max(most_rows, slot.rows.size());
    most_details = std::max(most_details, slot.wait_details.size());
    nr_needed += slot.rows.size() + slot.wait_details.size();
  }
  for (Slot& slot : batch->slots) {
    if (slot.rows.capacity() > 2 * most_rows + 16) slot = {};
    FreeIfTooLarge(&slot.wait_details, most_details);
    nr_room += slot.rows.capacity() + slot.wait_details.capacity();
  }
  if (nr_room <= std::max(kMaxSpareRows, 2 * nr_needed)) return;
  for (size_t i = 0; i < batch->slots.size(); i++) {
    Slot& slot = batch->slots[i];
    const size_t nr_used = i < batch->nr_slots ? slot.rows.size() + slot.wait_details.size() : 0;
    if (slot.rows.capacity() + slot.wait_details.capacity() > 2 * nr_used + 16) slot = {};
  }
}

// Of batches that nobody has needed since the last call. The first ones are those in use; where none has
// waited for us there is time to make one anew.
void Writer::FreeSpares() {
  std::vector<Batch*> spares;
  for (Batch* batch; empty_.pop(batch);) spares.push_back(batch);
  for (size_t i = most_waiting_; i < spares.size(); i++) std::vector<Slot>().swap(spares[i]->slots);
  for (auto it = spares.rbegin(); it != spares.rend(); ++it) empty_.push(*it);
  empty_wakeup_.Notify();
  most_waiting_ = 0;
}

void Writer::AddToTables(const Slot& slot) {
  table_->totals.OnSlot(slot);
  table_->pairs.OnSlot(slot);
}

void Writer::Take(Slot* slot) {
  // Whom --top keeps in a slot it may fold in the next one: totals are of all that they did.
  if (!fold_.Selects()) AddToTables(*slot);
  if (border_ && border_status_.ok()) border_status_ = border_->Before(*slot);
  members_.OnSlot(*slot);
  FoldSlot(fold_, slot, &members_);
  if (fold_.Selects()) AddToTables(*slot);
  for (SideSink* side : sides_) side->OnSlot(*slot);
  csv_->OnSlot(*slot);
  if (csv_->is_full()) full_.store(true, std::memory_order_release);
}

void Writer::Run() {
  NameThread("ss-writer");
  uint64_t next_flush_ns = MonotonicNs() + kFlushPeriodNs;
  for (;;) {
    uint32_t seen = finished_wakeup_.seen();
    bool stopping = stop_requested_.load(std::memory_order_acquire);
    Batch* batch;
    bool any = false;
    while (finished_.pop(batch)) {
      Take(batch);
      any = true;
    }
    if (uint64_t now_ns = MonotonicNs(); now_ns >= next_flush_ns) {
      csv_->Flush();
      for (SideSink* side : sides_) side->Flush();
      FreeSpares();
      next_flush_ns = now_ns + kFlushPeriodNs;
    }
    for (const SideSink* side : sides_)
      if (!side->status().ok()) news_.Tell(side->status().message());
    if (!csv_->status().ok() || !border_status_.ok()) failed_.store(true, std::memory_order_release);
    if (!any && stopping) return;
    if (!any) finished_wakeup_.Wait(seen);
  }
}

}  // namespace slotscope
