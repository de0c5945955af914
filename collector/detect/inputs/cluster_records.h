// SPDX-License-Identifier: MIT
// What Kubernetes says of pods that were evicted, and of nodes that run short of something.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "detect/inputs/moment.h"

namespace slotscope {

enum class EvictionCause : uint8_t {
  kPressure,    // the node ran short of something
  kLimit,       // the pod used more than it may
  kTaint,       // the node does not tolerate it any more
  kPreemption,  // a pod of higher priority needs its place
  kApi,         // somebody asked for it, as a drain does
  kOther,
};
const char* EvictionCauseName(EvictionCause cause);

// What a node runs short of.
enum class Pressure : uint8_t { kMemory, kDisk, kPid };
// The name of the node's condition: "MemoryPressure".
const char* PressureName(Pressure pressure);

struct PodEviction {
  Moment when;
  std::string uid;      // of the Event, or of the pod whose condition it is
  std::string pod;      // NAMESPACE/NAME
  std::string pod_uid;  // "": not said
  std::string node;     // "": not said
  EvictionCause cause = EvictionCause::kOther;
  std::string resource;  // that was short: "memory", "ephemeral-storage"; "": not said
  std::string reason;
  std::string message;
};

// A node's condition changes.
struct PressureChange {
  Moment when;
  std::string uid;  // of the Event or the node
  std::string node;
  Pressure pressure = Pressure::kMemory;
  bool is_on = false;
  std::string reason;
};

struct ClusterRecords {
  std::vector<PodEviction> evictions;
  std::vector<PressureChange> pressures;
};

// One per evicted pod, the first that was said of it; by time, then by uid.
std::vector<PodEviction> DistinctEvictions(std::vector<PodEviction> evictions);

// A node's name in Kubernetes and in a log are the same, though one may have the domain and the other
// not, and only one of them is written in small letters.
bool IsSameNode(std::string_view one, std::string_view other);

}  // namespace slotscope
