// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>

namespace slotscope {

// The share of the host's memory that is available, of the text of /proc/meminfo.
std::optional<double> MemoryHeadroom(std::string_view meminfo);

// Of this machine, now. A GPU's memory would not do: whoever trains fills it on purpose.
std::optional<double> ReadMemoryHeadroom();

}  // namespace slotscope
