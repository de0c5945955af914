// SPDX-License-Identifier: MIT
// What can be seen of a process's CUDA calls, library by library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda/library.h"

namespace slotscope {

// What every process that uses CUDA maps, however its runtime was linked.
bool IsCudaName(std::string_view path);

struct CudaFileCoverage {
  std::string name;  // of the file, escaped
  CudaLibrary::Kind kind = CudaLibrary::Kind::kNone;
  size_t nr_probed = 0;           // functions
  std::vector<std::string> gaps;  // functions that may launch or allocate, and are not probed
  std::string error;              // why it cannot be probed at all
};

// `error`: of reading or attaching, empty if there was none. False if the file has nothing to do with
// CUDA.
bool DescribeFile(std::string_view path, const CudaLibrary& library, const std::string& error,
                  CudaFileCoverage* coverage);

// What is not seen, or only in the driver; empty: nothing. Runtimes without symbols are alike, of which
// PyTorch's libraries bring a dozen.
std::string GapsOf(const std::vector<CudaFileCoverage>& files);

// "libcudart.so.13: 90 functions probed, not these: cudaMallocNew; libcuda.so.1: 120 functions probed".
std::string CoverageText(const std::vector<CudaFileCoverage>& files);

// Of a live process, as a recording would have it; libraries that were read before are in *known, by
// (dev, inode). Empty: it uses no CUDA, has ended, or may not be looked at.
using KnownLibraries = std::map<std::pair<uint64_t, uint64_t>, std::pair<CudaLibrary, std::string>>;
std::vector<CudaFileCoverage> ReadCoverage(int32_t tgid, KnownLibraries* known);

}  // namespace slotscope
