// SPDX-License-Identifier: MIT
// Filters: what is not wanted is folded into one row of kind other, so that the identity stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slots/group_members.h"
#include "slots/slot.h"

namespace slotscope {

// Rows of kind idle, lost and offline are always kept.
struct FoldOptions {
  std::vector<int32_t> tgids;      // keep these
  std::vector<std::string> comms;  // and these names, exactly as comm holds them
  bool followed_only = false;      // and those that the tracker follows
  size_t top = 0;                  // of what is kept, the most cpu_ns in each slot; 0: all
  GroupFilter groups = {};         // keep those that are in one of them

  // Only some processes are kept, the same ones in each slot.
  bool Selects() const { return !tgids.empty() || !comms.empty() || followed_only || groups.any(); }
  bool IsNoop() const { return !Selects() && top == 0; }
};

// Folds `slot` in place. The order of the kept rows does not change; other comes last.
// `members`: of options.groups; null: nobody is.
void FoldSlot(const FoldOptions& options, Slot* slot, const GroupMembers* members = nullptr);

}  // namespace slotscope
