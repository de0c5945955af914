// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope ship: the complete segments of a recording into a ClickHouse server. Returns the exit code.
int Ship(const ShipVerbOptions& options);

}  // namespace slotscope
