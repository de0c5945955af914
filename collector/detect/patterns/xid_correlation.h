// SPDX-License-Identifier: MIT
// Finds pods that were evicted from a node soon after a GPU of it failed (pattern 16).
#pragma once

#include <cstdint>
#include <vector>

#include "detect/inputs/cluster_records.h"
#include "detect/inputs/kernel_log.h"

namespace slotscope {

inline constexpr int64_t kDefaultXidWindowNs = 60'000'000'000;

struct XidCorrelation {
  PodEviction eviction;
  XidRecord xid;                  // the latest one before it
  std::vector<XidRecord> before;  // those before that one, in the window, oldest first; the latest few
};

// One per evicted pod that had an Xid on its node within window_ns before, by time of the eviction and
// then by its uid. Where times are too coarse to tell, what may have been so counts.
std::vector<XidCorrelation> FindXidCorrelations(const std::vector<XidRecord>& xids,
                                                const std::vector<PodEviction>& evictions,
                                                int64_t window_ns);

}  // namespace slotscope
