// SPDX-License-Identifier: MIT
// What a GPU did for a process, seen from the CPU: from a call to the call that waited for it.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "track/tracker.h"

namespace slotscope {

// A device of which nothing is known: the process began before we did and has not named it since.
inline constexpr int32_t kUnknownDevice = -1;

// What ended a span of kernels, and so how well it is known when they ended.
enum class KernelsEnd : uint8_t {
  kWaited,   // somebody waited for them, and they were done by then
  kForced,   // kMaxPendingLaunches, not because anybody waited
  kExited,   // the process ended, or ran another program
  kUnknown,  // what happened from there on was not seen, or nobody can wait for them any more
};
inline constexpr std::array<std::string_view, 4> kKernelsEndNames = {"waited", "forced", "exited",
                                                                     "unknown"};

struct KernelSpan {
  ProcessKey process;
  int32_t device;     // index among the devices that the process sees
  uint64_t stream;    // handle; 0: the default stream
  uint64_t start_ns;  // the first launch was called
  uint64_t end_ns;    // what waited for the last one returned; or see `end`
  uint64_t nr_launches;
  uint64_t avg_threads;  // per launch; graphs not counted
  KernelsEnd end;
};

struct MemorySpan {
  ProcessKey process;
  int32_t device;
  uint64_t handle;  // address, or what the library calls it
  uint64_t bytes;
  ss_cuda_memory kind;
  uint64_t start_ns;
  uint64_t end_ns;
  bool leaked;  // never freed: the process ended
};

// Those that ended in a slot.
struct GpuSpans {
  std::vector<KernelSpan> kernels;
  std::vector<MemorySpan> memory;
};

// Gets each span once, when it has ended.
struct SpanSink {
  virtual ~SpanSink() = default;
  virtual void OnKernels(const KernelSpan& span) = 0;
  virtual void OnMemory(const MemorySpan& span) = 0;
};

}  // namespace slotscope
