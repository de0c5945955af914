// SPDX-License-Identifier: MIT
// What a uprobe costs before any program runs: the trap into the kernel, and the way back.
#pragma once

#include "base/status.h"
#include "cuda/probes.h"

namespace slotscope {

// *trap_ns: CPU time of one trap here and now, by a function of our own that is probed for some
// milliseconds. Half of those traps are at its entry, half at its return. REQUIRES: probes->Load().
Status MeasureTrap(CudaProbes* probes, double* trap_ns);

}  // namespace slotscope
