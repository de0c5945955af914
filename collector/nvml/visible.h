// SPDX-License-Identifier: MIT
// Which of the machine's GPUs are devices 0, 1, ... of a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpu_device.h"

namespace slotscope {

// What a process began with, and has in its /dev.
struct GpuView {
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES; not set: all
  std::string device_order;                    // CUDA_DEVICE_ORDER
  // /dev/nvidiaN that it can see: a container has those of its GPUs. Empty: not known, so all.
  std::vector<int32_t> minors;
};

// Indices into `gpus`, in the process's own order. nullopt: it cannot be told, because the order depends
// on what the driver finds fastest, or on how it deals with instances.
std::optional<std::vector<int32_t>> VisibleGpus(const std::vector<GpuDevice>& gpus, const GpuView& view);

// Is there just one, whichever it is? For where nobody knows the machine's.
bool SeesOneGpu(const GpuView& view);

// From /proc/TGID/environ (what it was started with; what it set itself since is not seen) and
// /proc/TGID/root/dev.
GpuView ReadGpuView(int32_t tgid);
// `environment`: NAME=VALUE strings, each with a 0 behind it.
void ParseGpuEnvironment(std::string_view environment, GpuView* view);

}  // namespace slotscope
