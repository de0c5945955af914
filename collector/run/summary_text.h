// SPDX-License-Identifier: MIT
// What a recording says at its end on a screen of 24 lines of 80 columns.
#pragma once

#include <cstddef>
#include <string>

#include "run/summary.h"

namespace slotscope {

// A screen has 24: the command, that it records, what was written, and the prompt take one each.
inline constexpr size_t kSummaryLines = 20;

// Who kept whom waiting; who took how much, by name; what was lost, what is not measured, whether the
// accounts add up. At most kSummaryLines, but for sentences on this run alone. `details`: also
// what each counter that is not 0 means, and the accounts.
std::string SummaryText(const RunSummary& run, bool details);

}  // namespace slotscope
