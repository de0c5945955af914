// SPDX-License-Identifier: MIT
// Whose CUDA calls were lost: what the probes count by process (ss_cuda_losers).
//
// The kernel adds to an element while we look. Taken out just then its process's name would be lost, and
// the call could be anybody's. So an element stays where it is, and we tell by how much more it is than
// it was; one that has not changed for a while is taken out.
#pragma once

#include <slotscope/cuda_probe.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ring/item.h"

namespace slotscope {

class Losers {
 public:
  static constexpr uint64_t kIdleNs = 1'000'000'000;
  // When there are so many, whoever has not lost a call since the last look goes.
  static constexpr size_t kMany = SS_CUDA_MAX_LOSERS / 2;

  struct Count {
    ss_cuda_loser loser;
    uint64_t nr;  // calls, ever since it is there
  };

  // `counts`: what the map has now. Adds to `lost` what is new in it, and to `idle` who can be taken
  // out.
  void Look(std::span<const Count> counts, uint64_t now_ns, std::vector<LostCalls>* lost,
            std::vector<ss_cuda_loser>* idle);

 private:
  struct Seen {
    uint64_t nr;
    uint64_t changed_ns;
  };
  std::map<std::pair<uint64_t, int32_t>, Seen> seen_;  // by start time and tgid: who is in the map
};

}  // namespace slotscope
