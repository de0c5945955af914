// SPDX-License-Identifier: MIT
#include "explain/usual_waiting.h"

#include <algorithm>

#include "explain/groups.h"

namespace slotscope {
namespace {

constexpr double kMuch = 0.2;        // of the time in which it wanted a CPU
constexpr double kMuchOfAll = 0.05;  // of all the time, so that it matters

}  // namespace

double UsualWaiting::share() const {
  const auto waited = static_cast<double>(waited_ns);
  return waited_ns ? waited / (waited + static_cast<double>(cpu_ns)) : 0;
}

void UsualWaitingFinder::Add(const History& history, const Selection& selection, int64_t from_ns,
                             int64_t to_ns) {
  const Groups groups(history, selection.group_by);
  for (const Group& group : groups.by_name()) {
    // Threads of the kernel are not waited for, and whoever measures is not meant.
    if (group.is_kernel || (!selection.any() && group.name == "slotscope")) continue;
    UsualWaiting sum;
    for (uint32_t member : group.members) {
      const ProcessHistory& process = history.processes()[member];
      if (selection.any() && !selection.Has(process.key, process.comm)) continue;
      for (const ProcessBin& bin : process.bins) {
        if (bin.index * kBinNs < from_ns || bin.index * kBinNs >= to_ns) continue;
        sum.cpu_ns += bin.cpu_ns;
        for (size_t why = 0; why < kNrWaitHindrances; why++) sum.waited_ns += bin.ns[why];
      }
    }
    if (sum.waited_ns + sum.cpu_ns == 0) continue;
    UsualWaiting& all = by_name_[group.name];
    const Party who = PartyOf(history, group);
    if (who.nr > all.who.nr) all.who = who;
    all.cpu_ns += sum.cpu_ns;
    all.waited_ns += sum.waited_ns;
  }
}

std::vector<UsualWaiting> UsualWaitingFinder::Find(int64_t in_ns, size_t nr) const {
  std::vector<UsualWaiting> found;
  for (const auto& [name, one] : by_name_)
    if (one.share() >= kMuch &&
        static_cast<double>(one.waited_ns) >= kMuchOfAll * static_cast<double>(in_ns))
      found.push_back(one);
  std::stable_sort(found.begin(), found.end(), [](const UsualWaiting& a, const UsualWaiting& b) {
    return a.waited_ns > b.waited_ns;
  });
  found.resize(std::min(found.size(), nr));
  return found;
}

}  // namespace slotscope
