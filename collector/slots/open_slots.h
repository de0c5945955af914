// SPDX-License-Identifier: MIT
// The consecutive slots that are open, oldest first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "slots/open_slot.h"
#include "slots/slot_lengths.h"

namespace slotscope {

// Slots and their memory are used again, and never moved. An index of rows costs 4 bytes per process,
// and there may be thousands of slots open after a stall; so only as many have one as fit into a budget,
// and a slot that is asked for a row without having one takes it from the oldest slot that has. After a
// burst of births some that were born last may live on: for few the indexes are not as long as that.
class OpenSlots {
 public:
  explicit OpenSlots(uint64_t slot_ns) : lengths_(slot_ns) {}

  bool empty() const { return slots_.empty(); }
  OpenSlot& front() { return *slots_.front(); }

  uint64_t StartOf(uint64_t ts_ns) const { return lengths_.StartOf(ts_ns); }
  // Of the slot that starts there.
  uint64_t EndOf(uint64_t start_ns) const { return start_ns + lengths_.LengthAt(start_ns); }
  // See SlotLengths; slots that are open stay as they are. `from_ns`: at or behind what has retired.
  void ChangeLength(uint64_t from_ns, uint64_t slot_ns) {
    lengths_.Change(slots_.empty() ? from_ns : std::max(from_ns, slots_.back()->end_ns), slot_ns);
  }
  // The slot that contains ts_ns, made if need be, with all between it and the others, but never one
  // that starts before first_ns. Null if it does, or if ts_ns is too far away from the others to be
  // true. Pointers stay valid until the slot is popped.
  OpenSlot* At(uint64_t ts_ns, uint64_t first_ns);
  // The one behind `slot`, which is made if `slot` is the newest. Null if there may be no more.
  OpenSlot* Next(OpenSlot* slot) { return slot->next ? slot->next : MakeNext(); }
  // Takes the oldest away, which must be there.
  void PopFront();

  // Of `process` in the slot's rows, + 1; 0: it has none. Whoever appends one sets it.
  uint32_t& IndexOf(OpenSlot* slot, uint32_t process) {
    if (process >= slot->row_of.size()) return FarIndexOf(slot, process);
    return slot->row_of[process];
  }
  // The row of `process` in `slot`; *is_new if it has just been made.
  OpenRow* RowOf(OpenSlot* slot, uint32_t process, bool* is_new) {
    uint32_t& index = IndexOf(slot, process);
    *is_new = index == 0;
    if (index) return &slot->rows[index - 1];
    // The copy is changed, not what is copied: 16 bytes are not read at once behind a store of 4.
    OpenRow& row = slot->rows.emplace_back(blank_);
    row.process = process;
    index = static_cast<uint32_t>(slot->rows.size());
    return &row;
  }
  // The same, but null if it has none.
  OpenRow* FindRow(OpenSlot* slot, uint32_t process);
  // All that are open (base/state.h). One that is read has its rows without an index.
  template <typename Archive>
  void State(Archive& state);
  // Is that true of all of them?
  bool All(const std::function<bool(const OpenSlot&)>& is_true) const;

 private:
  // A timestamp further than this from the open slots is taken for a broken one. A minute: what rings
  // and blocks hold is a few seconds.
  static constexpr uint64_t kMaxOpenSlots = 60'000;

  // The largest of some time.
  struct Sizes {
    size_t nr_open = 0, nr_rows = 0, nr_cells = 0, nr_samples = 0, nr_more = 0;
    size_t nr_waits = 0, nr_wait_pairs = 0, nr_places = 0, nr_upper = 0;
    void Take(const OpenSlot& slot, size_t nr_slots);
  };

  OpenSlot* MakeNext();
  OpenSlot* Append();
  // What bursts and stalls took goes back once it has not been needed for a while.
  void Trim();
  void Trim(OpenSlot* slot) const;
  std::unique_ptr<OpenSlot> Make(uint64_t start_ns);
  uint32_t& FarIndexOf(OpenSlot* slot, uint32_t process);
  void GiveIndex(OpenSlot* slot);
  void KeepToBudget(const OpenSlot* slot);
  void LengthenIndex(OpenSlot* slot);
  void BringNear(OpenSlot* slot);
  void ClearIndex(OpenSlot* slot);
  void TakeIndex(OpenSlot* slot);

  SlotLengths lengths_;
  // Copied for each row: GCC clears as many bytes by `rep stos`, which takes as long as to add a
  // measure.
  const OpenRow blank_ = {};
  std::deque<std::unique_ptr<OpenSlot>> slots_;
  std::vector<std::unique_ptr<OpenSlot>> spare_;  // popped ones, empty; some have an index, of no rows
  std::vector<RowIndex> spare_indexes_;           // all zeros
  size_t index_length_ = 64;                      // of new ones
  size_t nr_indexed_ = 0;                         // of slots_
  uint64_t nr_popped_ = 0;
  Sizes lately_;  // since the last Trim()
  Sizes before_;  // and since the one before
};

}  // namespace slotscope
