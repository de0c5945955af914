// SPDX-License-Identifier: MIT
#include "sinks/pair_table.h"

#include <algorithm>

namespace slotscope {

void PairTable::OnSlot(const Slot& slot) {
  for (const WaitDetail& one : slot.wait_details) {
    if (one.cause != kWaitOthers) continue;
    const Comm several = one.has_ran() ? Comm{} : one.ran_comm;
    PairTotal& total = pairs_[{one.waiter, one.ran, several}];
    total.waiter = one.waiter;
    total.ran = one.ran;
    if (one.waiter_comm != Comm{}) total.waiter_comm = one.waiter_comm;
    if (one.ran_comm != Comm{}) total.ran_comm = one.ran_comm;
    total.ns += one.ns;
  }
  if (pairs_.size() > kMaxPairs) Shrink();
}

void PairTable::Shrink() {
  const std::vector<PairTotal> worst = Worst(kMaxPairs / 2);
  const uint64_t least_ns = worst.back().ns;
  auto nr_equal = std::count_if(worst.begin(), worst.end(),
                                [&](const PairTotal& total) { return total.ns == least_ns; });
  std::erase_if(pairs_, [&](const auto& pair) {
    return pair.second.ns < least_ns || (pair.second.ns == least_ns && nr_equal-- <= 0);
  });
}

std::vector<PairTotal> PairTable::Worst(size_t nr) const {
  std::vector<PairTotal> totals;
  for (const auto& [pair, total] : pairs_) totals.push_back(total);
  std::stable_sort(totals.begin(), totals.end(),
                   [](const PairTotal& a, const PairTotal& b) { return a.ns > b.ns; });
  totals.resize(std::min(nr, totals.size()));
  return totals;
}

}  // namespace slotscope
