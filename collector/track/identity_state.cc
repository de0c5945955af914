// SPDX-License-Identifier: MIT
#include <string>
#include <type_traits>
#include <utility>

#include "base/state.h"
#include "track/identity.h"

namespace slotscope {
namespace {

template <typename Archive>
void TextState(Archive& state, std::shared_ptr<const std::string>* text) {
  bool known = *text != nullptr;
  std::string copy = known ? **text : "";
  state(known, copy);
  if constexpr (Archive::kReads)
    *text = known ? std::make_shared<const std::string>(std::move(copy)) : nullptr;
}

template <typename Archive>
void CgroupState(Archive& state, std::shared_ptr<const Cgroup>* cgroup) {
  bool known = *cgroup != nullptr;
  std::string path = known ? (*cgroup)->path : "", pod = known ? (*cgroup)->pod : "";
  state(known, path, pod);
  if constexpr (Archive::kReads) {
    *cgroup = nullptr;
    if (!known) return;
    Cgroup parsed = ParseCgroup(path);
    parsed.pod = std::move(pod);
    *cgroup = std::make_shared<const Cgroup>(std::move(parsed));
  }
}

}  // namespace

// What was told is not in it: who reads it has not been told anything.
template <typename Archive>
void Identities::Known::State(Archive& state) {
  state(key, cgroup_id);
  TextState(state, &executable);
  TextState(state, &arguments);
  CgroupState(state, &cgroup);
}

template <typename Archive>
void Identities::State(Archive& state) {
  state(queue_, known_, pods_);
  std::map<uint64_t, Place> places;
  if constexpr (!Archive::kReads)
    for (const auto& [id, cgroup] : cgroups_) places[id].cgroup = cgroup;
  state(places);
  if constexpr (Archive::kReads) {
    state.Require(places.size() <= kMaxCgroups);
    cgroups_.clear();
    for (auto& [id, place] : places)
      if (place.cgroup) cgroups_[id] = place.cgroup;
    by_tgid_.clear();
    changed_.clear();
    for (const Known& known : known_) {
      ProcessKey& youngest = by_tgid_.try_emplace(known.key.tgid, known.key).first->second;
      if (IsBefore(youngest.start_time_ns, known.key.start_time_ns)) youngest = known.key;
    }
    cgroups_changed_ = true;
  }
}

template <typename Archive>
void Identities::Place::State(Archive& state) {
  CgroupState(state, &cgroup);
}

template void Identities::State(StateWriter& state);
template void Identities::State(StateReader& state);

}  // namespace slotscope
