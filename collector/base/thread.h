// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>
#include <sys/resource.h>

namespace slotscope {

// For the threads that a recording goes through: with hundreds of others on its CPU one of an ordinary
// weight would run too late, and what comes meanwhile would be lost. What they may take is bounded by
// --max-overhead. This thread only; refused without privilege, and then so be it.
inline void RaiseThreadPriority() { setpriority(PRIO_PROCESS, 0, -20); }

// What `top -H` shows of this thread; 15 bytes at most. A process keeps the name of its first thread.
inline void NameThread(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace slotscope
