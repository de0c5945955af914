// SPDX-License-Identifier: MIT
// What uprobes cost before any program runs: the traps into the kernel, and the ways back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "cuda/library.h"
#include "cuda/probes.h"

namespace slotscope {

class TrapCosts {
 public:
  // Of functions that begin as those of this library do, as far as it is not known yet: CPU time here
  // and now, of functions of our own that are probed for some milliseconds. REQUIRES: probes->Load().
  Status Measure(CudaProbes* probes, const CudaLibrary& library);
  // Any thread: ns that these calls took, with their returns, more than they would have unprobed.
  uint64_t SumNs(const CudaEntries& entries) const;

 private:
  std::array<std::atomic<double>, SS_NR_PROLOGUES> call_ns_{};  // 0: not known
};

}  // namespace slotscope
