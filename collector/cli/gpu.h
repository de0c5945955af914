// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope gpu [FILE]: the GPUs and the processes that use them, now or in a recording, for people.
// Returns the exit code.
int PrintGpus(const GpuOptions& options);

}  // namespace slotscope
