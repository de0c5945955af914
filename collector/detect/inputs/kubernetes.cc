// SPDX-License-Identifier: MIT
#include "detect/inputs/kubernetes.h"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <utility>

#include "detect/inputs/json_tree.h"
#include "detect/inputs/timestamp.h"

namespace slotscope {
namespace {

using Index = ValueTree::Index;

// Our own limits.
constexpr size_t kMaxRecords = 100'000;
constexpr size_t kMaxPods = 200'000;

struct ConditionReason {
  std::string_view reason;
  Pressure pressure;
  bool is_on;
};
constexpr std::array<ConditionReason, 6> kNodeReasons = {{
    {"NodeHasInsufficientMemory", Pressure::kMemory, true},
    {"NodeHasSufficientMemory", Pressure::kMemory, false},
    {"NodeHasDiskPressure", Pressure::kDisk, true},
    {"NodeHasNoDiskPressure", Pressure::kDisk, false},
    {"NodeHasInsufficientPID", Pressure::kPid, true},
    {"NodeHasSufficientPID", Pressure::kPid, false},
}};

// The word behind `before`, up to a blank.
std::string WordBehind(std::string_view text, std::string_view before) {
  const size_t at = text.find(before);
  if (at == text.npos) return {};
  text.remove_prefix(at + before.size());
  return std::string(text.substr(0, text.find_first_of(" ,;")));
}

// What a kubelet's sentence says.
void ReadEvicted(PodEviction* eviction) {
  const std::string_view message = eviction->message;
  constexpr std::string_view kLow = "The node was low on resource: ";
  constexpr std::string_view kCondition = "The node had condition: ";
  if (message.starts_with(kLow) || message.starts_with(kCondition)) {
    eviction->cause = EvictionCause::kPressure;
    std::string_view rest = message.substr(message.starts_with(kLow) ? kLow.size() : kCondition.size());
    rest = rest.substr(0, rest.find(". "));
    while (!rest.empty() && (rest.back() == '.' || rest.back() == ' ' || rest.back() == ']'))
      rest.remove_suffix(1);
    if (rest.starts_with('[')) rest.remove_prefix(1);
    if (eviction->resource.empty()) eviction->resource = rest;
  } else if (message.starts_with("The node was low on compute resources")) {
    eviction->cause = EvictionCause::kPressure;
  } else if (message.find("ephemeral local storage usage exceeds") != message.npos ||
             message.find("exceeded its local ephemeral storage limit") != message.npos ||
             message.starts_with("Usage of EmptyDir volume")) {
    eviction->cause = EvictionCause::kLimit;
    if (eviction->resource.empty()) eviction->resource = "ephemeral-storage";
  } else {
    eviction->cause = eviction->resource.empty() ? EvictionCause::kOther : EvictionCause::kPressure;
  }
}

// Whether an Event about a pod says that it was evicted, and why.
bool ReadEviction(PodEviction* eviction) {
  const std::string_view message = eviction->message;
  if (eviction->reason == "Evicted") {
    ReadEvicted(eviction);
    return true;
  }
  if (eviction->reason == "TaintManagerEviction" || eviction->reason == "DeviceTaintManagerEviction") {
    eviction->cause = EvictionCause::kTaint;
    return message.starts_with("Marking for deletion");  // not: "Cancelling deletion"
  }
  if (eviction->reason == "Preempted") {
    eviction->cause = EvictionCause::kPreemption;
    if (eviction->node.empty()) eviction->node = WordBehind(message, " on node ");
    return message.find("in kube-scheduler memory") == message.npos;  // it runs on
  }
  return false;
}

EvictionCause CauseOfDisruption(std::string_view reason) {
  if (reason == "TerminationByKubelet") return EvictionCause::kPressure;
  if (reason == "DeletionByTaintManager" || reason == "DeletionByDeviceTaintManager")
    return EvictionCause::kTaint;
  if (reason == "PreemptionByScheduler") return EvictionCause::kPreemption;
  if (reason == "EvictionByEvictionAPI") return EvictionCause::kApi;
  return EvictionCause::kOther;
}

}  // namespace

// A dict of the API's, by paths.
class KubernetesReader::Object {
 public:
  Object(const ValueTree& tree, Index root) : tree_(tree), root_(root) {}

  std::optional<Object> At(std::string_view key) const {
    const auto found = tree_.Find(root_, key);
    if (!found || tree_.kind(*found) != ValueTree::Kind::kDict) return {};
    return Object(tree_, *found);
  }
  std::string Text(std::string_view key) const {
    const auto found = tree_.Find(root_, key);
    const auto text = found ? tree_.Text(*found) : std::nullopt;
    return text ? std::string(text->substr(0, kMaxFieldText)) : std::string();
  }
  std::string TextAt(std::string_view dict, std::string_view key) const {
    const auto inner = At(dict);
    return inner ? inner->Text(key) : std::string();
  }
  std::optional<Moment> Time(std::string_view key) const { return ParseTimestamp(Text(key)); }
  bool HasList(std::string_view key) const {
    const auto found = tree_.Find(root_, key);
    return found && tree_.kind(*found) == ValueTree::Kind::kList;
  }
  std::vector<Object> List(std::string_view key) const {
    std::vector<Object> items;
    if (const auto found = tree_.Find(root_, key))
      for (Index item : tree_.List(*found)) items.push_back(Object(tree_, item));
    return items;
  }

