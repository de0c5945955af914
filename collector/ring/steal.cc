// SPDX-License-Identifier: MIT
#include "ring/steal.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace slotscope {

bool TellsSteal(const KernelTypes& types) {
  if (!types.MemberOf("rq", "prev_steal_time_rq")) return false;
  // cpu user nice system idle iowait irq softirq steal
  std::ifstream stat("/proc/stat");
  std::string cpu;
  uint64_t ticks = 0;
  stat >> cpu;
  for (int i = 0; i < 8; i++) stat >> ticks;
  return stat && cpu == "cpu" && ticks > 0;
}

}  // namespace slotscope
