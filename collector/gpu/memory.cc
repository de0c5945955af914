// SPDX-License-Identifier: MIT
#include "gpu/memory.h"

#include <algorithm>

namespace slotscope {
namespace {

bool Multiply(uint64_t* to, uint64_t by) { return !__builtin_mul_overflow(*to, by, to); }

// CUarray_format -> bytes of a channel; 0: packed or compressed.
uint64_t ChannelBytes(uint32_t format) {
  switch (format) {
    case 0x01:  // unsigned integers of 8, 16, 32 bits
    case 0x08:  // signed ones
      return 1;
    case 0x02:
    case 0x09:
    case 0x10:  // half
      return 2;
    case 0x03:
    case 0x0a:
    case 0x20:  // float
      return 4;
    default:
      return 0;
  }
}

// A mipmapped array has `levels` of them, each half as large as the one before in each direction.
bool ArrayBytes(uint64_t width, uint64_t height, uint64_t depth, uint64_t element, uint64_t levels,
                uint64_t* bytes) {
  constexpr uint64_t kMaxLevels = 32;
  *bytes = 0;
  if (element == 0 || levels == 0 || levels > kMaxLevels) return false;
  for (uint64_t i = 0; i < levels; i++) {
    uint64_t level = width;
    if (!Multiply(&level, std::max<uint64_t>(height, 1)) ||
        !Multiply(&level, std::max<uint64_t>(depth, 1)) || !Multiply(&level, element) ||
        __builtin_add_overflow(*bytes, level, bytes))
      return false;
    width = std::max<uint64_t>(width / 2, 1);
    height /= height > 1 ? 2 : 1;
    depth /= depth > 1 ? 2 : 1;
  }
  return true;
}

}  // namespace

bool AllocatedBytes(const ss_cuda_call& call, uint64_t* bytes) {
  const auto& values = call.values;
  if (call.op == SS_CUDA_ALLOC) {
    *bytes = values[1];
    return Multiply(bytes, values[2]) && Multiply(bytes, values[3]);
  }
  uint64_t element;
  if (call.op == SS_CUDA_ALLOC_ARRAY) {
    constexpr uint64_t kMaxBits = 1024;  // of a channel that can be
    const uint64_t bits[] = {values[4] & UINT32_MAX, values[4] >> 32, values[5] & UINT32_MAX,
                             values[5] >> 32};
    uint64_t sum = 0;
    for (uint64_t channel : bits) {
      if (channel > kMaxBits) return false;
      sum += channel;
    }
    element = sum / 8;
  } else {
    constexpr uint64_t kMaxChannels = 4;
    if (values[4] >> 32 > kMaxChannels) return false;
    element = ChannelBytes(static_cast<uint32_t>(values[4])) * (values[4] >> 32);
  }
  return ArrayBytes(values[1], values[2], values[3], element, values[6], bytes);
}

bool GpuMemory::HasRoom() {
  if (nr_allocations() < kMaxAllocations) return true;
  complete_ = false;
  return false;
}

void GpuMemory::Count(int32_t device, ss_cuda_memory kind, int64_t bytes) {
  if (kind == SS_CUDA_HOST) return;
  bytes_ += static_cast<uint64_t>(bytes);
  by_device_[device] += static_cast<uint64_t>(bytes);
  if (std::find(touched_.begin(), touched_.end(), device) == touched_.end()) touched_.push_back(device);
}

void GpuMemory::Allocate(uint64_t handle, uint64_t bytes, ss_cuda_memory kind, GpuPlace place,
                         uint64_t ts_ns) {
  const Key key = {handle, SpaceOf(kind), place.device};
  if (auto known = allocations_.find(key); known != allocations_.end()) {
    SetMissed();  // its free was, so others may have been
    Erase(known, ts_ns, false);
  }
  if (!HasRoom()) return;
  allocations_[key] = {bytes, kind, place.context, ts_ns};
  Count(place.device, kind, static_cast<int64_t>(bytes));
}

// A thread may free what was allocated on another device than its current one.
GpuMemory::Allocations::iterator GpuMemory::Find(uint64_t handle, uint32_t space, int32_t device) {
  auto found = allocations_.find({handle, space, device});
  for (auto other = by_device_.begin(); found == allocations_.end() && other != by_device_.end();
       ++other)
    found = allocations_.find({handle, space, other->first});
  return found;
}

GpuMemory::Allocations::iterator GpuMemory::Erase(Allocations::iterator at, uint64_t ts_ns,
                                                  bool leaked) {
  const auto& [key, allocation] = *at;
  Count(key.device, allocation.kind, -static_cast<int64_t>(allocation.bytes));
  if (sink_)
    sink_->OnMemory({process_, key.device, key.handle, allocation.bytes, allocation.kind,
                     allocation.start_ns, ts_ns, leaked});
  return allocations_.erase(at);
}

bool GpuMemory::Free(uint64_t handle, ss_cuda_memory kind, GpuPlace place, uint64_t ts_ns) {
  if (handle == 0) return true;  // freeing nothing is allowed
  auto found = Find(handle, SpaceOf(kind), place.device);
  if (found == allocations_.end()) {
    nr_unknown_frees_++;
    return false;
  }
  Erase(found, ts_ns, false);
  return true;
}

void GpuMemory::FreeContext(GpuPlace place, uint64_t ts_ns) {
  for (auto at = allocations_.begin(); at != allocations_.end();)
    if (GpuPlace{at->first.device, at->second.context} == place)
      at = Erase(at, ts_ns, false);
    else
      ++at;
}

void GpuMemory::Create(uint64_t handle, uint64_t bytes, bool counted, int32_t device, uint64_t ts_ns) {
  if (auto known = physical_.find(handle); known != physical_.end()) {
    SetMissed();
    Erase(known, ts_ns, false);
  }
  if (!HasRoom()) return;
  physical_[handle] = {bytes, counted, device, ts_ns, 1, 0};
  if (counted) Count(device, SS_CUDA_LINEAR, static_cast<int64_t>(bytes));
}

GpuMemory::PhysicalMap::iterator GpuMemory::Erase(PhysicalMap::iterator at, uint64_t ts_ns,
                                                  bool leaked) {
  const auto& [handle, physical] = *at;
  if (physical.counted) {
    Count(physical.device, SS_CUDA_LINEAR, -static_cast<int64_t>(physical.bytes));
    if (sink_)
      sink_->OnMemory({process_, physical.device, handle, physical.bytes, SS_CUDA_LINEAR,
                       physical.start_ns, ts_ns, leaked});
  }
  return physical_.erase(at);
}

void GpuMemory::DropIfUnused(PhysicalMap::iterator at, uint64_t ts_ns) {
  if (at->second.nr_references == 0 && at->second.nr_mappings == 0) Erase(at, ts_ns, false);
}

void GpuMemory::Release(uint64_t handle, uint64_t ts_ns) {
  auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.nr_references == 0) {
    nr_unknown_frees_++;
    return;
  }
  found->second.nr_references--;
  DropIfUnused(found, ts_ns);
}

