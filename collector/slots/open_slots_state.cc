// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/state.h"
#include "slots/open_slots.h"

namespace slotscope {

template <typename Archive>
void OpenSlot::State(Archive& state) {
  state(rows, waits, wait_pairs, places, cells, lost_ns, lost_from_ns, lost_to_ns, offline_ns);
  const auto plain = [&state](auto* all) {
    const size_t nr = state.Count(all->size());
    for (size_t i = 0; i < nr; i++) {
      if constexpr (Archive::kReads) {
        if (!state.ok()) return;
        all->emplace_back();
      }
      state.Plain((*all)[i]);
    }
  };
  plain(&samples);
  const size_t nr_more = state.Count(more.size());
  for (size_t i = 0; i < nr_more; i++) {
    if constexpr (Archive::kReads) {
      if (!state.ok()) return;
      more.emplace_back();
    }
    state.Plain(more[i].sums);
    state(more[i].unmeasured);
  }
}

template <typename Archive>
void OpenSlots::State(Archive& state) {
  state(lengths_);
  uint64_t start_ns = slots_.empty() ? 0 : slots_.front()->start_ns;
  state(start_ns);
  const size_t nr = state.Count(slots_.size());
  if constexpr (Archive::kReads) {
    state.Require(nr <= kMaxOpenSlots + 1 && start_ns == StartOf(start_ns) &&
                  start_ns <= UINT64_MAX / 2);
    slots_.clear();
    nr_indexed_ = 0;
  }
  for (size_t i = 0; i < nr; i++) {
    if constexpr (Archive::kReads) {
      if (!state.ok()) return;
      if (slots_.empty())
        slots_.push_back(Make(start_ns));
      else
        Append();
    }
    slots_[i]->State(state);
  }
}

template void OpenSlots::State(StateWriter& state);
template void OpenSlots::State(StateReader& state);

bool OpenSlots::All(const std::function<bool(const OpenSlot&)>& is_true) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const auto& slot) { return is_true(*slot); });
}

}  // namespace slotscope
