// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope check: what this machine can and cannot measure, to stdout. Returns the exit code: 0, or
// that of a recording, if none can be made.
int Check(const CheckOptions& options);

}  // namespace slotscope
