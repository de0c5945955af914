// SPDX-License-Identifier: MIT
#include "ring/module_info.h"

#include <fmt/core.h>
#include <slotscope/events.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

#include "base/cpu_list.h"
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

RdtShape ParseModuleRdt(const ModuleInfo& info) {
  constexpr std::string_view kDomain = "l3_domain_";
  RdtShape rdt;
  auto is = [&](const char* key, std::string_view value) {
    auto found = info.find(key);
    return found != info.end() && found->second == value;
  };
  if (!is("backend", "hardware")) return {};
  std::set<int> seen;
  for (const auto& [key, value] : info) {
    if (!key.starts_with(kDomain)) continue;
    L3Domain domain;
    const char* end = key.data() + key.size();
    auto [stop, error] = std::from_chars(key.data() + kDomain.size(), end, domain.id);
    auto cpus = ParseCpuList(value);
    if (error != std::errc() || stop != end || !cpus) return {};
    domain.cpus = *cpus;
    for (int cpu : domain.cpus)
      if (!seen.insert(cpu).second) return {};
    rdt.domains.push_back(std::move(domain));
  }
  std::sort(rdt.domains.begin(), rdt.domains.end(),
            [](const L3Domain& a, const L3Domain& b) { return a.id < b.id; });
  auto events = info.find("rdt_events");
  if (events == info.end() || rdt.domains.empty()) return {};
  std::istringstream words(events->second);
  for (std::string word; words >> word;) {
    rdt.has_occupancy |= word == "llc_occupancy";
    rdt.has_mbm_total |= word == "mbm_total";
    rdt.has_mbm_local |= word == "mbm_local";
  }
  if (!rdt.any()) return {};
  return rdt;
}

Status ReadModuleFile(const char* path, std::string* text) {
  FILE* file = fopen(path, "re");
  if (!file && errno == ENOENT)
    return {Exit::kModule,
            fmt::format("the slotscope kernel module is not loaded ({} is missing): load it with "
                        "'modprobe slotscope' (after make dkms-install); recording works without it "
                        "(record --source bpf)",
                        path)};
  if (!file && (errno == EACCES || errno == EPERM))
    return {Exit::kPrivilege, fmt::format("cannot read {}: {}; run it as root (sudo), or with the "
                                          "capability CAP_PERFMON",
                                          path, ErrnoText(errno))};
  if (!file) return {Exit::kModule, fmt::format("cannot read {}: {}", path, ErrnoText(errno))};
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
                        "same version of slotscope and load the module anew (rmmod slotscope && "
                        "modprobe slotscope)",
                        abi->second, SS_ABI_VERSION)};
  return {};
}

}  // namespace slotscope
