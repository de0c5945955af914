// SPDX-License-Identifier: MIT
#include "cuda/losers.h"

namespace slotscope {

void Losers::Look(std::span<const Count> counts, uint64_t now_ns, std::vector<LostCalls>* lost,
                  std::vector<ss_cuda_loser>* idle) {
  const uint64_t patience_ns = counts.size() > kMany ? 0 : kIdleNs;
  for (const auto& [loser, nr] : counts) {
    const auto key = std::pair(loser.start_time_ns, loser.tgid);
    Seen& seen = seen_.try_emplace(key, Seen{0, now_ns}).first->second;
    if (nr != seen.nr) {
      lost->push_back({loser.tgid, 0, loser.start_time_ns, nr - seen.nr});
      seen = {nr, now_ns};
    } else if (now_ns - seen.changed_ns >= patience_ns) {
      idle->push_back(loser);
      seen_.erase(key);
    }
  }
}

}  // namespace slotscope
