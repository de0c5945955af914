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
class TopTable final : public SlotSink {
 public:
  void OnSlot(const Slot& slot) override;

  // By cpu_ns, largest first; kinds idle, lost and offline included.
  std::vector<Total> Sorted() const;

 private:
  void Shrink();

  std::unordered_map<ProcessKey, Total, ProcessKeyHash> processes_;
  std::unordered_map<RowKind, Total> others_;  // what is no single process
};

}  // namespace slotscope
