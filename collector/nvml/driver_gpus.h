// SPDX-License-Identifier: MIT
// The GPUs of a machine without NVML, as NVIDIA's kernel driver lists them in /proc.
#pragma once

#include <string>
#include <vector>

#include "base/gpu_device.h"

namespace slotscope {

// In nvidia-smi's order, which is PCI's. Empty if there is no such driver, or if GPUs may be divided
// (MIG): of instances it says nothing. `root`: in front of /proc and /dev; empty: this machine's.
std::vector<GpuDevice> ListDriverGpus(const std::string& root = "");

}  // namespace slotscope
