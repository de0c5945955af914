// SPDX-License-Identifier: MIT
// What can be known of a machine before anything is recorded.
#pragma once

#include <string>

#include "check/line.h"

namespace slotscope {

// `root`: in front of /proc, /sys and /dev; empty: this machine's own.
CheckLine CheckKernel(const std::string& root, const std::string& release);
// The kernel module, and memory bandwidth and cache occupancy, which only it can measure.
CheckLine CheckModule(const std::string& root);
CheckLine CheckRdt(const std::string& root);
// What it costs to read the clock. `tick`: how a recording gets its tick; empty: there is none.
CheckLine CheckClock(const std::string& root, const std::string& tick);
CheckLine CheckCudaDriver(const std::string& root);

}  // namespace slotscope
