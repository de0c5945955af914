// SPDX-License-Identifier: MIT
// Lists of CPUs as the kernel writes them: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope {

// Returns the CPUs in ascending order, or nothing if `text` is not such a list. An empty text is an
// empty list. CPU numbers above 65535 are refused.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);

// REQUIRES: ascending.
std::string FormatCpuList(const std::vector<int>& cpus);

// /sys/devices/system/cpu/NAME, for example "present" or "online". Empty if it cannot be read.
std::vector<int> ReadCpuList(const std::string& name);

// Is it online, and neither on its way up nor down (as far as the kernel says)?
bool IsCpuOnline(int cpu);

}  // namespace slotscope
