// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope top: the last second of a recording that is being written, until q; or one of them. Returns
// the exit code.
int Top(const TopOptions& options);

}  // namespace slotscope
