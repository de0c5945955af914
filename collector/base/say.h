// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace slotscope {

// Prints for people. A terminal that is gone or a full disk behind stderr is no reason to lose a
// recording, so errors are ignored.
template <typename... Args>
void Say(FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  std::string text = fmt::format(format, std::forward<Args>(args)...);
  if (fputs(text.c_str(), to) >= 0) fflush(to);
}

}  // namespace slotscope
