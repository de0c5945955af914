// SPDX-License-Identifier: MIT
#pragma once

#include "base/status.h"
#include "detect/inputs/inputs.h"

namespace slotscope {

// An hour of a cluster that does not exist, through the same readers as real inputs: four ranks of which
// one does not come, a GPU that falls off its bus under three pods, and a node whose disk is full.
Status MakeDemo(DetectInputs* inputs);

}  // namespace slotscope
