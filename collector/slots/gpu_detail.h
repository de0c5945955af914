// SPDX-License-Identifier: MIT
// What GPUs did in a slot, beside the columns of slots.csv.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/gpu_device.h"
#include "ring/item.h"
#include "slots/gpu_span.h"
#include "track/tracker.h"

namespace slotscope {

// What a process's CUDA calls say. Launches are those in the slot; active is the time in which at least
// one had been launched and not waited for; memory is what it holds at the slot's end. Of a process that
// launches, the rest of the time its GPU had no work of it, and what its launching thread did then.
enum GpuValue : size_t {
  kGpuMemBytes,
  kGpuActiveNs,
  kGpuLaunches,
  kGpuNoWork,         // the sum of those below, but for kNoWorkInCalls
  kNoWorkRan,         // the thread ran on a CPU
  kNoWorkInCalls,     // of that: in CUDA calls
  kNoWorkWaited,      // it waited for a CPU
  kNoWorkThrottled,   // its cgroup's quota was used up
  kNoWorkInCudaWait,  // it slept in a CUDA call
  kNoWorkDisk,
  kNoWorkStopped,  // by a signal, or a debugger
  kNoWorkAsleep,   // in something else
  kNoWorkUnknown,
  kLauncherRan,      // with work or without
  kLauncherInCalls,  // of that: in CUDA calls
  kNrGpuValues
};
// Bits: what is known only where turns of threads are told; and what only of processes that launch.
inline constexpr uint32_t kOfTurns = (1u << kNrGpuValues) - (1u << kNoWorkRan);
inline constexpr uint32_t kOfLauncher = 1u << kLauncherRan | 1u << kLauncherInCalls;
inline constexpr uint32_t kOfLaunches = 1u << kGpuNoWork | kOfTurns;

// A process that launches fewer kernels than it used to, while others take the CPU from it. As decided
// at the detector's last tick before the slot, see straggle/detector.h.
enum class Straggle : uint8_t {
  kNone = 0,
  kInitial = 1,    // since the last tick
  kSustained = 2,  // for longer
  kUnknown,        // it has not been seen for long enough, or was not measured
};

struct GpuRow {
  std::array<uint64_t, kNrGpuValues> values = {};
  uint32_t unmeasured = 0;  // bit GpuValue
  bool any = false;         // something was active, launched, allocated or freed
  Straggle straggle = Straggle::kUnknown;
  uint32_t drop_ppm = 0;  // of its launches, against what it used to; if straggle is known

  template <typename Archive>
  void State(Archive& state) {
    state(values, unmeasured, any, drop_ppm);
    state.Enum(straggle, Straggle::kUnknown);
  }
};

// One process on one device, in a slot in which something happened there.
struct GpuPart {
  ProcessKey process;
  Comm comm = {};  // if it is named
  int32_t device;  // index among the devices that the process sees, or kUnknownDevice
  int32_t gpu;     // index into the facts' list, or kUnknownGpu
  GpuRow row;

  template <typename Archive>
  void State(Archive& state) {
    state(process, comm, device, gpu, row);
  }
};

// All processes on one GPU, in a slot in which something happened there, or NVML has spoken of it.
struct GpuTotal {
  int32_t gpu;  // index into the facts' list
  // Active: while any process was. Memory: of all processes that are known; launches as well.
  GpuRow row;
  // By NVML: the latest sample before the slot's end; of kGpuSample* bits.
  uint32_t known = 0;
  uint64_t used_bytes = 0;
  uint64_t sm_active_ppm = 0;  // from sm_since_ns to sm_until_ns
  uint64_t sm_since_ns = 0;
  uint64_t sm_until_ns = 0;

  template <typename Archive>
  void State(Archive& state) {
    state(gpu, row, known, used_bytes, sm_active_ppm, sm_since_ns, sm_until_ns);
  }
};

// What a process holds on one of its devices after a call that allocated or freed there.
struct GpuBalance {
  uint64_t ts_ns;  // when the call returned, or the process ended
  ProcessKey process;
  Comm comm = {};             // if it is named
  int32_t device;             // as in GpuPart
  int32_t gpu;                // as in GpuPart
  uint64_t bytes;             // a lower bound if not complete
  uint64_t last_alloc_bytes;  // of the latest allocation there that succeeded; 0: none was seen
  bool complete;              // all of its allocations were seen
  bool missed;                // a call was: bytes says nothing
  bool again = false;         // nothing has changed, but which GPU it is is known now
};

struct GpuDetail {
  GpuSpans spans;  // if they are wanted
  std::vector<GpuPart> parts;
  std::vector<GpuTotal> totals;
  std::vector<GpuBalance> balances;  // if they are wanted; in the order of time
  std::vector<ProcessKey> ended;     // processes that used a GPU, in the slot
  void Clear() {
    ended.clear();
    spans.kernels.clear();
    spans.memory.clear();
    parts.clear();
    totals.clear();
    balances.clear();
  }
};

}  // namespace slotscope
