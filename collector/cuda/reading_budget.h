// SPDX-License-Identifier: MIT
// How much of our time the files of one process may take: whoever maps many that take long to read waits
// for his own, and nobody waits for his.
#pragma once

#include <cstdint>
#include <map>

#include "base/time_debt.h"

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
    return at == owes_.end() || at->second.Allows(now_ns);
  }
  // One was, in so much CPU time.
  void Took(int32_t tgid, uint64_t took_ns, uint64_t now_ns) {
    owes_.try_emplace(tgid, kBurstNs, kShare).first->second.Took(took_ns, now_ns);
  }
  // Those that owe nothing any more are forgotten.
  void Settle(uint64_t now_ns) {
    std::erase_if(owes_, [&](const auto& entry) { return entry.second.OwedAt(now_ns) == 0; });
  }

 private:
  std::map<int32_t, TimeDebt> owes_;  // by tgid
};

}  // namespace slotscope
