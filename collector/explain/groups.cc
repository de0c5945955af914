// SPDX-License-Identifier: MIT
#include "explain/groups.h"

#include <fmt/core.h>

#include <map>
#include <tuple>
#include <utility>

#include "base/party_text.h"

namespace slotscope {
namespace {

constexpr int64_t kLongLifeBins = 1'000'000'000 / kBinNs;

std::string NameIn(const ProcessHistory& process) {
  if (process.comm.empty()) return fmt::format("process {}", process.key.tgid);
  return process.is_kernel ? std::string(NameOfKernelThreads(process.comm)) : process.comm;
}

bool LivesLong(const ProcessHistory& process) {
  return !process.bins.empty() &&
         process.bins.back().index - process.bins.front().index >= kLongLifeBins;
}

}  // namespace

std::string PlaceOf(const Cgroup& cgroup, GroupBy by) {
  switch (by) {
    case GroupBy::kName:
      return PlaceText(cgroup);
    case GroupBy::kPod:
      return cgroup.pod_uid.empty() && cgroup.container_id.empty() ? "" : PlaceText(cgroup);
    case GroupBy::kUnit:
      return cgroup.unit;
    case GroupBy::kCgroup:
      return cgroup.path;
  }
  return {};
}

std::string PlaceOf(const ProcessPlaces& places, const ProcessKey& process, GroupBy by) {
  const auto cgroup = places.Find(process);
  return cgroup ? PlaceOf(*cgroup, by) : "";
}

GroupName NameOfGroup(const ProcessHistory& process, GroupBy by) {
  if (by != GroupBy::kName && !process.is_kernel && process.cgroup)
    if (std::string place = PlaceOf(*process.cgroup, by); !place.empty())
      return {std::move(place), false, true};
  return {NameIn(process), process.is_kernel, false};
}

Group SelectedOf(const Group& group, const History& history, const Selection& selection) {
  Group selected = {group.name, group.is_kernel, group.is_place, {}};
  if (!selection.any() && group.name == "slotscope") return selected;
  for (uint32_t member : group.members) {
    const ProcessHistory& process = history.processes()[member];
    if (!selection.any() || selection.Has(process.key, process.comm)) selected.members.push_back(member);
  }
  return selected;
}

Party PartyOf(const History& history, const Group& group) {
  const auto place_of = [&](uint32_t member) {
    const auto& cgroup = history.processes()[member].cgroup;
    return cgroup ? PlaceText(*cgroup) : "";
  };
  Party party = {
      group.name,      group.members.size(), history.processes()[group.members.front()].key.tgid,
      group.is_kernel, group.is_place,       ""};
  if (group.is_place || group.is_kernel) return party;
  party.place = place_of(group.members.front());
  for (const uint32_t member : group.members)
    if (place_of(member) != party.place) party.place.clear();
  return party;
}

Groups::Groups(const History& history, GroupBy by) : name_of_(history.processes().size()) {
  std::map<std::tuple<bool, bool, std::string>, size_t> known;
  for (uint32_t i = 0; i < history.processes().size(); i++) {
    const GroupName name = NameOfGroup(history.processes()[i], by);
    const auto [place, is_new] =
        known.try_emplace({name.is_kernel, name.is_place, name.name}, by_name_.size());
    if (is_new) by_name_.push_back({name.name, name.is_kernel, name.is_place, {}});
    by_name_[place->second].members.push_back(i);
    name_of_[i] = place->second;
  }
  for (const Group& group : by_name_) {
    Group rest = {group.name, group.is_kernel, group.is_place, {}};
    for (uint32_t member : group.members) {
      if (!group.is_place && (group.members.size() == 1 || LivesLong(history.processes()[member])))
        subjects_.push_back({group.name, group.is_kernel, false, {member}});
      else
        rest.members.push_back(member);
    }
    if (!rest.members.empty()) subjects_.push_back(std::move(rest));
  }
  subject_of_.resize(name_of_.size());
  for (size_t i = 0; i < subjects_.size(); i++)
    for (uint32_t member : subjects_[i].members) subject_of_[member] = i;
}

}  // namespace slotscope
