// SPDX-License-Identifier: MIT
#pragma once

namespace slotscope {

// slotscope rmids: the module's RMID table, for people. Returns the exit code.
int PrintRmids();

}  // namespace slotscope
