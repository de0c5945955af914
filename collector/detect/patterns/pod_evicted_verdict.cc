// SPDX-License-Identifier: MIT
#include "detect/patterns/pod_evicted_verdict.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/escape.h"

namespace slotscope {
namespace {

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

std::string RemediationOf(const PodEvicted& evicted, const std::string& node) {
  const std::string at = node.empty() ? "the node" : node;
  switch (evicted.eviction.cause) {
    case EvictionCause::kPressure:
      return fmt::format(
          "find out what fills {}: the pods with the largest consumption over their "
          "requests go first; give this one requests that are true",
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

}  // namespace

Verdict PodEvictedVerdict(const PodEvicted& evicted) {
  using Json = nlohmann::ordered_json;
  const PodEviction& eviction = evicted.eviction;
  const std::string pod = EscapeControls(eviction.pod), node = EscapeControls(eviction.node);
  Json trail = Json::array();
  const auto add_change = [&](const PressureChange& change) {
    trail.push_back(Evidence(
        "node_condition", change.uid, change.when,
        fmt::format("{} of {} is {} ({})", PressureName(change.pressure), EscapeControls(change.node),
                    change.is_on ? "True" : "False", EscapeControls(change.reason))));
  };
  if (evicted.pressure) add_change(*evicted.pressure);
  trail.push_back(Evidence("pod_event", eviction.uid, eviction.when,
                           fmt::format("{} of {}: {}", EscapeControls(eviction.reason), pod,
                                       EscapeControls(eviction.message))));
  if (evicted.relief) add_change(*evicted.relief);
  Verdict verdict;
  verdict.time_ns = eviction.when.begin_ns;
  verdict.key = "14 " + eviction.uid;
  if (!eviction.pod_uid.empty()) verdict.alias = "14 pod " + eviction.pod_uid;
  Json& json = verdict.json;
  json["pattern.id"] = "14";
  json["headline"] =
      fmt::format("pod {} evicted{}: {}", pod, node.empty() ? "" : " from " + node, Why(evicted));
  json["remediation"] = RemediationOf(evicted, node);
  json["confidence"] = evicted.lacks_node() ? "partial" : "full";
  if (evicted.lacks_node()) json["missing_layers"] = {"node_condition"};
  json["evicted_pod"] = pod;
  if (!node.empty()) json["node"] = node;
  json["cause"] = EvictionCauseName(eviction.cause);
  if (!eviction.resource.empty()) json["resource"] = EscapeControls(eviction.resource);
  if (evicted.pressure) json["condition"] = PressureName(evicted.pressure->pressure);
  if (evicted.relief) json["resolved_at"] = MomentText(evicted.relief->when);
  json["evidence_trail"] = std::move(trail);
  return verdict;
}

}  // namespace slotscope
