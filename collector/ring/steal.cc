// SPDX-License-Identifier: MIT
#include "ring/steal.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace slotscope {

bool TellsSteal(const KernelTypes& types) {
  // Run queues are found by a task's group, which a kernel may be built without.
  if (!types.MemberOf("rq", "prev_steal_time_rq") || !types.MemberOf("sched_entity", "cfs_rq") ||
      !types.MemberOf("cfs_rq", "rq"))
    return false;
  // cpu user nice system idle iowait irq softirq steal
  std::ifstream stat("/proc/stat");
  std::string cpu;
  uint64_t ticks = 0;
  stat >> cpu;
  for (int i = 0; i < 8; i++) stat >> ticks;
  return stat && cpu == "cpu" && ticks > 0;
}

}  // namespace slotscope
