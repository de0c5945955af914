// SPDX-License-Identifier: MIT
// The functions of libcudart and libcuda that are probed: what a call means, and where its values are.
// Signatures are those of CUDA 11 to 13 on x86-64; a struct by value is on the stack, but a dim3, which
// is in two registers (x | y << 32, z).
#pragma once

#include <slotscope/cuda_probe.h>

#include <string>
#include <string_view>
#include <vector>

namespace slotscope {

struct CudaCall {
  std::string name;  // of the symbol
  ss_cuda_probe probe;
};

// All of them; an index is what an attach cookie has. With the variants that nvcc's --default-stream
// per-thread calls
// (_ptsz, _ptds), whether a library has them or not.
const std::vector<CudaCall>& CudaCalls();

// Of a function in a library that is not among CudaCalls(): could it launch work or allocate, free, or
// share memory? Such functions are a gap that has to be told: newer versions of CUDA have some that we
// do not know.
bool IsCudaGap(std::string_view symbol);

}  // namespace slotscope
