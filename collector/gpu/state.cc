// SPDX-License-Identifier: MIT
// What the GPU's stage knows, as base/state.h has it.
#include <algorithm>

#include "base/state.h"
#include "gpu/tracker.h"

namespace slotscope {

template <typename Archive>
void GpuMemory::State(Archive& state) {
  state(allocations_, physical_, mappings_, by_device_, bytes_, touched_, complete_, missed_,
        nr_unknown_frees_);
  const auto is_size = [](const auto& entry) { return entry.second.bytes <= INT64_MAX; };
  state.Require(nr_allocations() <= 2 * kMaxAllocations &&
                std::all_of(allocations_.begin(), allocations_.end(), is_size) &&
                std::all_of(physical_.begin(), physical_.end(), is_size));
}

template <typename Archive>
void GpuMachine::State(Archive& state) {
  state(uses_, unplaced_, unplaced_standing_, views_, samples_);
  state.Require(uses_.size() == gpus_.size() &&
                std::all_of(samples_.begin(), samples_.end(),
                            [this](const Sample& one) { return one.sample.gpu < gpus_.size(); }));
}

template <typename Archive>
void GpuProcess::State(Archive& state) {
  memory_.State(state);
  state(begun_, complete_, knows_launches_, knows_activity_, threads_, touched_, contexts_, retained_,
        uses_runtime_, no_work_);
  state.Require(std::all_of(touched_.begin(), touched_.end(),
                            [this](int32_t tid) { return threads_.contains(tid); }));
  const auto streams = [&](auto* all) {
    const size_t nr = state.Count(all->size());
    if constexpr (Archive::kReads) {
      for (size_t i = 0; i < nr && state.ok(); i++) {
        StreamKey key = {};
        GpuStream stream(0, 0, false, pool_);
        state(key, stream);
        state.Require(all->emplace(key, std::move(stream)).second);
      }
    } else {
      for (auto& [key, stream] : *all) state(key, stream);
    }
  };
  streams(&streams_);
  streams(&silent_);
  state(capturing_elsewhere_, records_, activity_, uses_, told_gpus_, nr_launches_, any_,
        lossy_until_ns_, lossy_in_slot_, doubts_activity_, doubts_launches_);
}

template <typename Archive>
void GpuTracker::State(Archive& state) {
  machine_.State(state);
  const size_t nr = state.Count(processes_.size());
  if constexpr (Archive::kReads) {
    processes_.clear();
    for (size_t i = 0; i < nr && state.ok(); i++) {
      Change of = {};
      state(of.process);
      ProcessOf(of).State(state);
    }
    state.Require(processes_.size() == nr);
  } else {
    for (auto& [key, process] : processes_) state(key, process);
  }
  state(queued_, ends_, first_end_ns_, still_, soon_still_, still_version_, gone_, gone_in_order_,
        inits_, applied_ns_, taken_until_ns_, lossy_until_ns_);
  state.Plain(stats_);
  if constexpr (Archive::kReads) {
    const auto is_known = [this](const auto& entry) { return processes_.contains(entry.first); };
    state.Require(gone_in_order_.size() <= kMaxGone && inits_.size() <= kMaxInits &&
                  std::all_of(still_.begin(), still_.end(), is_known) &&
                  std::all_of(soon_still_.begin(), soon_still_.end(), [&](const auto& entry) {
                    return is_known(entry) && !still_.contains(entry.first);
                  }));
    for (const auto& [key, rest] : still_) awake_.erase(key);
  }
}

template void GpuTracker::State(StateWriter& state);
template void GpuTracker::State(StateReader& state);

}  // namespace slotscope
