// SPDX-License-Identifier: MIT
#include "base/proc.h"

#include <dirent.h>
#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/escape.h"
#include "base/proc_memory.h"

namespace slotscope {
namespace {

// The nth word behind the name, which may hold anything.
uint64_t ReadStat(int32_t tgid, int nth) {
  std::ifstream file(fmt::format("/proc/{}/stat", tgid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == line.npos) return 0;
  std::istringstream words(line.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < nth; i++) words >> word;
  return std::strtoull(word.c_str(), nullptr, 10);
}

}  // namespace

std::vector<int32_t> ListProcesses(const char* folder) {
  std::vector<int32_t> tgids;
  DIR* const proc = opendir(folder);
  while (const dirent* entry = proc ? readdir(proc) : nullptr) {
    char* end;
    const long tgid = std::strtol(entry->d_name, &end, 10);
    if (tgid > 0 && *end == '\0') tgids.push_back(static_cast<int32_t>(tgid));
  }
  if (proc) closedir(proc);
  return tgids;
}

std::string ReadComm(int32_t tgid) {
  std::ifstream file(fmt::format("/proc/{}/comm", tgid));
  std::string name;
  std::getline(file, name);
  return EscapeName(name);
}

uint64_t ReadStartTicks(int32_t tgid) { return ReadStat(tgid, 20); }

uint64_t ReadStackStart(int32_t tgid) { return ReadStat(tgid, 26); }

std::string ReadEnvironment(int32_t tgid) {
  return ReadProcMemory(fmt::format("/proc/{}/environ", tgid), 4u << 20);
}

int32_t ReadParent(int32_t tgid) { return static_cast<int32_t>(ReadStat(tgid, 2)); }

}  // namespace slotscope
