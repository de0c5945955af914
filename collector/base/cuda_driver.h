// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <string>

namespace slotscope {

// Is there a GPU's driver: NVIDIA's, or that of Windows below WSL? `root`: in front of /proc and /dev;
// empty: this machine's.
inline bool HasCudaDriver(const std::string& root = "") {
  for (const char* path : {"/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"})
    if (access((root + path).c_str(), F_OK) == 0) return true;
  return false;
}

}  // namespace slotscope
