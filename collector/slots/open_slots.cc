// SPDX-License-Identifier: MIT
#include "slots/open_slots.h"

#include <algorithm>
#include <utility>

namespace slotscope {
namespace {

constexpr size_t kIndexBudgetBytes = 16u << 20;
constexpr size_t kMaxSpare = 256;   // after a stall the memory goes back
constexpr size_t kMinIndexed = 16;  // a drain round of 5 ms, with some to spare

constexpr uint64_t kTrimPeriod = 1024;  // slots

void ClearIndex(OpenSlot* slot) {
  uint32_t* const index = slot->row_of.data();
  for (const OpenRow& row : slot->rows) index[row.process] = 0;
}

// `most`: elements that were needed lately.
template <typename T>
void FreeIfTooLarge(std::vector<T>* spare, size_t most) {
  if (spare->capacity() > 2 * most + 64) std::vector<T>().swap(*spare);
}

}  // namespace

std::unique_ptr<OpenSlot> OpenSlots::Make(uint64_t start_ns) {
  std::unique_ptr<OpenSlot> slot;
  if (spare_.empty()) {
    slot = std::make_unique<OpenSlot>();
  } else {
    slot = std::move(spare_.back());
    spare_.pop_back();
  }
  nr_indexed_ += !slot->row_of.empty();
  slot->start_ns = start_ns;
  slot->end_ns = EndOf(start_ns);
  return slot;
}

OpenSlot* OpenSlots::MakeNext() { return slots_.size() > kMaxOpenSlots ? nullptr : Append(); }

OpenSlot* OpenSlots::Append() {
  OpenSlot* last = slots_.back().get();
  slots_.push_back(Make(last->end_ns));
  return last->next = slots_.back().get();
}

OpenSlot* OpenSlots::At(uint64_t ts_ns, uint64_t first_ns) {
  const uint64_t start_ns = StartOf(ts_ns);
  if (start_ns < first_ns) return nullptr;
  if (slots_.empty()) slots_.push_back(Make(first_ns ? first_ns : start_ns));
  const uint64_t front_ns = slots_.front()->start_ns;
  const uint64_t distance_ns = start_ns < front_ns ? front_ns - start_ns : start_ns - front_ns;
  if (distance_ns / lengths_.shortest_ns() > kMaxOpenSlots) return nullptr;
  // Before the first slot is known, CPUs begin in any order.
  while (start_ns < slots_.front()->start_ns) {
    slots_.push_front(Make(StartOf(slots_.front()->start_ns - 1)));
    slots_[0]->next = slots_[1].get();
  }
  while (slots_.back()->start_ns < start_ns) Append();
  // There it is, if all are as long as the first.
  const OpenSlot& front = *slots_.front();
  const size_t index = (start_ns - front.start_ns) / (front.end_ns - front.start_ns);
  if (index < slots_.size() && slots_[index]->start_ns == start_ns) return slots_[index].get();
  return std::partition_point(slots_.begin(), slots_.end(),
                              [&](const auto& slot) { return slot->start_ns < start_ns; })
      ->get();
}

void OpenSlots::PopFront() {
  std::unique_ptr<OpenSlot> slot = std::move(slots_.front());
  slots_.pop_front();
  lengths_.Forget(slot->end_ns);
  if (spare_.size() < kMinIndexed && !slot->row_of.empty()) {
    ClearIndex(slot.get());
    nr_indexed_--;
  } else {
    TakeIndex(slot.get());
  }
  lately_.Take(*slot, slots_.size());
  slot->rows.clear();
  slot->cells.clear();
  slot->samples.clear();
  slot->more.clear();
  slot->waits.clear();
  slot->wait_pairs.clear();
  slot->places.clear();
  slot->next = nullptr;
  slot->lost_ns = slot->offline_ns = 0;
  slot->lost_from_ns = UINT64_MAX;
  slot->lost_to_ns = 0;
  if (spare_.size() < kMaxSpare) spare_.push_back(std::move(slot));
  if (++nr_popped_ % kTrimPeriod == 0) Trim();
}

// Else one burst after the other would meet other slots, until each had room for one.
void OpenSlots::Trim() {
  const size_t wanted = lately_.nr_open + kMinIndexed;
  const size_t nr_spare = std::min(spare_.size(), wanted - std::min(wanted, slots_.size()));
  spare_.erase(spare_.begin(), spare_.end() - static_cast<ptrdiff_t>(nr_spare));
  for (const auto& slot : spare_) {
    FreeIfTooLarge(&slot->rows, lately_.nr_rows);
    FreeIfTooLarge(&slot->cells, lately_.nr_cells);
    FreeIfTooLarge(&slot->samples, lately_.nr_samples);
    FreeIfTooLarge(&slot->more, lately_.nr_more);
    FreeIfTooLarge(&slot->waits, lately_.nr_waits);
    FreeIfTooLarge(&slot->wait_pairs, lately_.nr_wait_pairs);
    if (lately_.nr_places == 0) slot->places.Free();
  }
  spare_indexes_.resize(std::min(spare_indexes_.size(), kMinIndexed));
  lately_ = {};
}

void OpenSlots::Sizes::Take(const OpenSlot& slot, size_t nr_slots) {
  nr_open = std::max(nr_open, nr_slots);
  nr_rows = std::max(nr_rows, slot.rows.size());
  nr_cells = std::max(nr_cells, slot.cells.size());
  nr_samples = std::max(nr_samples, slot.samples.size());
  nr_more = std::max(nr_more, slot.more.size());
  nr_waits = std::max(nr_waits, slot.waits.size());
  nr_wait_pairs = std::max(nr_wait_pairs, slot.wait_pairs.size());
  nr_places = std::max(nr_places, slot.places.nr_others());
}

OpenRow* OpenSlots::FindRow(OpenSlot* slot, uint32_t process) {
  if (slot->rows.empty()) return nullptr;
  if (slot->row_of.empty()) GiveIndex(slot, process + 1);
  const uint32_t index = process < slot->row_of.size() ? slot->row_of[process] : 0;
  return index ? &slot->rows[index - 1] : nullptr;
}

// An index for at least nr_processes, of the rows that are there.
void OpenSlots::GiveIndex(OpenSlot* slot, size_t nr_processes) {
  if (slot->row_of.empty()) {
    size_t max_indexed = std::max(kMinIndexed, kIndexBudgetBytes / (nr_processes * sizeof(uint32_t)));
    if (nr_indexed_ >= max_indexed)
      for (const auto& other : slots_)
        if (!other->row_of.empty() && other.get() != slot) {
          TakeIndex(other.get());
          break;
        }
    if (!spare_indexes_.empty()) {
      slot->row_of = std::move(spare_indexes_.back());
      spare_indexes_.pop_back();
    }
    nr_indexed_++;
    for (const OpenRow& row : slot->rows) nr_processes = std::max<size_t>(nr_processes, row.process + 1);
  }
  if (slot->row_of.size() < nr_processes) slot->row_of.resize(nr_processes + nr_processes / 2);
  for (uint32_t i = 0; i < slot->rows.size(); i++) slot->row_of[slot->rows[i].process] = i + 1;
}

void OpenSlots::TakeIndex(OpenSlot* slot) {
  if (slot->row_of.empty()) return;
  ClearIndex(slot);
  spare_indexes_.push_back(std::move(slot->row_of));
  slot->row_of.clear();  // moved from
  nr_indexed_--;
}

}  // namespace slotscope
