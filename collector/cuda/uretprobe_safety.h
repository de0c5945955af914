// SPDX-License-Identifier: MIT
// May a uretprobe be set in a process that we know nothing of?
//
// On x86-64 kernels since 6.11 a function with a uretprobe returns through a system call of its own.
// Seccomp filters of containers, which allow what they know, refuse it, and the traced process dies.
// Kernels since 6.12.14 let it pass all filters. Which kind this kernel is, is tried in a child.
#pragma once

#include "base/status.h"

namespace slotscope {

// Exit::kKernel, with the reason, if a filter can refuse the system call that uprobes or uretprobes use
// here. Forks, and waits for the children.
Status CheckUretprobesAreSafe();

// kHidden: the kernel has no such call, or a filter that this process runs under says so in its place.
enum class FilterVerdict { kNoSuchCall, kPasses, kRefuses, kHidden, kUnknown };
// What happens to that system call under a filter that refuses it. In the kernel's own answer it does no
// harm: it must be one that may be called out of place.
FilterVerdict TryUnderFilter(long system_call);

}  // namespace slotscope
