// SPDX-License-Identifier: MIT
#include "nvml/visible.h"

#include <dirent.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/proc.h"

namespace slotscope {
namespace {

constexpr size_t kMaxVisible = 1024;

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Nothing if it is no number of a device.
std::optional<size_t> OrdinalOf(std::string_view text) {
  size_t ordinal;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return ordinal;
}

// The one whose UUID begins so, if there is just one.
std::optional<int32_t> FindByUuid(const std::vector<GpuDevice>& gpus, std::string_view prefix) {
  std::optional<int32_t> found;
  for (size_t i = 0; i < gpus.size(); i++) {
    if (!gpus[i].uuid.starts_with(prefix)) continue;
    if (found) return std::nullopt;
    found = static_cast<int32_t>(i);
  }
  return found;
}

// Those that CUDA counts when nobody chooses, in its order.
std::optional<std::vector<int32_t>> Countable(const std::vector<GpuDevice>& gpus, const GpuView& view) {
  std::vector<int32_t> counted;
  bool alike = true, divided = false;
  for (size_t i = 0; i < gpus.size(); i++) {
    const GpuDevice& gpu = gpus[i];
    if (!view.minors.empty() && gpu.minor >= 0 &&
        std::find(view.minors.begin(), view.minors.end(), gpu.minor) == view.minors.end())
      continue;
    divided |= gpu.divided || gpu.instance >= 0;
    if (gpu.divided) continue;
    if (!counted.empty()) alike &= gpu.name == gpus[static_cast<size_t>(counted.front())].name;
    counted.push_back(static_cast<int32_t>(i));
  }
  // CUDA shows one instance, and which one is the driver's choice.
  if (divided && counted.size() > 1) return std::nullopt;
  // Its default is "fastest first", which is the order of PCI among equals. NVML has that order.
  if (!alike && view.device_order != "PCI_BUS_ID") return std::nullopt;
  return counted;
}

}  // namespace

std::optional<std::vector<int32_t>> VisibleGpus(const std::vector<GpuDevice>& gpus,
                                                const GpuView& view) {
  const auto countable = Countable(gpus, view);
  if (!view.visible_devices) return countable;
  std::vector<int32_t> visible;
  std::string_view rest = *view.visible_devices;
  // As CUDA reads it: up to the first entry that names no device.
  while (visible.size() < kMaxVisible) {
    const std::string_view entry = Trim(rest.substr(0, rest.find(',')));
    std::optional<int32_t> found;
    if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
      found = FindByUuid(gpus, entry);
      // The older form, and a prefix of several: the driver knows.
      if (!found && entry.starts_with("MIG-GPU-")) return std::nullopt;
      if (found && gpus[static_cast<size_t>(*found)].divided) return std::nullopt;
    } else {
      const auto ordinal = OrdinalOf(entry);
      if (!ordinal) break;
      if (!countable) return std::nullopt;
      if (*ordinal < countable->size()) found = (*countable)[*ordinal];
    }
    if (!found) break;
    if (std::find(visible.begin(), visible.end(), *found) != visible.end())
      return std::vector<int32_t>();
    visible.push_back(*found);
    if (rest.find(',') == rest.npos) break;
    rest.remove_prefix(rest.find(',') + 1);
  }
  return visible;
}

bool SeesOneGpu(const GpuView& view) {
  if (!view.visible_devices) return view.minors.size() == 1;
  const std::string_view text = Trim(*view.visible_devices);
  if (text.find(',') != text.npos) return false;
  // Any other word ("none", "NoDevFiles") names no device.
  return text.starts_with("GPU-") || text.starts_with("MIG-") || OrdinalOf(text);
}

void ParseGpuEnvironment(std::string_view environment, GpuView* view) {
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    environment.remove_prefix(std::min(environment.size(), entry.size() + 1));
    const size_t equals = entry.find('=');
    if (equals == entry.npos) continue;
    // Of a name that is there twice, getenv() finds the first.
    if (entry.substr(0, equals) == "CUDA_VISIBLE_DEVICES" && !view->visible_devices)
      view->visible_devices = std::string(entry.substr(equals + 1));
    if (entry.substr(0, equals) == "CUDA_DEVICE_ORDER" && view->device_order.empty())
      view->device_order = std::string(entry.substr(equals + 1));
  }
}

GpuView ReadGpuView(int32_t tgid) {
  GpuView view;
  ParseGpuEnvironment(ReadEnvironment(tgid), &view);
  DIR* const dev = opendir(fmt::format("/proc/{}/root/dev", tgid).c_str());
  if (!dev) return view;
  while (const dirent* entry = readdir(dev)) {
    std::string_view name = entry->d_name;
    if (!name.starts_with("nvidia")) continue;
    name.remove_prefix(6);
    int32_t minor;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), minor);
    if (error == std::errc() && end == name.data() + name.size() && minor >= 0 &&
        view.minors.size() < kMaxVisible)
      view.minors.push_back(minor);
  }
  closedir(dev);
  return view;
}

}  // namespace slotscope
