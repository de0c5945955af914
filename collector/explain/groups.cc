// SPDX-License-Identifier: MIT
#include "explain/groups.h"

#include <fmt/core.h>

#include <map>
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

Party PartyOf(const History& history, const Group& group) {
  return {group.name, group.members.size(), history.processes()[group.members.front()].key.tgid,
          group.is_kernel};
}

Groups::Groups(const History& history) : name_of_(history.processes().size()) {
  std::map<std::pair<bool, std::string>, size_t> places;
  for (uint32_t i = 0; i < history.processes().size(); i++) {
    const ProcessHistory& process = history.processes()[i];
    const std::string name = NameIn(process);
    const auto [place, is_new] = places.try_emplace({process.is_kernel, name}, by_name_.size());
    if (is_new) by_name_.push_back({name, process.is_kernel, {}});
    by_name_[place->second].members.push_back(i);
    name_of_[i] = place->second;
  }
  for (const Group& group : by_name_) {
    Group rest = {group.name, group.is_kernel, {}};
    for (uint32_t member : group.members) {
      if (group.members.size() == 1 || LivesLong(history.processes()[member]))
        subjects_.push_back({group.name, group.is_kernel, {member}});
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
