// SPDX-License-Identifier: MIT
// What the path of a cgroup tells of who is in it: a container, a pod, a unit of systemd.
#pragma once

#include <string>
#include <string_view>

namespace slotscope {

struct Cgroup {
  std::string path;          // below the root of its hierarchy: "/system.slice/cron.service"; raw
  std::string container_id;  // of the innermost; empty: in none
  std::string pod_uid;       // of Kubernetes, as it writes them; empty: in none
  std::string unit;          // "cron.service", as journalctl -u takes it; empty: in none
  std::string pod;           // "NAMESPACE/NAME", where somebody has told us; the path does not

  bool operator==(const Cgroup&) const = default;
};

// By the patterns of Kubernetes, docker, containerd, CRI-O, podman, LXC and systemd, with either driver
// (cgroupfs, systemd) and below any root. `pod` stays empty.
Cgroup ParseCgroup(std::string_view path);

}  // namespace slotscope
