// SPDX-License-Identifier: MIT
#pragma once

#include "detect/pod_evicted.h"
#include "detect/verdict.h"

namespace slotscope {

// deploy/schemas/pod_evicted_verdict.schema.json
Verdict PodEvictedVerdict(const PodEvicted& evicted);

}  // namespace slotscope
