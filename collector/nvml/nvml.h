// SPDX-License-Identifier: MIT
// NVIDIA's management library, if this machine has it: loaded when it is wanted, with declarations of
// our own (the ABI of NVML 11 to 13).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/gpu_device.h"
#include "base/status.h"

namespace slotscope {

// A process with a context on a GPU, by the driver's account.
struct GpuClient {
  int32_t pid;     // in the namespace of who asks
  uint64_t bytes;  // of memory, contexts included; or Nvml::kUnknownBytes
};

class Nvml {
 public:
  static constexpr uint64_t kUnknownBytes = UINT64_MAX;  // as NVML has it

  Nvml();
  ~Nvml();

  // Fails with a sentence if there is no library or no driver. May take a second (a driver that nobody
  // uses wakes up), or for ever (one that hangs): see OpenNvml().
  Status Open();
  // GPUs, each followed by its instances. After Open(); does not change.
  const std::vector<GpuDevice>& gpus() const { return gpus_; }
  // Behind an Open() that failed: lists the GPUs that the kernel's driver knows, in driver_gpus(). One
  // that hangs may not answer here either.
  void ListDriver();
  const std::vector<GpuDevice>& driver_gpus() const { return driver_gpus_; }
  // Of gpus()[index]: bytes in use, or kUnknownBytes.
  uint64_t UsedBytes(size_t index);
  // Not sorted. Empty if it cannot be told.
  std::vector<GpuClient> Clients(size_t index);
  // Whether SmActive() may have something to say.
  bool has_sm_active(size_t index) const;
  // The share of SMs that were busy since the last call that returned true, in millionths, by GPM
  // (Hopper and later). NVML wants 100 ms in between.
  bool SmActive(size_t index, uint64_t* ppm);

 private:
  struct Library;
  struct Device;
  void ListInstances(size_t gpu);
  void Describe(Device* device, GpuDevice* gpu);
  void PrepareGpm(Device* device);

  std::unique_ptr<Library> library_;
  std::vector<GpuDevice> gpus_, driver_gpus_;
  std::vector<Device> devices_;  // of gpus_
};

// One that is open. If the driver does not answer within `timeout`, *status says so. Never null: where
// it fails there are no GPUs in it, but those of the kernel's driver if that answers.
std::shared_ptr<Nvml> OpenNvml(Status* status,
                               std::chrono::milliseconds timeout = std::chrono::seconds(15));

}  // namespace slotscope
