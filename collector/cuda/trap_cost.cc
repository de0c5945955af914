// SPDX-License-Identifier: MIT
#include "cuda/trap_cost.h"

#include <fmt/core.h>
#include <link.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/clock.h"

namespace slotscope {
namespace {

constexpr int kRounds = 5, kCalls = 200;

// What is probed.
[[gnu::noinline, gnu::noclone]] void Target() { asm volatile("" ::: "memory"); }

// Where an address of this program is: in which file, and where in it. (/proc/self/exe may be the
// dynamic loader.)
struct FilePlace {
  std::string path;  // empty: not found
  uint64_t offset;
};
FilePlace PlaceOf(const void* address) {
  struct Search {
    uint64_t address;
    FilePlace place;
  } search = {reinterpret_cast<uint64_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto* to = static_cast<Search*>(data);
        const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        for (int i = 0; i < object->dlpi_phnum; i++) {
          const auto& segment = object->dlpi_phdr[i];
          const uint64_t begin = object->dlpi_addr + segment.p_vaddr, end = begin + segment.p_filesz;
          if (segment.p_type != PT_LOAD || to->address < begin || to->address >= end) continue;
          to->place = {fmt::format("/proc/self/map_files/{:x}-{:x}", begin & ~(page - 1),
                                   (end + page - 1) & ~(page - 1)),
                       to->address - begin + segment.p_offset};
        }
        return 1;  // the program itself comes first
      },
      &search);
  return search.place;
}

// Of all calls in the quickest round: who is interrupted is slower, and nobody is quicker.
uint64_t CallsNs() {
  uint64_t best_ns = std::numeric_limits<uint64_t>::max();
  for (int round = 0; round < kRounds; round++) {
    const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < kCalls; i++) Target();
    best_ns = std::min(best_ns, ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
  }
  return best_ns;
}

}  // namespace

Status MeasureTrap(CudaProbes* probes, double* trap_ns) {
  const FilePlace place = PlaceOf(reinterpret_cast<const void*>(&Target));
  if (place.path.empty()) return {Exit::kKernel, "this program does not find itself"};
  const uint64_t alone_ns = CallsNs();
  CudaAttachment attachment;
  if (Status status = probes->AttachNothing(place.path, place.offset, &attachment); !status.ok())
    return status;
  const uint64_t probed_ns = CallsNs();
  if (probed_ns <= alone_ns) return {Exit::kKernel, "it takes no time"};
  *trap_ns = static_cast<double>(probed_ns - alone_ns) / (2 * kCalls);
  return {};
}

}  // namespace slotscope
