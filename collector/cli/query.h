// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope query: SQL over the tables of a recording, to stdout or a file. Returns the exit code.
int Query(const QueryOptions& options);

}  // namespace slotscope
