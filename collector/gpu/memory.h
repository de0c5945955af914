// SPDX-License-Identifier: MIT
// The memory that one process holds on its devices. By its calls alone: what a pool keeps behind them,
// and how a driver rounds, cannot be seen.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <map>
#include <memory_resource>
#include <unordered_map>
#include <utility>
#include <vector>

#include "slots/gpu_span.h"

namespace slotscope {

// Where memory was allocated. Context 0 is the device's primary one.
struct GpuPlace {
  int32_t device = kUnknownDevice;
  uint64_t context = 0;
  bool operator==(const GpuPlace&) const = default;

  template <typename Archive>
  void State(Archive& state) {
    state(device, context);
  }
};

class GpuMemory {
 public:
  // Allocations of one process: our own limit, some 100 MB. Beyond it the balance is not known any more.
  static constexpr size_t kMaxAllocations = 1u << 20;

  GpuMemory(ProcessKey process, SpanSink* sink, std::pmr::memory_resource* pool)
      : process_(process),
        sink_(sink),
        allocations_(pool),
        physical_(pool),
        mappings_(pool),
        by_device_(pool) {}

  void Allocate(uint64_t handle, uint64_t bytes, ss_cuda_memory kind, GpuPlace place, uint64_t ts_ns);
  // False: nothing of that handle is known. `place`: the caller's, which matters only if two devices use
  // one handle.
  bool Free(uint64_t handle, ss_cuda_memory kind, GpuPlace place, uint64_t ts_ns);
  // All that was allocated in that context.
  void FreeContext(GpuPlace place, uint64_t ts_ns);
  // Virtual memory, see SS_CUDA_MEM_CREATE. `counted`: on a device, and this process's own.
  void Create(uint64_t handle, uint64_t bytes, bool counted, int32_t device, uint64_t ts_ns);
  void Retain(uint64_t address);
  void Release(uint64_t handle, uint64_t ts_ns);
  void Map(uint64_t address, uint64_t bytes, uint64_t handle);
  void Unmap(uint64_t address, uint64_t bytes, uint64_t ts_ns);
  // The process ended: what is left was leaked.
  void End(uint64_t ts_ns);

  // On the device, managed memory included; not the host's.
  uint64_t bytes() const { return bytes_; }
  const std::pmr::map<int32_t, uint64_t>& bytes_by_device() const { return by_device_; }
  // False: some of it is not known, and will not be until the process ends.
  bool complete() const { return complete_; }
  void SetIncomplete() { complete_ = false; }
  // True: a call was missed, so it may hold more or less. Incomplete as well.
  bool missed() const { return missed_; }
  void SetMissed() {
    missed_ = true;
    complete_ = false;
  }
  // Devices on which something was allocated or freed since it was last asked.
  std::vector<int32_t> TakeTouched() { return std::exchange(touched_, {}); }
  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state);
  size_t nr_allocations() const { return allocations_.size() + physical_.size(); }
  uint64_t nr_unknown_frees() const { return nr_unknown_frees_; }

 private:
  // Addresses of linear, managed and host memory are one space, handles of arrays are others.
  struct Key {
    uint64_t handle;
    uint32_t space;
    int32_t device;
    bool operator==(const Key&) const = default;

    template <typename Archive>
    void State(Archive& state) {
      state(handle, space, device);
    }
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return (key.handle ^ uint64_t{key.space} << 56 ^ static_cast<uint64_t>(key.device) << 48) *
             0x9e3779b97f4a7c15u;
    }
  };
  struct Allocation {
    uint64_t bytes;
    ss_cuda_memory kind;
    uint64_t context;
    uint64_t start_ns;

    template <typename Archive>
    void State(Archive& state) {
      state(bytes, context, start_ns);
      state.Enum(kind, SS_CUDA_MIPMAPPED_ARRAY);
    }
  };
  struct Physical {
    uint64_t bytes;
    bool counted;
    int32_t device;
    uint64_t start_ns;
    uint32_t nr_references;
    uint32_t nr_mappings;

    template <typename Archive>
    void State(Archive& state) {
      state(bytes, counted, device, start_ns, nr_references, nr_mappings);
    }
  };
  struct Mapping {
    uint64_t bytes;
    uint64_t handle;

    template <typename Archive>
    void State(Archive& state) {
      state(bytes, handle);
    }
  };
  using Allocations = std::pmr::unordered_map<Key, Allocation, KeyHash>;
  using PhysicalMap = std::pmr::unordered_map<uint64_t, Physical>;

  static uint32_t SpaceOf(ss_cuda_memory kind) {
    return kind == SS_CUDA_MANAGED || kind == SS_CUDA_HOST ? static_cast<uint32_t>(SS_CUDA_LINEAR)
                                                           : static_cast<uint32_t>(kind);
  }
  Allocations::iterator Find(uint64_t handle, uint32_t space, int32_t device);
  bool HasRoom();
  void Count(int32_t device, ss_cuda_memory kind, int64_t bytes);
  Allocations::iterator Erase(Allocations::iterator at, uint64_t ts_ns, bool leaked);
  PhysicalMap::iterator Erase(PhysicalMap::iterator at, uint64_t ts_ns, bool leaked);
  void DropIfUnused(PhysicalMap::iterator at, uint64_t ts_ns);

  ProcessKey process_;
  SpanSink* sink_;
  Allocations allocations_;
  PhysicalMap physical_;
  std::pmr::map<uint64_t, Mapping> mappings_;  // by address
  std::pmr::map<int32_t, uint64_t> by_device_;
  uint64_t bytes_ = 0;
  std::vector<int32_t> touched_;
  bool complete_ = true;
  bool missed_ = false;
  uint64_t nr_unknown_frees_ = 0;
};

// Bytes of SS_CUDA_ALLOC, _ALLOC_ARRAY and _ALLOC_DRIVER_ARRAY, by their values; false if it cannot be
// told. An array's is what its elements take: how the driver pads it is not known.
bool AllocatedBytes(const ss_cuda_call& call, uint64_t* bytes);

}  // namespace slotscope
