// SPDX-License-Identifier: MIT
// What a uprobe costs before any program runs: the trap into the kernel, and the way back.
#pragma once

namespace slotscope {

// CPU time, in ns, of one trap here and now, by a function of our own that is probed for some
// milliseconds. Half of those traps are at its entry, half at its return. 0: this kernel does not let
// us.
double MeasureTrapNs();

}  // namespace slotscope
