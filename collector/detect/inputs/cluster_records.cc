// SPDX-License-Identifier: MIT
#include "detect/inputs/cluster_records.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "base/scan.h"

namespace slotscope {
namespace {

// Events of one eviction that do not say the pod's uid: they come within this.
constexpr int64_t kSamePodNs = 60'000'000'000;
// Of a name that is evicted again and again.
constexpr size_t kMaxLookedAt = 64;

bool IsSamePod(const PodEviction& one, const PodEviction& other) {
  if (one.uid == other.uid) return true;
  if (!one.pod_uid.empty() && !other.pod_uid.empty()) return one.pod_uid == other.pod_uid;
  return LeastBetween(one.when, other.when) <= kSamePodNs;
}

}  // namespace

const char* EvictionCauseName(EvictionCause cause) {
  switch (cause) {
    case EvictionCause::kPressure:
      return "pressure";
    case EvictionCause::kLimit:
      return "limit";
    case EvictionCause::kTaint:
      return "taint";
    case EvictionCause::kPreemption:
      return "preemption";
    case EvictionCause::kApi:
      return "api";
    case EvictionCause::kOther:
      return "other";
  }
  return "other";
}

const char* PressureName(Pressure pressure) {
  switch (pressure) {
    case Pressure::kMemory:
      return "MemoryPressure";
    case Pressure::kDisk:
      return "DiskPressure";
    case Pressure::kPid:
      return "PIDPressure";
  }
  return "";
}

std::vector<PodEviction> DistinctEvictions(std::vector<PodEviction> evictions) {
  std::stable_sort(evictions.begin(), evictions.end(), [](const auto& a, const auto& b) {
    return std::tie(a.when, a.uid) < std::tie(b.when, b.uid);
  });
  std::map<std::string, std::vector<size_t>> of_pod;  // indices into distinct
  std::vector<PodEviction> distinct;
  for (PodEviction& eviction : evictions) {
    std::vector<size_t>& before = of_pod[eviction.pod];
    const auto end = before.rbegin() + static_cast<ptrdiff_t>(std::min(before.size(), kMaxLookedAt));
    const auto same =
        std::find_if(before.rbegin(), end, [&](size_t i) { return IsSamePod(distinct[i], eviction); });
    if (same != end) {
      // It may know what the first one did not.
      PodEviction& first = distinct[*same];
      if (first.node.empty()) first.node = std::move(eviction.node);
      if (first.pod_uid.empty()) first.pod_uid = std::move(eviction.pod_uid);
      continue;
    }
    before.push_back(distinct.size());
    distinct.push_back(std::move(eviction));
  }
  return distinct;
}

bool IsSameNode(std::string_view one, std::string_view other) {
  if (one.empty() || other.empty()) return false;
  if (one.size() > other.size()) std::swap(one, other);
  if (!std::equal(one.begin(), one.end(), other.begin(),
                  [](char a, char b) { return Lower(a) == Lower(b); }))
    return false;
  return one.size() == other.size() || other[one.size()] == '.';
}

}  // namespace slotscope
