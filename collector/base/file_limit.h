// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <fstream>

namespace slotscope {

// As many files as the kernel allows: each CPU and each probe takes some, and 1024 is the usual limit.
// Processes that are started later inherit it. Without privilege, up to the limit that was set for us.
inline void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return;
  rlim_t most = 0;
  std::ifstream("/proc/sys/fs/nr_open") >> most;
  most = std::max(most, limit.rlim_max);
  const rlimit wanted = {most, most}, allowed = {limit.rlim_max, limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &wanted)) setrlimit(RLIMIT_NOFILE, &allowed);
}

// How many this process may have open.
inline size_t FileLimit() {
  rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur;
}

}  // namespace slotscope
