// SPDX-License-Identifier: MIT
#include "detect/patterns/pod_evicted.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "detect/inputs/timestamp.h"

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

std::string Why(const PodEvicted& evicted) {
  const PodEviction& eviction = evicted.eviction;
  const std::string resource = EscapeControls(eviction.resource);
  switch (eviction.cause) {
    case EvictionCause::kPressure:
      if (evicted.pressure)
        return fmt::format("the node was under {} since {}", PressureName(evicted.pressure->pressure),
                           MomentText(evicted.pressure->when));
      return resource.empty() ? "the node ran short of something"
                              : fmt::format("the node ran short of {}", resource);
    case EvictionCause::kLimit:
      return fmt::format("it used more {} than it may", resource);
    case EvictionCause::kTaint:
      return "the node has a taint that it does not tolerate";
    case EvictionCause::kPreemption:
      return "a pod of higher priority needed its place";
    case EvictionCause::kApi:
      return "somebody asked for it through the API";
    case EvictionCause::kOther:
      return EscapeControls(eviction.reason);
  }
  return "";
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

std::string PodEvicted::State() const {
  return fmt::format("{} {}", lacks_node(), relief ? relief->when.begin_ns : 0);
}

std::string PodEvicted::Headline() const {
  return fmt::format("pod {} evicted{}: {}", EscapeControls(eviction.pod),
                     eviction.node.empty() ? "" : " from " + EscapeControls(eviction.node), Why(*this));
}

std::string PodEvicted::Remediation() const {
  const std::string at = eviction.node.empty() ? "the node" : EscapeControls(eviction.node);
  switch (eviction.cause) {
    case EvictionCause::kPressure:
      return fmt::format(
          "find out what fills {}: the pods furthest above their requests go first; set this pod's "
          "requests to its real usage",
          at);
    case EvictionCause::kLimit:
      return "raise the pod's limit, or have it write less";
    case EvictionCause::kTaint:
      return fmt::format("look at the taints of {} and at what put them there", at);
    case EvictionCause::kPreemption:
      return "give it a higher priority, or the cluster more room";
    case EvictionCause::kApi:
      return "look for a drain or an autoscaler at that time";
    case EvictionCause::kOther:
      return "look at the pod's status and at the kubelet's log";
  }
  return "";
}

std::vector<Evidence> PodEvicted::Trail() const {
  std::vector<Evidence> trail;
  if (pressure) trail.push_back(EvidenceOf(*pressure));
  trail.push_back(EvidenceOf(eviction));
  if (relief) trail.push_back(EvidenceOf(*relief));
  return trail;
}

void PodEvicted::PutFields(nlohmann::ordered_json* verdict) const {
  auto& json = *verdict;
  json["confidence"] = lacks_node() ? "partial" : "full";
  if (lacks_node()) json["missing_layers"] = {"node_condition"};
  json["evicted_pod"] = EscapeControls(eviction.pod);
  if (!eviction.node.empty()) json["node"] = EscapeControls(eviction.node);
  json["cause"] = EvictionCauseName(eviction.cause);
  if (!eviction.resource.empty()) json["resource"] = EscapeControls(eviction.resource);
  if (pressure) json["condition"] = PressureName(pressure->pressure);
  if (relief) json["resolved_at"] = MomentText(relief->when);
}

std::vector<std::string> PodEvicted::Remarks() const {
  std::vector<std::string> remarks;
  if (lacks_node()) remarks.emplace_back("the node itself has not said so");
  if (relief) remarks.push_back(MomentText(relief->when) + "  the node is rid of it");
  return remarks;
}

std::optional<Moment> PodEvicted::ResolvedAt() const {
  if (!relief) return {};
  return relief->when;
}

}  // namespace slotscope
