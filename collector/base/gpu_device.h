// SPDX-License-Identifier: MIT
// A GPU of the machine, or an instance of one that is divided (MIG), as NVML lists them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slotscope {

// 16 bytes as they lie in memory, in two halves.
using GpuUuid = std::array<uint64_t, 2>;

struct GpuDevice {
  uint32_t index = 0;     // among the machine's GPUs, as nvidia-smi counts
  int32_t instance = -1;  // MIG: which one of its GPU's; -1: a whole GPU
  bool divided = false;   // a GPU with instances: programs run on these, not on it
  std::string uuid;       // "GPU-..." or "MIG-..."
  std::string pci;        // "00000000:3B:00.0"; of an instance: its GPU's
  std::string name;
  uint64_t total_bytes = 0;  // of memory; 0: not known
  int32_t minor = -1;        // /dev/nvidiaMINOR; -1: not known

  // "0", and "0:1" for an instance.
  std::string label() const {
    return instance < 0 ? std::to_string(index) : std::to_string(index) + ":" + std::to_string(instance);
  }
  bool operator==(const GpuDevice&) const = default;
};

// None of the machine's GPUs, or it is not known which one.
inline constexpr int32_t kUnknownGpu = -1;

// Of "GPU-01234567-89ab-...", or "MIG-" the same; false if it is of another form (older MIG has one).
inline bool ParseGpuUuid(std::string_view text, GpuUuid* uuid) {
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return false;
  text.remove_prefix(4);
  if (text.size() != 36) return false;
  *uuid = {};
  size_t nr_digits = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
      continue;
    }
    uint64_t digit;
    if (c >= '0' && c <= '9')
      digit = static_cast<uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = static_cast<uint64_t>(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F')
      digit = static_cast<uint64_t>(c - 'A' + 10);
    else
      return false;
    const size_t byte = nr_digits / 2;
    (*uuid)[byte / 8] |= digit << (byte % 8 * 8 + (nr_digits % 2 ? 0 : 4));
    nr_digits++;
  }
  return true;
}

}  // namespace slotscope
