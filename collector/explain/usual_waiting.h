// SPDX-License-Identifier: MIT
// Who waited for a CPU for much of the time in which it wanted one, however usual that is: where no
// moment stands out it may be all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "explain/history.h"
#include "explain/stall.h"

namespace slotscope {

struct UsualWaiting {
  Party who;
  uint64_t waited_ns = 0, cpu_ns = 0;

  double share() const;  // of the time in which it wanted a CPU
};

class UsualWaitingFinder {
 public:
  // What a history has of [from_ns, to_ns), Unix time, of those who are selected.
  void Add(const History& history, const Selection& selection, int64_t from_ns, int64_t to_ns);
  // The most first, at most nr; of much only. `in_ns`: what was added, all in all.
  std::vector<UsualWaiting> Find(int64_t in_ns, size_t nr) const;

 private:
  std::map<std::string, UsualWaiting> by_name_;
};

}  // namespace slotscope
