// SPDX-License-Identifier: MIT
#include "base/errno_text.h"

#include <fmt/core.h>

#include <cerrno>
#include <filesystem>

namespace slotscope {

std::string CannotCreateText(const std::string& path, int err) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::error_code error;
  if (err == ENOENT && !folder.empty() && !std::filesystem::exists(folder, error))
    return fmt::format(
        "cannot create {}: there is no folder {}: make it (mkdir -p), or choose another name", path,
        folder);
  return fmt::format("cannot create {}: {}", path, ErrnoText(err));
}

}  // namespace slotscope
