// SPDX-License-Identifier: MIT
// Which processes are in the groups that are selected, as of the last slot.
#pragma once

#include <unordered_set>
#include <utility>

#include "slots/slot.h"
#include "track/group_filter.h"

namespace slotscope {

class GroupMembers {
 public:
  explicit GroupMembers(GroupFilter filter) : filter_(std::move(filter)) {}

  // Each slot, in order.
  void OnSlot(const Slot& slot) {
    if (!filter_.any()) return;
    for (const ProcessIdentity& one : slot.identities) {
      if (one.cgroup && filter_.Matches(*one.cgroup))
        members_.insert(one.key);
      else
        members_.erase(one.key);
    }
  }
  bool Has(ProcessKey process) const { return !members_.empty() && members_.contains(process); }

 private:
  GroupFilter filter_;
  std::unordered_set<ProcessKey, ProcessKeyHash> members_;
};

}  // namespace slotscope
