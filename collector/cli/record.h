// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope record. Prints progress to stderr and the summary to stdout. Returns the exit code.
int Record(const RecordOptions& options);

}  // namespace slotscope
