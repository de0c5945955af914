// SPDX-License-Identifier: MIT
// What an ELF file has of CUDA. The file is any process's and not to be trusted.
#pragma once

#include <slotscope/cuda_probe.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace slotscope {

struct CudaLibrary {
  enum class Kind {
    kNone,
    kRuntime,        // libcudart, or an executable that it was linked into and that has its symbols
    kDriver,         // libcuda
    kHiddenRuntime,  // device code, but no symbols of a runtime: only the driver's calls can be seen
  };
  // A function to be probed.
  struct Target {
    uint64_t offset;  // in the file
    uint32_t call;    // index into CudaCalls()
    ss_cuda_prologue prologue = SS_PROLOGUE_OTHER;
    bool operator==(const Target&) const = default;
  };

  Kind kind = Kind::kNone;
  std::vector<Target> targets;    // by offset, each once
  std::vector<std::string> gaps;  // functions that may launch or allocate, and are not probed
};

// Fails if the file is not a well-formed ELF file for x86-64, or takes more of us than ElfFile's limits.
// `stop`: see there.
Status ReadCudaLibrary(int fd, CudaLibrary* library, const std::atomic<bool>* stop = nullptr);

}  // namespace slotscope
