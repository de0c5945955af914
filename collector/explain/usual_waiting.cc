// SPDX-License-Identifier: MIT
#include "explain/usual_waiting.h"

#include <algorithm>

#include "explain/groups.h"
#include "explain/series.h"

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
  const Timeline timeline(history);
  const BinRange range = timeline.RangeOf(from_ns, to_ns);
  const Groups groups(history, selection.group_by);
  for (const Group& all : groups.by_name()) {
    const Group group = SelectedOf(all, history, selection);
    if (group.is_kernel || group.members.empty()) continue;  // nobody waits for the kernel's threads
    const Series series(history, timeline, group);
    UsualWaiting& sum = by_name_[group.name];
    const Party who = PartyOf(history, group);
    if (who.nr > sum.who.nr) sum.who = who;
    sum.cpu_ns += series.Cpu(range);
    sum.waited_ns += series.Waited(range);
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
