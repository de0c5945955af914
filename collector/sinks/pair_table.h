// SPDX-License-Identifier: MIT
// Who kept whom waiting over the whole run, for the summary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

struct PairTotal {
  ProcessKey waiter = {};
  ProcessKey ran = {};  // tgid 0: several, of that name if it has one
  Comm waiter_comm = {};
  Comm ran_comm = {};
  uint64_t ns = 0;
};

// Keeps a bounded number of pairs: when there are too many, those with the least are forgotten.
class PairTable {
 public:
  void OnSlot(const Slot& slot);
  // The longest first.
  std::vector<PairTotal> Worst(size_t nr) const;

 private:
  static constexpr size_t kMaxPairs = 8192;

  void Shrink();

  std::map<std::tuple<ProcessKey, ProcessKey, Comm>, PairTotal> pairs_;
};

}  // namespace slotscope
