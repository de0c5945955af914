// SPDX-License-Identifier: MIT
#include "nvml/driver_gpus.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/bounded_file.h"
#include "base/scan.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxGpus = 1024;
constexpr size_t kMaxBytes = 64u << 10;

// "Model: \t\t NVIDIA H200"
void TakeLine(std::string_view line, GpuDevice* gpu, bool* excluded) {
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string_view key = line.substr(0, colon);
  std::string_view value = line.substr(colon + 1);
  const size_t first = value.find_first_not_of(" \t");
  if (first == value.npos) return;
  value = value.substr(first, value.find_last_not_of(" \t") - first + 1);
  if (key == "Model")
    gpu->name = value;
  else if (key == "GPU UUID")
    gpu->uuid = value;
  else if (key == "Device Minor")
    gpu->minor = NumberOf<int32_t>(value).value_or(-1);
  else if (key == "GPU Excluded" || key == "Blacklisted")
    *excluded = value == "Yes";
}

}  // namespace

std::vector<GpuDevice> ListDriverGpus(const std::string& root) {
  std::vector<GpuDevice> gpus;
  std::error_code error;
  // Where instances have been made there is a capability for each.
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/capabilities", error)) {
    const fs::path instances = entry.path() / "mig";
    if (entry.path().filename().string().starts_with("gpu") && fs::is_directory(instances, error) &&
        !fs::is_empty(instances, error))
      return gpus;
  }
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", error)) {
    if (gpus.size() >= kMaxGpus) break;
    GpuDevice gpu;
    bool excluded = false;
    const auto take = [&](std::string_view line) {
      TakeLine(line, &gpu, &excluded);
      return true;
    };
    if (!ForEachProcLine((entry.path() / "information").string(), kMaxBytes, take) || excluded) continue;
    // "0000:3b:00.0", which NVML writes as "00000000:3B:00.0".
    gpu.pci = "0000" + entry.path().filename().string();
    std::transform(gpu.pci.begin(), gpu.pci.end(), gpu.pci.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    GpuUuid uuid;
    if (!ParseGpuUuid(gpu.uuid, &uuid)) gpu.uuid.clear();
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const GpuDevice& a, const GpuDevice& b) { return a.pci < b.pci; });
  for (size_t i = 0; i < gpus.size(); i++) gpus[i].index = static_cast<uint32_t>(i);
  return gpus;
}

}  // namespace slotscope
