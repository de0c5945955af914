// SPDX-License-Identifier: MIT
#include "detect/patterns/pod_evicted.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace slotscope {
namespace {

// Of one condition of a node, by time; and of each the next one that is for the better.
struct Changes {
  std::vector<const PressureChange*> all;
  std::vector<const PressureChange*> relief;  // after it, or itself; null: there is none
};

// Nothing if the eviction does not say what was short.
std::optional<Pressure> PressureOf(std::string_view resource) {
  if (resource.starts_with("memory") || resource == "MemoryPressure") return Pressure::kMemory;
  if (resource.starts_with("pid") || resource == "PIDPressure") return Pressure::kPid;
  for (std::string_view disk :
       {"ephemeral-storage", "nodefs", "imagefs", "containerfs", "inodes", "storage", "DiskPressure"})
    if (resource.starts_with(disk)) return Pressure::kDisk;
  return {};
}

// The last change at or before the eviction, if it is one for the worse; and the next one for the
// better. In one second a condition comes before what it causes.
void Join(const Changes& changes, PodEvicted* evicted) {
  const auto next = std::upper_bound(
      changes.all.begin(), changes.all.end(), evicted->eviction.when.last_ns(),
      [](int64_t last_ns, const PressureChange* change) { return last_ns < change->when.begin_ns; });
  if (next == changes.all.begin() || !(*std::prev(next))->is_on) return;
  const PressureChange& last = **std::prev(next);
  if (evicted->pressure && evicted->pressure->when.begin_ns >= last.when.begin_ns) return;
  evicted->pressure = last;
  evicted->relief.reset();
  if (next == changes.all.end()) return;
  if (const auto* relief = changes.relief[static_cast<size_t>(next - changes.all.begin())])
    evicted->relief = *relief;
}

}  // namespace

std::vector<PodEvicted> FindPodEvicted(const ClusterRecords& records) {
  std::map<std::pair<std::string_view, Pressure>, Changes> of_node;
  for (const PressureChange& change : records.pressures)
    of_node[{change.node, change.pressure}].all.push_back(&change);
  for (auto& [condition, changes] : of_node) {
    std::stable_sort(changes.all.begin(), changes.all.end(),
                     [](const PressureChange* a, const PressureChange* b) {
                       return a->when.begin_ns < b->when.begin_ns;
                     });
    changes.relief.resize(changes.all.size());
    const PressureChange* relief = nullptr;
    for (size_t i = changes.all.size(); i-- > 0;) {
      if (!changes.all[i]->is_on) relief = changes.all[i];
      changes.relief[i] = relief;
    }
  }
  std::vector<PodEvicted> found;
  for (PodEviction& eviction : DistinctEvictions(records.evictions)) {
    PodEvicted& one = found.emplace_back();
    one.eviction = std::move(eviction);
    if (one.eviction.cause != EvictionCause::kPressure) continue;
    const auto pressure = PressureOf(one.eviction.resource);
    for (const Pressure candidate : {Pressure::kMemory, Pressure::kDisk, Pressure::kPid}) {
      if (pressure && *pressure != candidate) continue;
      if (const auto at = of_node.find({one.eviction.node, candidate}); at != of_node.end())
        Join(at->second, &one);
    }
  }
  return found;
}

}  // namespace slotscope
