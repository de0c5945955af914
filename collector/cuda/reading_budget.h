// SPDX-License-Identifier: MIT
// How much of our time the files of one process may take: whoever maps many that take long to read waits
// for his own, and nobody waits for his.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace slotscope {

class ReadingBudget {
 public:
  // A process may take so much at once (a deep-learning framework takes 0.3 s), and of the time behind
  // that one part in so many.
  static constexpr uint64_t kBurstNs = 1'000'000'000;
  static constexpr uint64_t kShare = 20;

  // May a file be read for it now?
  bool Allows(int32_t tgid, uint64_t now_ns) const {
    const auto at = owes_.find(tgid);
    return at == owes_.end() || OwedBy(at->second, now_ns) < kBurstNs;
  }
  // One was, in so much CPU time.
  void Took(int32_t tgid, uint64_t took_ns, uint64_t now_ns) {
    Debt& debt = owes_[tgid];
    debt = {OwedBy(debt, now_ns) + took_ns, now_ns};
  }
  // Those that owe nothing any more are forgotten.
  void Settle(uint64_t now_ns) {
    std::erase_if(owes_, [&](const auto& entry) { return OwedBy(entry.second, now_ns) == 0; });
  }

 private:
  struct Debt {
    uint64_t ns = 0;
    uint64_t since_ns = 0;
  };
  static uint64_t OwedBy(const Debt& debt, uint64_t now_ns) {
    return debt.ns - std::min(debt.ns, (now_ns - std::min(now_ns, debt.since_ns)) / kShare);
  }

  std::map<int32_t, Debt> owes_;  // by tgid
};

}  // namespace slotscope
