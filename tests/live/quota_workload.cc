// SPDX-License-Identifier: MIT
// Processes whose cgroup has a quota of CPU time, and what the kernel says of it.
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cpu_controller.h"
#include "harness.h"

namespace slotscope {
namespace {

constexpr uint64_t kRunNs = 1'500'000'000;

uint64_t WaitedNs(pid_t tid) {
  uint64_t cpu_ns = 0, wait_ns = 0;
  std::ifstream(fmt::format("/proc/self/task/{}/schedstat", tid)) >> cpu_ns >> wait_ns;
  return wait_ns;
}

}  // namespace

void UnmountCpuController(const std::string& folder) {
  for (int tries = 0; tries < 3000; tries++) {
    std::ifstream file("/proc/cgroups");
    std::string line, name;
    uint64_t hierarchy = 0, nr_groups = 0;
    while (std::getline(file, line))
      if (std::istringstream(line) >> name && name == "cpu")
        std::istringstream(line) >> name >> hierarchy >> nr_groups;
    if (nr_groups <= 1) break;
    usleep(1000);
  }
  umount(folder.c_str());
}

int RunUnderQuota(int which) {
  const bool is_v2 = which >= 10;
  which %= 10;
  CpuController cpu(is_v2);
  if (!cpu.is_usable()) {
    std::printf("unusable 0 0\n");
    return 0;
  }
  const std::string outer = cpu.Make(cpu.root(), "limited", 20);
  std::string inner = outer;
  if (which == kQuotaNested) {
    if (!cpu.Delegate(outer)) return 1;
    inner = cpu.Make(outer, "inner", 0);
  }
  if (outer.empty() || inner.empty()) return 1;
  const uint64_t end_ns = MonotonicNs() + kRunNs;
  std::fflush(stdout);
  const pid_t limited = fork();
  if (limited == 0) {
    if (!cpu.Enter(inner)) _exit(1);
    if (which != kQuotaThreads) PinTo(0, NrCpus() - 1);
    std::vector<std::thread> threads;
    if (which == kQuotaThreads)
      for (int i = 0; i < 2; i++) threads.emplace_back([&] { Spin(end_ns); });
    Spin(end_ns);
    for (std::thread& thread : threads) thread.join();
    // "waited": of its first thread; "throttled": of the group, on all CPUs
    const uint64_t waited_ns = WaitedNs(gettid());
    std::printf("waited %d %lu %lu\nthrottled %d %lu\n", getpid(), waited_ns, MonotonicNs(), getpid(),
                cpu.ThrottledNs(outer));
    std::fflush(stdout);
    _exit(0);
  }
  pid_t beside = 0;
  if (which == kQuotaBeside) {
    beside = fork();
    if (beside == 0) {
      PinTo(0, NrCpus() - 1);
      Spin(end_ns);
      _exit(0);
    }
    std::printf("beside %d\n", beside);
  }
  int status = 0;
  const bool ok = waitpid(limited, &status, 0) == limited && status == 0;
  if (beside) waitpid(beside, nullptr, 0);
  return ok ? 0 : 1;
}

}  // namespace slotscope
