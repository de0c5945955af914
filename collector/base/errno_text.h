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

}  // namespace slotscope
