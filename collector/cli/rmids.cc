// SPDX-License-Identifier: MIT
#include "cli/rmids.h"

#include <fmt/core.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/escape.h"
#include "base/say.h"
#include "cli/exit_code.h"
#include "ring/module_info.h"

namespace slotscope {
namespace {

struct RmidLine {
  uint32_t rmid;
  std::string state;
  int64_t tgid;
  uint32_t generation;
  uint64_t since_ns;
  uint64_t start_time_ns;
  std::string comm;
};

// One line of /proc/slotscope/rmids after its head: six fields, then the name up to the end.
bool ParseLine(const std::string& text, RmidLine* line) {
  std::istringstream in(text);
  if (!(in >> line->rmid >> line->state >> line->tgid >> line->generation >> line->since_ns >>
        line->start_time_ns))
    return false;
  in.get();
  std::getline(in, line->comm);
  return true;
}

Status Print() {
  std::string text;
  if (Status status = ReadModuleFile(kModuleInfoPath, &text); !status.ok()) return status;
  ModuleInfo info = ParseModuleInfo(text);
  if (Status status = CheckModuleAbi(info); !status.ok()) return status;
  if (Status status = ReadModuleFile(kModuleRmidsPath, &text); !status.ok()) return status;

  std::istringstream in(text);
  std::string row;
  std::getline(in, row);
  uint64_t now_ns = MonotonicNs();
  size_t nr_live = 0, nr_limbo = 0, nr_free = 0;
  Say(stdout, "{:>5} {:<6} {:>8} {:<17} {:>12} {:>10}\n", "RMID", "STATE", "TGID", "COMM", "SINCE s",
      "GENERATION");
  while (std::getline(in, row)) {
    RmidLine line;
    if (!ParseLine(row, &line))
      return {Exit::kModule,
              fmt::format("{}: cannot read the line '{}'", kModuleRmidsPath, EscapeName(row))};
    nr_live += line.state == "live";
    nr_limbo += line.state == "limbo";
    nr_free += line.state == "free";
    if (line.state == "free") continue;
    // The module escapes what would break a line (as \ooo); the rest is escaped here.
    double since_s = static_cast<double>(now_ns - std::min(now_ns, line.since_ns)) / 1e9;
    Say(stdout, "{:>5} {:<6} {:>8} {:<17} {:>12.3f} {:>10}\n", line.rmid, line.state, line.tgid,
        EscapeName(line.comm), since_s, line.generation);
  }
  Say(stdout, "{} live, {} in limbo, {} free; backend {} ({})\n", nr_live, nr_limbo, nr_free,
      info["backend"], info["backend_reason"]);
  return {};
}

}  // namespace

int PrintRmids() { return ExitCode(Print()); }

}  // namespace slotscope
