// SPDX-License-Identifier: MIT
#pragma once

#include "detect/patterns/pod_evicted.h"
#include "detect/patterns/verdict.h"

namespace slotscope {

// deploy/schemas/pod_evicted_verdict.schema.json
Verdict PodEvictedVerdict(const PodEvicted& evicted);

}  // namespace slotscope
