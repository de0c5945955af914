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
#include "harness.h"

namespace slotscope {
namespace {

constexpr uint64_t kRunNs = 1'500'000'000;

// A place for groups with the cpu controller; gone with this.
class CpuController {
 public:
  explicit CpuController(bool is_v2) : is_v2_(is_v2) {
    char folder[] = "/tmp/slotscope-quota-XXXXXX";
    if (!mkdtemp(folder)) return;
    root_ = folder;
    is_mounted_ = is_v2 ? mount("none", folder, "cgroup2", 0, nullptr) == 0
                        : mount("none", folder, "cgroup", 0, "cpu") == 0;
    is_usable_ = is_mounted_ && (!is_v2 || Write(root_ + "/cgroup.subtree_control", "+cpu"));
  }
  ~CpuController() {
    for (auto group = groups_.rbegin(); group != groups_.rend(); ++group)
      for (int tries = 0; rmdir(group->c_str()) && errno == EBUSY && tries < 1000; tries++) usleep(1000);
    if (is_usable_ && is_v2_) Write(root_ + "/cgroup.subtree_control", "-cpu");
    if (is_mounted_) UnmountCpuController(root_);
    if (!root_.empty()) rmdir(root_.c_str());
  }
  CpuController(const CpuController&) = delete;
  CpuController& operator=(const CpuController&) = delete;

  bool is_usable() const { return is_usable_; }
  const std::string& root() const { return root_; }

  // Of 100 ms; 0: no quota.
  std::string Make(const std::string& parent, const char* name, int quota_ms) {
    const std::string group = parent + "/" + name;
    if (mkdir(group.c_str(), 0755)) return {};
    groups_.push_back(group);
    const int quota_us = quota_ms * 1000;
    const bool is_set =
        quota_ms == 0 || (is_v2_ ? Write(group + "/cpu.max", fmt::format("{} 100000", quota_us))
                                 : Write(group + "/cpu.cfs_quota_us", std::to_string(quota_us)));
    // Nobody else is before it, where CPUs are busy.
    Write(group + (is_v2_ ? "/cpu.weight" : "/cpu.shares"), is_v2_ ? "10000" : "262144");
    return is_set ? group : std::string();
  }
  bool Enter(const std::string& group) const { return Write(group + "/cgroup.procs", "0"); }
  // Over all CPUs, as far as it is over.
  uint64_t ThrottledNs(const std::string& group) const {
    std::ifstream file(group + "/cpu.stat");
    std::string key;
    for (uint64_t value = 0; file >> key >> value;)
      if (key == "throttled_time" || key == "throttled_usec") return is_v2_ ? value * 1000 : value;
    return 0;
  }
  // So that a group below it may be in there, too.
  bool Delegate(const std::string& group) const {
    return !is_v2_ || Write(group + "/cgroup.subtree_control", "+cpu");
  }

 private:
  static bool Write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  }

  const bool is_v2_;
  bool is_mounted_ = false, is_usable_ = false;
  std::string root_;
  std::vector<std::string> groups_;
};

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