 private:
  const ValueTree& tree_;
  Index root_;
};

Status KubernetesReader::OnText(std::string_view json) {
  ValueTree tree;
  Index root;
  if (Status status = ParseJson(json, &tree, &root); !status.ok()) return status;
  if (!OnValue(tree, root)) return {Exit::kBadInput, "not an object of Kubernetes: it has no kind"};
  return {};
}

bool KubernetesReader::OnValue(const ValueTree& tree, Index root) {
  const Object object(tree, root);
  const std::string kind = object.Text("kind");
  if (kind.empty()) {
    // A line of a watch; or what OpenTelemetry's k8sobjects receiver makes of one.
    const auto inner = object.At("object");
    if (!inner) return OnItems(object, {});
    const std::string type = object.Text("type");
    if (type.empty() || type == "ADDED" || type == "MODIFIED") OnObject(*inner, inner->Text("kind"));
    return true;
  }
  if (!kind.ends_with("List")) {
    OnObject(object, kind);
    return true;
  }
  // Items of the API's own lists do not say what they are.
  OnItems(object, kind.substr(0, kind.size() - 4));
  return true;
}

// False: it has none.
bool KubernetesReader::OnItems(const Object& list, std::string_view kind) {
  for (const Object& item : list.List("items")) {
    const std::string own = item.Text("kind");
    OnObject(item, own.empty() ? kind : own);
  }
  return list.HasList("items");
}

void KubernetesReader::OnObject(const Object& object, std::string_view kind) {
  if (kind == "Event")
    OnEvent(object);
  else if (kind == "Node")
    OnNode(object);
  else if (kind == "Pod")
    OnPod(object);
  else
    stats_.nr_other++;
}

void KubernetesReader::OnEvent(const Object& event) {
  stats_.nr_events++;
  const auto metadata = event.At("metadata");
  const auto about = event.At(event.At("involvedObject") ? "involvedObject" : "regarding");
  if (!metadata || !about) {
    stats_.nr_malformed++;
    return;
  }
  std::optional<Moment> when;
  if (const auto series = event.At("series")) when = series->Time("lastObservedTime");
  for (const char* key : {"lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp",
                          "deprecatedFirstTimestamp"})
    if (!when) when = event.Time(key);
  if (!when) when = metadata->Time("creationTimestamp");
  FlatEvent flat;
  flat.uid = metadata->Text("uid");
  flat.reason = event.Text("reason");
  flat.message = event.Text("message");
  if (flat.message.empty()) flat.message = event.Text("note");
  // Only a kubelet's host is the pod's node.
  for (const char* source : {"source", "deprecatedSource"}) {
    const std::string component = event.TextAt(source, "component");
    if (flat.host.empty() && (component.empty() || component == "kubelet"))
      flat.host = event.TextAt(source, "host");
  }
  if (flat.host.empty() &&
      (event.Text("reportingComponent") == "kubelet" || event.Text("reportingController") == "kubelet"))
    flat.host = event.Text("reportingInstance");
  flat.kind = about->Text("kind");
  flat.name_space = about->Text("namespace");
  if (flat.name_space.empty()) flat.name_space = metadata->Text("namespace");
  flat.name = about->Text("name");
  flat.object_uid = about->Text("uid");
  // Names are unique for as long as the object is there.
  if (flat.uid.empty()) flat.uid = metadata->Text("name");
  if (!when || flat.uid.empty() || flat.name.empty()) {
    stats_.nr_malformed++;
    return;
  }
  flat.when = *when;
  if (const std::string starved = metadata->TextAt("annotations", "starved_resource");
      !starved.empty() && flat.reason == "Evicted" && flat.message.empty())
    flat.message = "The node was low on resource: " + starved + ".";
  OnFlatEvent(flat);
}

void KubernetesReader::OnFlatEvent(const FlatEvent& event) {
  if (event.kind == "Node") {
    for (const ConditionReason& known : kNodeReasons)
      if (event.reason == known.reason)
        AddPressure({event.when, event.uid, event.name, known.pressure, known.is_on, event.reason});
    return;
  }
  if (event.kind != "Pod") return;
  const std::string pod = event.name_space + "/" + event.name;
  std::string node = event.host;
  if (event.reason == "Scheduled") node = WordBehind(event.message, " to ");
  if (!node.empty()) PlacePod(pod, event.object_uid, node);
  PodEviction eviction = {
      event.when, event.uid,    pod,          event.object_uid, node, EvictionCause::kOther,
      {},         event.reason, event.message};
  if (ReadEviction(&eviction)) AddEviction(std::move(eviction));
}

void KubernetesReader::OnNode(const Object& node) {
  stats_.nr_nodes++;
  const std::string name = node.TextAt("metadata", "name");
  const auto status = node.At("status");
  if (name.empty() || !status) {
    stats_.nr_malformed++;
    return;
  }
  std::string uid = node.TextAt("metadata", "uid");
  if (uid.empty()) uid = name;
  for (const Object& condition : status->List("conditions")) {
    const std::string type = condition.Text("type"), state = condition.Text("status");
    for (Pressure pressure : {Pressure::kMemory, Pressure::kDisk, Pressure::kPid}) {
      if (type != PressureName(pressure) || (state != "True" && state != "False")) continue;
      if (const auto when = condition.Time("lastTransitionTime"))
        AddPressure({*when, uid, name, pressure, state == "True", condition.Text("reason")});
      else
        stats_.nr_malformed++;
    }
  }
}

void KubernetesReader::OnPod(const Object& pod) {
  stats_.nr_pods++;
  const auto metadata = pod.At("metadata");
  const std::string name = metadata ? metadata->Text("name") : "";
  if (name.empty()) {
    stats_.nr_malformed++;
    return;
  }
  PodEviction eviction;
  eviction.pod = metadata->Text("namespace") + "/" + name;
  eviction.pod_uid = metadata->Text("uid");
  eviction.node = pod.TextAt("spec", "nodeName");
  if (!eviction.node.empty()) PlacePod(eviction.pod, eviction.pod_uid, eviction.node);
  const auto status = pod.At("status");
  if (!status) return;
  eviction.uid = eviction.pod_uid.empty() ? eviction.pod : eviction.pod_uid;
  std::optional<Moment> latest;
  bool is_said = false;
  for (const Object& condition : status->List("conditions")) {
    const auto when = condition.Time("lastTransitionTime");
    if (when && (!latest || latest->begin_ns < when->begin_ns)) latest = when;
    if (condition.Text("type") != "DisruptionTarget" || condition.Text("status") != "True") continue;
    if (!when) {
      stats_.nr_malformed++;
      continue;
    }
    is_said = true;
    eviction.when = *when;
    eviction.reason = condition.Text("reason");
    eviction.message = condition.Text("message");
    eviction.cause = CauseOfDisruption(eviction.reason);
    if (eviction.cause == EvictionCause::kPressure) ReadEvicted(&eviction);
    AddEviction(eviction);
  }
  // An older kubelet says only that; about when its conditions changed last.
  if (is_said || status->Text("reason") != "Evicted") return;
  if (!latest) {
    stats_.nr_malformed++;
    return;
  }
  eviction.when = *latest;
  eviction.reason = "Evicted";
  eviction.message = status->Text("message");
  ReadEvicted(&eviction);
  AddEviction(eviction);
}

void KubernetesReader::AddEviction(PodEviction eviction) {
  if (evictions_.size() >= kMaxRecords && !evictions_.contains(eviction.uid)) {
    stats_.nr_forgotten++;
    return;
  }
  std::string uid = eviction.uid;
  evictions_.insert_or_assign(std::move(uid), std::move(eviction));
}

void KubernetesReader::AddPressure(PressureChange change) {
  const auto key = std::tuple(change.node, change.pressure, change.when.begin_ns);
  if (pressures_.size() >= kMaxRecords && !pressures_.contains(key)) {
    stats_.nr_forgotten++;
    return;
  }
  pressures_.insert_or_assign(key, std::move(change));
}

void KubernetesReader::PlacePod(const std::string& pod, const std::string& uid,
                                const std::string& node) {
  if (node_of_.size() >= kMaxPods) {
    stats_.nr_forgotten++;
    return;
  }
  node_of_.insert_or_assign(pod, node);
  if (!uid.empty()) node_of_.insert_or_assign(uid, node);
}

ClusterRecords KubernetesReader::Records() const {
  ClusterRecords records;
  for (const auto& [uid, eviction] : evictions_) {
    PodEviction& one = records.evictions.emplace_back(eviction);
    if (!one.node.empty()) continue;
    auto at = one.pod_uid.empty() ? node_of_.end() : node_of_.find(one.pod_uid);
    if (at == node_of_.end()) at = node_of_.find(one.pod);
    if (at != node_of_.end()) one.node = at->second;
  }
  for (const auto& [key, change] : pressures_) records.pressures.push_back(change);
  return records;
}

void KubernetesReader::Forget(int64_t before_ns) {
  std::erase_if(evictions_, [&](const auto& one) { return one.second.when.last_ns() < before_ns; });
  for (auto at = pressures_.begin(); at != pressures_.end();) {
    const auto next = std::next(at);
    // The last change before then says how the node is now.
    const bool is_last =
        next == pressures_.end() || std::get<0>(next->first) != std::get<0>(at->first) ||
        std::get<1>(next->first) != std::get<1>(at->first) || std::get<2>(next->first) >= before_ns;
    if (!is_last && std::get<2>(at->first) < before_ns)
      at = pressures_.erase(at);
    else
      at = next;
  }
  // Pods are said again with each thing that happens to them.
  if (node_of_.size() >= kMaxPods / 2) node_of_.clear();
}

}  // namespace slotscope
