// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "cli/options.h"
#include "detect/host_history.h"
#include "detect/nccl_hang.h"

namespace slotscope {

// What the given recording says of the ranks that hang, and of those that hold them up, around those
// moments. Null in *history if no recording is given. Exit::kBadInput.
Status ReadHost(const DetectOptions& options, const std::vector<NcclHang>& hangs,
                std::unique_ptr<HostHistory>* history);

}  // namespace slotscope
