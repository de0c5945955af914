// SPDX-License-Identifier: MIT
#include "check/machine.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/cuda_driver.h"
#include "base/escape.h"
#include "ring/module_info.h"

namespace slotscope {
namespace {

using State = CheckLine::State;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool IsThere(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// A word of a line such as "flags : fpu vme ...".
bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\t';
    const size_t end = at + word.size();
    if (begins && (end == text.size() || text[end] == ' ' || text[end] == '\n')) return true;
  }
  return false;
}

// Of the first CPU.
std::string CpuFlags(const std::string& root) {
  std::istringstream lines(ReadText(root + "/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("flags")) return line;
  return "";
}

constexpr const char* kRdtFlags[] = {"cqm_mbm_total", "cqm_mbm_local", "cqm_occup_llc"};

// What this CPU counts of RDT, with commas between; empty: nothing.
std::string RdtOfCpu(const std::string& root) {
  const std::string flags = CpuFlags(root);
  std::string counted;
  for (const char* flag : kRdtFlags)
    if (HasWord(flags, flag)) counted += fmt::format("{}{}", counted.empty() ? "" : ", ", flag);
  return counted;
}

// Where resctrl is mounted; empty: nowhere.
std::string ResctrlFolder(const std::string& root) {
  std::istringstream lines(ReadText(root + "/proc/mounts"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device, folder, type;
    if (fields >> device >> folder >> type && type == "resctrl") return folder;
  }
  return "";
}

// Groups that somebody has made there.
size_t NrResctrlGroups(const std::string& folder) {
  size_t nr = 0;
  for (const std::string& of : {folder, folder + "/mon_groups"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(of, error)) {
      const std::string name = entry.path().filename();
      if (name == "info" || name == "mon_groups" || name == "mon_data") continue;
      nr += entry.is_directory(error);
    }
  }
  return nr;
}

}  // namespace

CheckLine CheckKernel(const std::string& root, const std::string& release) {
  const std::string name = EscapeName(release);
  if (!IsThere(root + "/sys/kernel/btf/vmlinux"))
    return {
        "kernel", State::kNo,
        fmt::format("{} has no type information (/sys/kernel/btf/vmlinux is missing): nothing can be "
                    "recorded",
                    name),
        "boot a kernel that is built with CONFIG_DEBUG_INFO_BTF=y, as those of Debian 11 and later are"};
  const std::string lockdown = ReadText(root + "/sys/kernel/security/lockdown");
  if (lockdown.find("[confidentiality]") != std::string::npos)
    return {"kernel", State::kNo,
            fmt::format("{} is locked down to keep its memory confidential: no eBPF program may read it",
                        name),
            "boot with lockdown=integrity, or without lockdown="};
  if (lockdown.find("[integrity]") != std::string::npos)
    return {"kernel", State::kPartly,
            fmt::format("{} is locked down: it loads only modules that are signed with a key it knows",
                        name),
            "for the module: enroll the key that dkms signs with (doc/install.md, Secure Boot)"};
  return {"kernel", State::kYes, fmt::format("{}: BTF, not locked down", name), ""};
}

CheckLine CheckModule(const std::string& root) {
  const std::string text = ReadText(root + kModuleInfoPath);
  if (text.empty() && RdtOfCpu(root).empty())
    return {"module", State::kNo, "not loaded; it would measure nothing more on this CPU", ""};
  if (text.empty())
    return {"module", State::kNo, "not loaded: no memory bandwidth, no cache occupancy",
            "apt install slotscope-dkms, then modprobe slotscope"};
  const ModuleInfo info = ParseModuleInfo(text);
  if (const Status status = CheckModuleAbi(info); !status.ok())
    return {"module", State::kNo, status.message(), "rmmod slotscope && modprobe slotscope"};
  const auto said = [&info](const char* key) {
    const auto found = info.find(key);
    return found == info.end() ? std::string("not said") : EscapeControls(found->second);
  };
  return {"module", State::kYes,
          fmt::format("loaded; RDT: {} ({})", said("backend"), said("backend_reason")), ""};
}

CheckLine CheckRdt(const std::string& root) {
  const std::string counts = RdtOfCpu(root);
  if (counts.empty())
    return {"RDT", State::kNo, "none here, or hidden: no memory bandwidth, no cache use", ""};
  if (const std::string folder = ResctrlFolder(root); !folder.empty()) {
    const size_t nr = NrResctrlGroups(root + folder);
    return {"RDT", State::kPartly,
            fmt::format("this CPU has it ({}), and resctrl is mounted at {} with {} group{}: the module "
                        "leaves it alone",
                        counts, EscapeName(folder), nr, nr == 1 ? "" : "s"),
            fmt::format("if nobody needs it: umount {}, then rmmod slotscope && modprobe slotscope",
                        EscapeName(folder))};
  }
  const std::string module = ReadText(root + kModuleInfoPath);
  const RdtShape shape = ParseModuleRdt(ParseModuleInfo(module));
  if (shape.any())
    return {"RDT", State::kYes,
            fmt::format("memory bandwidth{} in {} L3 domain{}",
                        shape.has_occupancy ? ", cache occupancy" : "", shape.domains.size(),
                        shape.domains.size() == 1 ? "" : "s"),
            ""};
  if (module.empty())
    return {"RDT", State::kPartly,
            fmt::format("this CPU has it ({}), and only the module reads it", counts),
            "load the module"};
  return {"RDT", State::kNo, fmt::format("this CPU has it ({}), and the module does not use it", counts),
          "dmesg | grep slotscope says why"};
}

CheckLine CheckClock(const std::string& root, const std::string& tick) {
  std::string name = ReadText(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  if (name == "hpet" || name == "acpi_pm" || name == "jiffies")
    return {"clock", State::kPartly,
            fmt::format("{}: to read it takes a microsecond or more, and each switch does", name),
            "clocksource=tsc on the kernel's command line, if the TSC is stable (dmesg | grep -i tsc)"};
  return {"clock", State::kYes,
          fmt::format("{}{}{}", name.empty() ? "not said" : EscapeName(name),
                      tick.empty() ? "" : "; tick: ", tick),
          ""};
}

CheckLine CheckCudaDriver(const std::string& root) {
  if (HasCudaDriver(root)) return {"GPU driver", State::kYes, "loaded", ""};
  return {"GPU driver", State::kNo, "NVIDIA's is not loaded (looked for again every 20 s)", ""};
}

}  // namespace slotscope
