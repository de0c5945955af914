// SPDX-License-Identifier: MIT
#include "slots/open_slots.h"

#include <algorithm>
#include <utility>

namespace slotscope {
namespace {

// A timestamp further than this from the open slots is taken for a broken one. A minute: what rings and
// blocks hold is a few seconds.
constexpr uint64_t kMaxOpenSlots = 60'000;
constexpr size_t kIndexBudgetBytes = 16u << 20;
constexpr size_t kMaxSpare = 256;   // after a stall the memory goes back
constexpr size_t kMinIndexed = 16;  // a drain round of 5 ms, with some to spare

}  // namespace

OpenSlot OpenSlots::Make(uint64_t start_ns) {
  OpenSlot slot;
  if (!spare_.empty()) {
    slot = std::move(spare_.back());
    spare_.pop_back();
  }
  slot.start_ns = start_ns;
  slot.end_ns = start_ns + slot_ns_;
  return slot;
}

OpenSlot* OpenSlots::At(uint64_t ts_ns, uint64_t first_ns) {
  const uint64_t start_ns = StartOf(ts_ns);
  if (start_ns < first_ns) return nullptr;
  if (slots_.empty()) slots_.push_back(Make(first_ns ? first_ns : start_ns));
  const uint64_t front_ns = slots_.front().start_ns;
  const uint64_t distance_ns = start_ns < front_ns ? front_ns - start_ns : start_ns - front_ns;
  if (distance_ns / slot_ns_ > kMaxOpenSlots) return nullptr;
  // Before the first slot is known, CPUs begin in any order.
  while (start_ns < slots_.front().start_ns) {
    slots_.push_front(Make(slots_.front().start_ns - slot_ns_));
    slots_[0].next = &slots_[1];
  }
  while (slots_.back().start_ns < start_ns) {
    slots_.push_back(Make(slots_.back().end_ns));
    slots_[slots_.size() - 2].next = &slots_.back();
  }
  return &slots_[(start_ns - slots_.front().start_ns) / slot_ns_];
}

void OpenSlots::PopFront() {
  OpenSlot slot = std::move(slots_.front());
  slots_.pop_front();
  TakeIndex(&slot);
  slot.rows.clear();
  slot.cells.clear();
  slot.samples.clear();
  slot.more.clear();
  slot.preemptions.clear();
  slot.next = nullptr;
  slot.lost_ns = slot.offline_ns = 0;
  slot.lost_from_ns = UINT64_MAX;
  slot.lost_to_ns = 0;
  if (spare_.size() < kMaxSpare) spare_.push_back(std::move(slot));
}

OpenRow* OpenSlots::FindOrMakeRow(OpenSlot* slot, uint32_t process, bool* is_new) {
  if (process >= slot->row_of.size()) GiveIndex(slot, process + 1);
  uint32_t& index = slot->row_of[process];
  *is_new = index == 0;
  if (index == 0) {
    slot->rows.push_back({});
    slot->rows.back().process = process;
    index = static_cast<uint32_t>(slot->rows.size());
  }
  return &slot->rows[index - 1];
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
      for (OpenSlot& other : slots_)
        if (!other.row_of.empty() && &other != slot) {
          TakeIndex(&other);
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
  for (const OpenRow& row : slot->rows) slot->row_of[row.process] = 0;
  spare_indexes_.push_back(std::move(slot->row_of));
  slot->row_of.clear();  // moved from
  nr_indexed_--;
}

}  // namespace slotscope
