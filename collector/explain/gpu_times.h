// SPDX-License-Identifier: MIT
// What a process's GPU and the thread that launches did for how long, as rows of slots have it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "slots/gpu_detail.h"

namespace slotscope {

// [GpuValue], ns; only of a process that launches, from kGpuNoWork on.
using GpuTimes = std::array<uint64_t, kNrGpuValues>;

// Its GPU had no work, and its thread was not kept from launching by what is told of in another column
// (waits for a CPU, a quota, a disk, a signal): it waited for something, or worked.
inline uint64_t StarvedNs(const GpuTimes& times) {
  return times[kNoWorkAsleep] + times[kNoWorkInCudaWait] + times[kNoWorkRan] + times[kNoWorkUnknown];
}

// Of these the one that took longest.
inline GpuValue StarvedBy(const GpuTimes& times) {
  GpuValue longest = kNoWorkAsleep;
  for (const GpuValue one : {kNoWorkInCudaWait, kNoWorkRan, kNoWorkUnknown})
    if (times[one] > times[longest]) longest = one;
  return longest;
}

}  // namespace slotscope
