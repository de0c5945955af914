// SPDX-License-Identifier: MIT
#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/temp_folder.h"

namespace slotscope {

// The disk cannot be written to, from the beginning to the end of a stretch.
class FullDisk {
 public:
  explicit FullDisk(const TempFolder& temp, const char* size = "size=256k") : path_(temp.At("disk")) {
    std::filesystem::create_directory(path_);
    mounted = mount("none", path_.c_str(), "tmpfs", 0, size) == 0;
  }
  ~FullDisk() {
    if (mounted) umount2(path_.c_str(), MNT_DETACH);
  }
  std::string At(const std::string& name) const { return path_ + "/" + name; }
  void Fill() const {
    std::ofstream file(At("filler"), std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
  }
  void Free() const { std::filesystem::remove(At("filler")); }
  bool mounted = false;

 private:
  std::string path_;
};

}  // namespace slotscope
