// SPDX-License-Identifier: MIT
// wide CPUS SWITCHES_PER_S SECONDS: a recording of a machine of so many CPUs, whose rings are the
// kernel's and are filled at live speed by a program on the CPUs that there are. What it takes is CPU
// time of the recording alone, by thread; the filling is taken out. Needs root.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "base/part_file.h"
#include "tests/live/wide_machine.h"

namespace slotscope {
namespace {

constexpr size_t kTop = 100;

// CPU time in seconds: user, system.
struct CpuTime {
  double user_s = 0, system_s = 0;
};

// By thread name. Threads of ours that have no name of their own have that of the program.
std::map<std::string, CpuTime> Threads() {
  std::map<std::string, CpuTime> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const size_t open = stat.find('('), close = stat.rfind(')');
    if (close == std::string::npos) continue;
    std::istringstream rest(stat.substr(close + 2));
    std::string skipped;
    for (int i = 0; i < 11; i++) rest >> skipped;
    double user = 0, system = 0;
    rest >> user >> system;
    const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    threads[stat.substr(open + 1, close - open - 1)] = {user / ticks, system / ticks};
  }
  return threads;
}

double Megabytes(const char* key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::atof(line.c_str() + std::strlen(key)) / 1024;
  return 0;
}

int Record(const WideShape& shape, double seconds) {
  const auto fail = [](const Status& status) {
    fmt::print(stderr, "bench-wide: {}\n", status.message());
    return 1;
  };
  PartFile file;
  const std::string path =
      fmt::format("{}/wide.{}.csv", std::filesystem::temp_directory_path().string(), getpid());
  if (Status status = file.Open(path); !status.ok()) return fail(status);
  WideRecording recording(shape, kTop, &file);
  if (Status status = recording.Start(); !status.ok()) return fail(status);
  const uint64_t began_ns = MonotonicNs();
  const auto sleep = [&](double s) { usleep(static_cast<useconds_t>(s * 1e6)); };
  sleep(seconds / 4);
  const double early_mb = Megabytes("VmRSS:");
  sleep(seconds * 3 / 4);
  const double late_mb = Megabytes("VmRSS:");
  const std::map<std::string, CpuTime> threads = Threads();
  const double wall_s = static_cast<double>(MonotonicNs() - began_ns) / 1e9;
  recording.Stop();
  file.Discard();
  const RunCounts counts = recording.counts();
  const WideMachine::Truth truth = recording.machine().truth();
  fmt::print("{} CPUs, {} switches/s each, {:.1f} s\n", shape.nr_cpus, shape.switches_per_s, wall_s);
  const auto wall = [&](double value) { return value / wall_s; };
  fmt::print("  messages/s  {:.0f}    written {}, read {}, lost {}\n",
             wall(static_cast<double>(truth.nr_written)), truth.nr_written, counts.merge.nr_messages,
             counts.merge.nr_lost);
  fmt::print("  slots/s     {:.0f}    rows/slot {:.0f}, shown {:.0f}\n",
             wall(static_cast<double>(recording.nr_slots())),
             static_cast<double>(recording.nr_rows()) / static_cast<double>(recording.nr_slots()),
             static_cast<double>(recording.nr_shown_rows()) / static_cast<double>(recording.nr_slots()));
  double sum = 0;
  fmt::print("  {:<16} {:>8} {:>8}   % of a CPU\n", "thread", "user", "system");
  for (const auto& [name, time] : threads) {
    if (name == "wide") continue;
    fmt::print("  {:<16} {:>8.1f} {:>8.1f}\n", name, wall(time.user_s) * 100, wall(time.system_s) * 100);
    sum += time.user_s + time.system_s;
  }
  fmt::print("  sum              {:.1f} (and {:.1f} to be that machine)\n", wall(sum) * 100,
             wall(static_cast<double>(recording.machine().own_cpu_ns()) / 1e9) * 100);
  fmt::print("  MB               {:.0f} after a quarter, {:.0f} at the end\n", early_mb, late_mb);
  fmt::print("  identity         {}\n", counts.accounting.Holds() ? "holds" : "BROKEN");
  if (recording.machine().failed())
    return fail(
        {Exit::kKernel, "the rings were not all filled: a run of the program that fills them failed"});
  return !counts.accounting.Holds();
}

}  // namespace
}  // namespace slotscope

int main(int argc, char** argv) {
  slotscope::WideShape shape;
  if (argc > 1) shape.nr_cpus = std::strtoul(argv[1], nullptr, 10);
  if (argc > 2) shape.switches_per_s = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  return slotscope::Record(shape, argc > 3 ? std::atof(argv[3]) : 20);
}
