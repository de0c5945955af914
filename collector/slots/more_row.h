// SPDX-License-Identifier: MIT
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace slotscope {

// What the perf counters say that come behind the first ones, by index - SS_NR_COUNTERS.
using MoreSums = std::array<ss_counter, SS_MAX_MORE>;

inline void AddCounters(MoreSums* to, const MoreSums& what) {
  for (size_t i = 0; i < SS_MAX_MORE; i++) {
    (*to)[i].delta += what[i].delta;
    (*to)[i].enabled_ns += what[i].enabled_ns;
    (*to)[i].running_ns += what[i].running_ns;
  }
}

// Of a process in a slot. A counter is shown only if its bit in `unmeasured` is clear.
struct MoreRow {
  MoreSums sums = {};
  uint32_t unmeasured = 0;
};

inline void AddMore(MoreRow* to, const MoreRow& what) {
  AddCounters(&to->sums, what.sums);
  to->unmeasured |= what.unmeasured;
}

}  // namespace slotscope
