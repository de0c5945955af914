// SPDX-License-Identifier: MIT
// A hang, told: as a verdict for programs, and in a sentence.
#pragma once

#include <set>
#include <string>

#include "detect/patterns/nccl_hang.h"
#include "detect/patterns/verdict.h"

namespace slotscope {

// "ranks 12, 14 wait in nccl:all_reduce 6870 of GROUP; ...".
std::string NcclHangHeadline(const NcclRecords& records, const NcclHang& hang);

// Where to look first. `suspects`: of all hangs of the job, see SuspectsOf().
std::string NcclHangRemediation(const NcclHang& hang, const std::set<int32_t>& suspects);

// Verdict::key.
std::string NcclHangKey(const NcclRecords& records, const NcclHang& hang);

// deploy/schemas/nccl_hang_verdict.schema.json
Verdict NcclHangVerdict(const NcclRecords& records, const NcclHang& hang, NcclClock clock,
                        const std::set<int32_t>& suspects_of_job = {});

}  // namespace slotscope
