// SPDX-License-Identifier: MIT
// Totals per process over a run, for the summary.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

struct Total {
  RowKind kind = RowKind::kUser;
  ProcessKey key = {};
  Comm comm = {};
  uint32_t unmeasured = 0;
  uint64_t nr_slots = 0;
  Sums sums = {};
};

// Keeps a bounded number of processes: when there are too many, those with the least cpu_ns are added
// to one total of kind other.
class TopTable {
 public:
  void OnSlot(const Slot& slot);

  // By cpu_ns, largest first; kinds idle, lost and offline included.
  std::vector<Total> Sorted();

 private:
  // A process's total as long as its tracker id is its own: most rows need no hashing.
  struct Recent {
    bool used = false;
    Total total;
  };

  void Retire(Recent* recent);
  void Shrink();

  std::vector<Recent> recent_;  // [Row::process]
  std::unordered_map<ProcessKey, Total, ProcessKeyHash> processes_;
  std::unordered_map<RowKind, Total> others_;  // what is no single process
};

}  // namespace slotscope
