// SPDX-License-Identifier: MIT
// Whether this kernel tells how long a hypervisor ran something else on each CPU (bpf/steal.bpf.h).
#pragma once

#include "ring/kernel_types.h"

namespace slotscope {

// By the nanosecond, whenever it switches: it has to be built so (CONFIG_PARAVIRT_TIME_ACCOUNTING), and
// some must have been told already. That it was not may also mean that there was none.
bool TellsSteal(const KernelTypes& types);

}  // namespace slotscope
