// SPDX-License-Identifier: MIT
// A folder that is open, by a path that leads there whatever becomes of its name.
#pragma once

#include <fmt/core.h>
#include <limits.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace slotscope {

inline std::string HeldPath(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// For a sentence: what is at or below a HeldPath(), by the name that the folder has now. Others as they
// are.
inline std::string ShownPath(const std::string& path) {
  constexpr std::string_view kBegin = "/proc/self/fd/";
  if (!path.starts_with(kBegin)) return path;
  const size_t end = path.find('/', kBegin.size());
  char name[PATH_MAX];
  const ssize_t size = readlink(path.substr(0, end).c_str(), name, sizeof(name));
  if (size <= 0) return path;
  std::string shown(name, static_cast<size_t>(size));
  if (end != path.npos) shown += path.substr(end);
  return shown;
}

}  // namespace slotscope
