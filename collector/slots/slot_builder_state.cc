// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "base/escape.h"
#include "base/state.h"
#include "slots/slot_builder.h"

namespace slotscope {
namespace {

// Each of another process, which is known, and held until the slot ends.
bool HasValidRows(const OpenSlot& slot, const Tracker& tracker) {
  std::vector<uint32_t> processes;
  for (const OpenRow& row : slot.rows) processes.push_back(row.process);
  std::sort(processes.begin(), processes.end());
  return std::adjacent_find(processes.begin(), processes.end()) == processes.end() &&
         std::all_of(slot.rows.begin(), slot.rows.end(),
                     [&](const OpenRow& row) {
                       return row.wait <= slot.waits.size() && slot.places.Has(row.places);
                     }) &&
         std::all_of(slot.wait_pairs.begin(), slot.wait_pairs.end(),
                     [&](const WaitPair& pair) {
                       return std::binary_search(processes.begin(), processes.end(), pair.process);
                     }) &&
         slot.places.IsValid() && std::all_of(processes.begin(), processes.end(), [&](uint32_t id) {
           return tracker.has(id) && !IsBefore(tracker.process(id).held_ns, slot.end_ns);
         });
}

}  // namespace

template <typename Archive>
void SlotBuilder::State(Archive& state) {
  tracker_.State(state);
  identities_.State(state);
  open_.State(state);
  rdt_.State(state);
  if (waits_.on()) waits_.State(state);
  state(states_, cpus_, first_fixed_, first_ns_, next_start_ns_, dumped_, dumped_ns_, unix_offset_ns_,
        clocks_, notes_);
  state.Plain(accounting_);
  state.Plain(stats_);
  if constexpr (Archive::kReads) state.Require(FindAgain());
}

template void SlotBuilder::State(StateWriter& state);
template void SlotBuilder::State(StateReader& state);

uint64_t SlotBuilder::latest_ns() const {
  uint64_t latest_ns = 0;
  for (const Cpu& cpu : cpus_) latest_ns = std::max(latest_ns, cpu.cursor_ns);
  return latest_ns;
}

// What follows from the rest. False: one thing does not fit another.
bool SlotBuilder::FindAgain() {
  if (cpus_.size() != nr_cpus_) return false;
  for (size_t i = 0; i < nr_cpus_; i++) {
    const bool present =
        std::count(options_.present_cpus.begin(), options_.present_cpus.end(), static_cast<int>(i)) > 0;
    if (cpus_[i].present != present) return false;
    cpus_[i].slot_end_ns = 0;
    cpus_[i].slot = nullptr;
  }
  // Who uses GPUs is asked again.
  has_unfound_still_ = true;
  still_version_ = UINT64_MAX;
  return first_fixed_ && first_ns_ > 0 && first_ns_ <= next_start_ns_ &&
         next_start_ns_ % options_.slot_ns == 0 && next_start_ns_ <= UINT64_MAX / 2 &&
         std::all_of(notes_.begin(), notes_.end(),
                     [](const Note& note) { return EscapeControls(note.text) == note.text; }) &&
         (open_.empty() || open_.front().start_ns == next_start_ns_) &&
         open_.All([this](const OpenSlot& slot) {
           return HasValidRows(slot, tracker_) && slot.more.size() <= slot.rows.size() &&
                  rdt_.IsValid(slot);
         });
}

}  // namespace slotscope
