// SPDX-License-Identifier: MIT
#pragma once

#include "base/status.h"
#include "detect/inputs/inputs.h"

namespace slotscope {

// An hour of a cluster that does not exist, through the same readers as real inputs, in which each
// detector finds something.
Status MakeDemo(DetectInputs* inputs);

}  // namespace slotscope
