// SPDX-License-Identifier: MIT
// All that detectors look at, whatever it was read from.
#pragma once

#include <vector>

#include "detect/inputs/cluster_records.h"
#include "detect/inputs/kernel_log.h"
#include "detect/inputs/nccl_records.h"

namespace slotscope {

struct DetectRecords {
  NcclRecords nccl;
  std::vector<XidRecord> xids;
  std::vector<XidRecord> untimed_xids;  // of which nobody knows when they were; they join nothing
  ClusterRecords cluster;
};

}  // namespace slotscope
