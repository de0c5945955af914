// SPDX-License-Identifier: MIT
#pragma once

#include <cstring>
#include <string>

namespace slotscope {

// "No such file or directory". Accepts errno and libbpf's negative codes. Any thread.
inline std::string ErrnoText(int err) {
  char buffer[128];
  return strerror_r(err < 0 ? -err : err, buffer, sizeof(buffer));
}

// "cannot create DIR/FILE: ", and why. In words where it is the folder that is missing.
std::string CannotCreateText(const std::string& path, int err);

}  // namespace slotscope
