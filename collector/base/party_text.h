// SPDX-License-Identifier: MIT
// Processes as people speak of them.
#pragma once

#include <fmt/core.h>

#include <algorithm>
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

// Ids of containers in a path as docker and crictl show them: 12 of their 64 digits.
inline std::string WithShortIds(std::string_view text) {
  constexpr size_t kId = 64, kShort = 12;
  std::string result;
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
    const size_t run = end - at;
    if (run == 0) end++;
    result += text.substr(at, run == kId ? kShort : end - at);
  }
  return result;
}

}  // namespace slotscope