void GpuMemory::Retain(uint64_t address) {
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return;
  const auto& [start, mapping] = *std::prev(after);
  if (address - start >= mapping.bytes) return;
  if (auto found = physical_.find(mapping.handle); found != physical_.end())
    found->second.nr_references++;
}

void GpuMemory::Map(uint64_t address, uint64_t bytes, uint64_t handle) {
  auto found = physical_.find(handle);
  if (found == physical_.end() || mappings_.size() >= kMaxAllocations) {
    complete_ = complete_ && found == physical_.end();
    return;
  }
  auto [at, is_new] = mappings_.try_emplace(address, Mapping{bytes, handle});
  if (is_new)
    found->second.nr_mappings++;
  else
    SetMissed();
}

void GpuMemory::Unmap(uint64_t address, uint64_t bytes, uint64_t ts_ns) {
  auto at = mappings_.lower_bound(address);
  while (at != mappings_.end() && at->first - address < bytes) {
    if (auto found = physical_.find(at->second.handle); found != physical_.end()) {
      found->second.nr_mappings--;
      DropIfUnused(found, ts_ns);
    }
    at = mappings_.erase(at);
  }
}

void GpuMemory::End(uint64_t ts_ns) {
  for (auto at = allocations_.begin(); at != allocations_.end();) at = Erase(at, ts_ns, true);
  for (auto at = physical_.begin(); at != physical_.end();) at = Erase(at, ts_ns, true);
  mappings_.clear();
}

}  // namespace slotscope
