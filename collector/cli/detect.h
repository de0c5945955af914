// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope detect: what the detectors find in what is given to them. In a terminal for people,
// elsewhere a JSON object per verdict and line. Returns the exit code.
int Detect(const DetectOptions& options);

}  // namespace slotscope
