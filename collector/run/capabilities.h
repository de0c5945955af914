// SPDX-License-Identifier: MIT
#pragma once

#include <cap-ng.h>

#include <array>

namespace slotscope {

// What a recording needs of root: to load programs and open counters, to look into other processes for
// CUDA, to read the kernel's log. (The packaged unit has these, and CAP_SYS_ADMIN.)
inline constexpr std::array kRecordingCapabilities = {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE,
                                                      CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE};

// From here on the calling thread, and those that it starts, have of root's capabilities what a
// recording needs, and none that they did not have. `needs_admin`: CAP_SYS_ADMIN as well.
void DropCapabilities(bool needs_admin);

}  // namespace slotscope
