// SPDX-License-Identifier: MIT
// Do two names, however they are spelled, mean one file? Also of files that do not exist yet.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace slotscope {

inline bool IsSameFile(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  if (a == b) return true;
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;  // by device and inode, through links
  const auto resolve = [&error](const std::string& path) {
    fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
    return error ? fs::path(path).lexically_normal() : whole;
  };
  return resolve(a) == resolve(b);
}

}  // namespace slotscope
