// SPDX-License-Identifier: MIT
// What files a process executes from: /proc/PID/maps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace slotscope {

struct MappedFile {
  uint64_t dev;  // major << 32 | minor
  uint64_t inode;
  std::string range;  // "start-end" as in /proc/PID/map_files, which works where the path does not
  std::string
      path;  // as the process named it, with the kernel's escapes: to be escaped before it is shown
};

// The files of executable mappings in the text of a maps file, each once. Lines that are not well-formed
// are left out.
std::vector<MappedFile> ParseMaps(std::string_view text);

// Of a live process. Fails if it is gone, or may not be read.
Status ReadMaps(int32_t tgid, std::vector<MappedFile>* files);

}  // namespace slotscope
