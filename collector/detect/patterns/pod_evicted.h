// SPDX-License-Identifier: MIT
// Says why pods were evicted, and joins those that had to go because their node ran short of something
// to what the node says of itself (pattern 14).
#pragma once

#include <optional>
#include <vector>

#include "detect/inputs/cluster_records.h"

namespace slotscope {

struct PodEvicted {
  PodEviction eviction;
  // The change by which the node came under the pressure that it was under then. Nothing: it has not
  // said so; or, if the cause is another one, it need not.
  std::optional<PressureChange> pressure;
  // When the node was rid of it again.
  std::optional<PressureChange> relief;

  // Of the two layers that such an eviction has, one is not there.
  bool lacks_node() const { return eviction.cause == EvictionCause::kPressure && !pressure; }
};

// One per evicted pod, by time and then by uid. Changes after an eviction do not explain it.
std::vector<PodEvicted> FindPodEvicted(const ClusterRecords& records);

}  // namespace slotscope
