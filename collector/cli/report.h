// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope report: a recording, or its worst two minutes, as a page. Returns the exit code.
int Report(const ReportOptions& options);

}  // namespace slotscope
