// SPDX-License-Identifier: MIT
// What the tables of a recording say of GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/gpu_device.h"
#include "base/status.h"
#include "sinks/gpu_report.h"

namespace slotscope {

// Reads the tables gpu and spans: *gpus are those in their headers (label, name, UUID, PCI and memory),
// *report gets what there is of processes. Exit::kBadInput if a part cannot be read; the rest is there.
Status ReadGpuTables(const std::string& recording, std::vector<GpuDevice>* gpus, GpuReport* report);

}  // namespace slotscope
