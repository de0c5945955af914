// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope explain: the stalls of a recording in which somebody did not get on, to stdout. Returns the
// exit code.
int Explain(const ExplainOptions& options);

}  // namespace slotscope
