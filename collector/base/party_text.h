// SPDX-License-Identifier: MIT
// Processes as people speak of them.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slotscope {

// "share0 (4711)", "cc1 x 76".
inline std::string PartyText(std::string_view name, size_t nr, int32_t tgid) {
  return nr == 1 ? fmt::format("{} ({})", name, tgid) : fmt::format("{} x {}", name, nr);
}

// Threads of the kernel that differ by a CPU or a number behind a slash are of one name: kworker/0:1.
inline std::string_view NameOfKernelThreads(std::string_view name) {
  return name.substr(0, name.find('/'));
}

}  // namespace slotscope
