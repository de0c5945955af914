// SPDX-License-Identifier: MIT
// A hang, told: as a JSON object for programs, and in a sentence.
#pragma once

#include <string>

#include "detect/nccl_hang.h"

namespace slotscope {

// "ranks 12, 14 wait in nccl:all_reduce 6870 of GROUP; ...".
std::string NcclHangHeadline(const NcclRecords& records, const NcclHang& hang);

// With the newline.
std::string NcclHangLine(const NcclRecords& records, const NcclHang& hang, NcclClock clock);

}  // namespace slotscope
