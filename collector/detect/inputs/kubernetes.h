// SPDX-License-Identifier: MIT
// Reads what the Kubernetes API says: Events (core/v1 and events.k8s.io), Nodes and Pods; alone, in
// lists, and as a watch sends them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "base/status.h"
#include "detect/inputs/cluster_records.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {

struct KubernetesStats {
  uint64_t nr_events = 0;
  uint64_t nr_nodes = 0;
  uint64_t nr_pods = 0;
  uint64_t nr_other = 0;      // objects of other kinds
  uint64_t nr_malformed = 0;  // lack what all have
  uint64_t nr_forgotten = 0;  // there are more than we keep
};

class KubernetesReader {
 public:
  // One JSON text. Exit::kBadInput if it is none, or no object of the API.
  Status OnText(std::string_view json);
  // The same, read already. Whether it was an object of the API.
  bool OnValue(const ValueTree& tree, ValueTree::Index root);

  // An Event in the words of OpenTelemetry's k8s_events receiver.
  struct FlatEvent {
    Moment when;
    std::string uid, reason, message, host, kind, name_space, name, object_uid;
  };
  void OnFlatEvent(const FlatEvent& event);

  // What an eviction does not say of its node other objects do.
  ClusterRecords Records() const;
  // Nothing from before then is needed any more, but the state that a node was in.
  void Forget(int64_t before_ns);

  size_t nr_evictions() const { return evictions_.size(); }  // that are kept
  const KubernetesStats& stats() const { return stats_; }

 private:
  class Object;

  bool OnItems(const Object& list, std::string_view kind);
  void OnObject(const Object& object, std::string_view kind);
  void OnEvent(const Object& event);
  void OnNode(const Object& node);
  void OnPod(const Object& pod);
  void AddEviction(PodEviction eviction);
  void AddPressure(PressureChange change);
  void PlacePod(const std::string& pod, const std::string& uid, const std::string& node);

  std::map<std::string, PodEviction> evictions_;  // by uid: what is said later counts
  // By node, pressure and time.
  std::map<std::tuple<std::string, Pressure, int64_t>, PressureChange> pressures_;
  std::map<std::string, std::string> node_of_;  // by the pod's uid, or by NAMESPACE/NAME
  KubernetesStats stats_;
};

}  // namespace slotscope
