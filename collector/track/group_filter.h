// SPDX-License-Identifier: MIT
// Processes by the group that they are in: --cgroup, --pod and --unit.
#pragma once

#include <string>
#include <vector>

#include "track/cgroup.h"

namespace slotscope {

struct GroupFilter {
  // A path, with all below it ("/sys/fs/cgroup" in front does not matter), or the id of a container, of
  // which twelve characters are enough.
  std::vector<std::string> cgroups;
  std::vector<std::string> pods;   // a uid (its first eight characters do), NAME, or NAMESPACE/NAME
  std::vector<std::string> units;  // "cron.service"; without what is behind the dot: a service

  bool any() const { return !cgroups.empty() || !pods.empty() || !units.empty(); }
  // One of these.
  bool Matches(const Cgroup& cgroup) const;
};

}  // namespace slotscope
