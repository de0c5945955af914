// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>

#include <string>

namespace slotscope {

// "218.7 kB", "12.0 MB".
inline std::string SizeText(double bytes) {
  return bytes < 1e6 ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.1f} MB", bytes / 1e6);
}

}  // namespace slotscope
