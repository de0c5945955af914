// SPDX-License-Identifier: MIT
#include "ring/module_info.h"

#include <fmt/core.h>
#include <slotscope/events.h>

#include <cerrno>
#include <cstdio>

#include "base/errno_text.h"

namespace slotscope {

ModuleInfo ParseModuleInfo(std::string_view text) {
  ModuleInfo info;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t colon = line.find(": ");
    if (colon != std::string_view::npos) info.emplace(line.substr(0, colon), line.substr(colon + 2));
  }
  return info;
}

Status ReadModuleFile(const char* path, std::string* text) {
  FILE* file = fopen(path, "re");
  if (!file && errno == ENOENT)
    return {Exit::kModule,
            fmt::format("the slotscope kernel module is not loaded ({} is missing): load it with "
                        "'modprobe slotscope', or record without it (--source bpf)",
                        path)};
  if (!file)
    return {errno == EACCES || errno == EPERM ? Exit::kPrivilege : Exit::kModule,
            fmt::format("cannot read {}: {}", path, ErrnoText(errno))};
  text->clear();
  char chunk[4096];
  size_t got;
  while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0) text->append(chunk, got);
  fclose(file);
  return {};
}

Status CheckModuleAbi(const ModuleInfo& info) {
  auto abi = info.find("abi");
  if (abi == info.end())
    return {Exit::kModule,
            fmt::format("{} names no abi: the loaded module is not one that this program knows; "
                        "install the module of this version",
                        kModuleInfoPath)};
  if (abi->second != std::to_string(SS_ABI_VERSION))
    return {Exit::kModule,
            fmt::format("the loaded module speaks ABI {}, this program ABI {}: install both from the "
                        "same version of slotscope",
                        abi->second, SS_ABI_VERSION)};
  return {};
}

}  // namespace slotscope
