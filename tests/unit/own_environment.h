// SPDX-License-Identifier: MIT
// A process that makes what it likes its environment, as any process may.
#pragma once

#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace slotscope {

// So many bytes of nothing. False: this kernel does not let it (CONFIG_CHECKPOINT_RESTORE).
inline bool HaveHugeEnvironment(size_t size) {
  void* const huge = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (huge == MAP_FAILED) return false;
  std::string stat;
  std::getline(std::ifstream("/proc/self/stat"), stat);
  std::istringstream behind_comm(stat.substr(stat.rfind(')') + 2));
  std::vector<uint64_t> fields(3);  // so that they are counted as in proc(5)
  for (std::string word; behind_comm >> word;)
    fields.push_back(word[0] >= 'A' ? 0 : std::strtoull(word.c_str(), nullptr, 10));
  prctl_mm_map map = {};
  map.start_code = fields.at(26);
  map.end_code = fields.at(27);
  map.start_stack = fields.at(28);
  map.start_data = fields.at(45);
  map.end_data = fields.at(46);
  map.start_brk = fields.at(47);
  map.brk = reinterpret_cast<uint64_t>(sbrk(0));
  map.arg_start = fields.at(48);
  map.arg_end = fields.at(49);
  map.env_start = reinterpret_cast<uint64_t>(huge);
  map.env_end = map.env_start + size;
  map.exe_fd = UINT32_MAX;
  return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) == 0;
}

}  // namespace slotscope
