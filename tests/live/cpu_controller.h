// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "harness.h"

namespace slotscope {

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
  bool Enter(const std::string& group) const { return Move(group, 0); }
  // pid 0: the calling process.
  bool Move(const std::string& group, pid_t pid) const {
    return Write(group + "/cgroup.procs", std::to_string(pid));
  }
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

}  // namespace slotscope
