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

// What is probed, as no compiler would leave it.
asm(R"(
	.pushsection .text
	.globl slotscope_target_other, slotscope_target_push, slotscope_target_endbr
	.type slotscope_target_other, @function
slotscope_target_other:
	mov %rdi, %rax
	ret
	.type slotscope_target_push, @function
slotscope_target_push:
	push %rbp
	pop %rbp
	ret
	.type slotscope_target_endbr, @function
slotscope_target_endbr:
	endbr64
	ret
	.popsection
)");
extern "C" {
[[gnu::visibility("hidden")]] void slotscope_target_other();
[[gnu::visibility("hidden")]] void slotscope_target_push();
[[gnu::visibility("hidden")]] void slotscope_target_endbr();
}

namespace slotscope {
namespace {

// For long enough: the first 30 ms behind an attachment are up to a fifth slower.
constexpr int kRounds = 20, kCalls = 200;

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

constexpr void (*kTargets[SS_NR_PROLOGUES])() = {slotscope_target_other, slotscope_target_push,
                                                 slotscope_target_endbr};

// Of all calls in the quickest round: who is interrupted is slower, and nobody is quicker.
uint64_t CallsNs(void (*target)()) {
  uint64_t best_ns = std::numeric_limits<uint64_t>::max();
  for (int round = 0; round < kRounds; round++) {
    const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < kCalls; i++) target();
    best_ns = std::min(best_ns, ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
  }
  return best_ns;
}

Status MeasureCall(CudaProbes* probes, void (*target)(), double* call_ns) {
  const FilePlace place = PlaceOf(reinterpret_cast<const void*>(target));
  if (place.path.empty()) return {Exit::kKernel, "this program does not find itself"};
  const uint64_t alone_ns = CallsNs(target);
  CudaAttachment attachment;
  if (Status status = probes->AttachNothing(place.path, place.offset, &attachment); !status.ok())
    return status;
  const uint64_t probed_ns = CallsNs(target);
  if (probed_ns <= alone_ns) return {Exit::kKernel, "it takes no time"};
  *call_ns = static_cast<double>(probed_ns - alone_ns) / kCalls;
  return {};
}

}  // namespace

Status TrapCosts::Measure(CudaProbes* probes, const CudaLibrary& library) {
  for (const CudaLibrary::Target& target : library.targets) {
    std::atomic<double>& known_ns = call_ns_[target.prologue];
    if (known_ns.load(std::memory_order_relaxed) != 0) continue;
    double call_ns = 0;
    if (Status status = MeasureCall(probes, kTargets[target.prologue], &call_ns); !status.ok())
      return status;
    known_ns.store(call_ns, std::memory_order_relaxed);
  }
  return {};
}

uint64_t TrapCosts::SumNs(const CudaEntries& entries) const {
  double sum_ns = 0;
  for (size_t i = 0; i < entries.size(); i++)
    sum_ns += call_ns_[i].load(std::memory_order_relaxed) * static_cast<double>(entries[i]);
  return static_cast<uint64_t>(sum_ns);
}

}  // namespace slotscope
