// SPDX-License-Identifier: MIT
#include "slots/open_slots.h"

#include <algorithm>
#include <utility>

#include "base/trim.h"

namespace slotscope {
namespace {

constexpr size_t kIndexBudgetBytes = 16u << 20;
constexpr size_t kMaxSpare = 128;    // after a stall the memory goes back
constexpr size_t kMinIndexed = 16;   // a drain round of 5 ms, with some to spare
constexpr size_t kMaxFar = 16;       // of a slot: they are looked for one by one
constexpr size_t kMinLength = 4096;  // of an index that may get shorter

constexpr uint64_t kTrimPeriod = 1024;  // slots

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
  before_.Take(*slot, slots_.size());
  slot->rows.clear();
  slot->cells.clear();
  slot->samples.clear();
  slot->more.clear();
  slot->waits.clear();
  slot->wait_pairs.clear();
  slot->places.clear();
  Trim(slot.get());
  slot->next = nullptr;
  slot->lost_ns = slot->offline_ns = 0;
  slot->lost_from_ns = UINT64_MAX;
  slot->lost_to_ns = 0;
  if (spare_.size() < kMaxSpare) spare_.push_back(std::move(slot));
  if (++nr_popped_ % kTrimPeriod == 0) Trim();
}

// Else one burst after the other would meet other slots, until each had room for one.
void OpenSlots::Trim(OpenSlot* slot) const {
  FreeIfTooLarge(&slot->rows, before_.nr_rows);
  FreeIfTooLarge(&slot->cells, before_.nr_cells);
  FreeIfTooLarge(&slot->samples, before_.nr_samples);
  FreeIfTooLarge(&slot->more, before_.nr_more);
  FreeIfTooLarge(&slot->waits, before_.nr_waits);
  FreeIfTooLarge(&slot->wait_pairs, before_.nr_wait_pairs);
  if (before_.nr_places == 0) slot->places.Free();
  FreeIfTooLarge(&slot->row_of, index_length_);
  FreeIfTooLarge(&slot->far, kMaxFar);
}

void OpenSlots::Trim() {
  before_ = std::exchange(lately_, {});
  const size_t wanted = before_.nr_open + kMinIndexed;
  const size_t nr_spare = std::min(spare_.size(), wanted - std::min(wanted, slots_.size()));
  spare_.erase(spare_.begin(), spare_.end() - static_cast<ptrdiff_t>(nr_spare));
  // By halves, so that some of which many are born now and then keep their length.
  if (index_length_ > kMinLength && before_.nr_upper <= kMaxFar / 2) index_length_ /= 2;
  for (const auto& slot : spare_) Trim(slot.get());
  for (RowIndex& index : spare_indexes_) FreeIfTooLarge(&index, index_length_);
  std::erase_if(spare_indexes_, [](const RowIndex& index) { return index.empty(); });
  spare_indexes_.resize(std::min(spare_indexes_.size(), kMinIndexed));
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
  if (slot->row_of.empty()) GiveIndex(slot);
  uint32_t index = 0;
  if (process < slot->row_of.size())
    index = slot->row_of[process];
  else
    for (const FarRow& far : slot->far)
      if (far.process == process) index = far.index;
  return index ? &slot->rows[index - 1] : nullptr;
}

uint32_t& OpenSlots::FarIndexOf(OpenSlot* slot, uint32_t process) {
  if (slot->row_of.empty()) GiveIndex(slot);
  if (process < index_length_) LengthenIndex(slot);
  if (process < slot->row_of.size()) return slot->row_of[process];
  for (FarRow& far : slot->far)
    if (far.process == process) return far.index;
  slot->far.push_back({process, 0});
  if (slot->far.size() <= kMaxFar) return slot->far.back().index;
  BringNear(slot);
  return slot->row_of[process];
}

// An index of the rows that are there.
void OpenSlots::GiveIndex(OpenSlot* slot) {
  KeepToBudget(slot);
  if (!spare_indexes_.empty()) {
    slot->row_of = std::move(spare_indexes_.back());
    spare_indexes_.pop_back();
  }
  nr_indexed_++;
  if (slot->row_of.size() < index_length_) slot->row_of.resize(index_length_);
  for (uint32_t i = 0; i < slot->rows.size(); i++) {
    const uint32_t process = slot->rows[i].process;
    if (process < slot->row_of.size())
      slot->row_of[process] = i + 1;
    else
      slot->far.push_back({process, i + 1});
  }
  if (slot->far.size() > kMaxFar) BringNear(slot);
}

// Room for one of a new one's length beside the others, which may get as long; the oldest lose theirs.
void OpenSlots::KeepToBudget(const OpenSlot* slot) {
  const size_t max_indexed =
      std::max(kMinIndexed, kIndexBudgetBytes / (index_length_ * sizeof(uint32_t)));
  for (auto other = slots_.begin(); nr_indexed_ >= max_indexed && other != slots_.end(); ++other)
    if (other->get() != slot) TakeIndex(other->get());
}

// To what new ones have.
void OpenSlots::LengthenIndex(OpenSlot* slot) {
  if (slot->row_of.size() < index_length_) {
    KeepToBudget(slot);
    slot->row_of.resize(index_length_);
  }
  std::erase_if(slot->far, [&](const FarRow& far) {
    const bool is_near = far.process < slot->row_of.size();
    if (is_near) slot->row_of[far.process] = far.index;
    return is_near;
  });
}

// Nobody is far any more, in this slot and in those that get an index from now on.
void OpenSlots::BringNear(OpenSlot* slot) {
  for (const FarRow& far : slot->far)
    index_length_ = std::max<size_t>(index_length_, size_t{1} + far.process + far.process / 2);
  LengthenIndex(slot);
}

void OpenSlots::ClearIndex(OpenSlot* slot) {
  const size_t length = slot->row_of.size();
  size_t nr_upper = 0;
  for (const OpenRow& row : slot->rows) {
    if (row.process < length) slot->row_of[row.process] = 0;
    nr_upper += row.process >= index_length_ / 2;
  }
  slot->far.clear();
  lately_.nr_upper = std::max(lately_.nr_upper, nr_upper);
}

void OpenSlots::TakeIndex(OpenSlot* slot) {
  if (slot->row_of.empty()) return;
  ClearIndex(slot);
  spare_indexes_.push_back(std::move(slot->row_of));
  slot->row_of.clear();  // moved from
  nr_indexed_--;
}

}  // namespace slotscope
