// SPDX-License-Identifier: MIT
// Any bytes as an ELF file that a process has mapped.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "cuda/calls.h"
#include "cuda/library.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  static const int kFile = memfd_create("elf", MFD_CLOEXEC);
  Require(ftruncate(kFile, 0) == 0 && pwrite(kFile, data, size, 0) == static_cast<ssize_t>(size));
  CudaLibrary library;
  const Status status = ReadCudaLibrary(kFile, &library);
  Require(status.ok() == status.message().empty());
  Require(status.ok() || (library.targets.empty() && library.gaps.empty()));
  uint64_t last = 0;
  for (const auto& target : library.targets) {
    Require(target.call < CudaCalls().size() && target.offset < size);
    Require(&target == &library.targets.front() || target.offset > last);
    last = target.offset;
  }
  for (const std::string& gap : library.gaps)
    for (char c : gap) Require(c > ' ' && c <= '~');
  return 0;
}
