// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>

#include "base/state.h"
#include "track/tracker.h"

namespace slotscope {

template <typename Archive>
void Tracker::State(Archive& state) {
  state(queue_, arrived_, processes_, free_ids_, by_rmid_, leases_, past_rmids_, deaths_,
        followed_tgids_, missing_, former_names_);
  state.Plain(stats_);
  if constexpr (Archive::kReads) state.Require(FindAgain());
}

template void Tracker::State(StateWriter& state);
template void Tracker::State(StateReader& state);

// What follows from the rest. False: one thing does not fit another.
bool Tracker::FindAgain() {
  const auto is_id = [this](uint32_t id) { return id < processes_.size(); };
  std::fill(hints_.begin(), hints_.end(), kNoProcess);
  keys_.clear();
  for (const Process& process : processes_) keys_.push_back(process.key);
  for (uint32_t id : free_ids_) {
    if (!is_id(id) || keys_[id] == kNobody) return false;
    keys_[id] = kNobody;
  }
  std::make_heap(free_ids_.begin(), free_ids_.end(), std::greater<>());
  order_.clear();
  ranks_.clear();
  made_.clear();
  nr_gone_ = 0;
  by_key_.clear();
  for (uint32_t id = 0; id < keys_.size(); id++) {
    if (keys_[id] == kNobody) continue;
    if (!by_key_.try_emplace(keys_[id], id).second) return false;
    made_.push_back({keys_[id], id});
  }
  return leases_.size() <= kMaxRmid + 1 &&
         std::all_of(by_rmid_.begin(), by_rmid_.end(), [&](const auto& of) { return has(of.second); }) &&
         std::all_of(
             leases_.begin(), leases_.end(),
             [&](const Lease& lease) { return lease.known ? is_id(lease.process) : !lease.live; }) &&
         std::all_of(past_rmids_.begin(), past_rmids_.end(),
                     [&](const PastRmid& past) { return is_id(past.process); }) &&
         std::all_of(deaths_.begin(), deaths_.end(),
                     [&](const Death& death) { return is_id(death.process); }) &&
         std::all_of(followed_tgids_.begin(), followed_tgids_.end(), [&](const auto& followed) {
           return followed.second == kNoProcess || is_id(followed.second);
         });
}

}  // namespace slotscope
