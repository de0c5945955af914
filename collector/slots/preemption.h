// SPDX-License-Identifier: MIT
// Who took the CPU from a process that uses a GPU.
#pragma once

#include <cstdint>

#include "track/tracker.h"

namespace slotscope {

// One process that preempted another one in a slot, on all CPUs.
struct Preemption {
  ProcessKey victim;
  int32_t tgid;     // who ran next
  uint64_t nr = 0;  // times
  uint64_t ns = 0;  // that it then ran at a stretch; less than that where sums came in place of measures

  template <typename Archive>
  void State(Archive& state) {
    state(victim, tgid, nr, ns);
  }
};

}  // namespace slotscope
