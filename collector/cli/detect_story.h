// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "detect/host/host_evidence.h"
#include "detect/patterns/detectors.h"

namespace slotscope {

// What was found, for people: who has to be looked at first, and since when.
// `evidence` of this host may be null.
std::string DetectStory(const DetectRecords& records, const Findings& findings,
                        const JudgeOptions& options, const EvidenceFn& evidence);

}  // namespace slotscope
