// SPDX-License-Identifier: MIT
// Says why pods were evicted, and joins those that had to go because their node ran short of something
// to what the node says of itself (pattern 14).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/inputs/cluster_records.h"
#include "detect/patterns/finding.h"

namespace slotscope {

inline constexpr Pattern kPodEvicted = {"14",  "pod_evicted",    "pod was evicted", "pods were evicted",
                                        false, kNeedsKubernetes, nullptr,           0,
                                        ""};

// deploy/schemas/pod_evicted_verdict.schema.json
struct PodEvicted final : Finding {
  PodEvicted() : Finding(kPodEvicted) {}

  PodEviction eviction;
  // The change by which the node came under the pressure that it was under then. Nothing: it has not
  // said so; or, if the cause is another one, it need not.
  std::optional<PressureChange> pressure;
  // When the node was rid of it again.
  std::optional<PressureChange> relief;

  // Of the two layers that such an eviction has, one is not there.
  bool lacks_node() const { return eviction.cause == EvictionCause::kPressure && !pressure; }

  Moment When() const override { return eviction.when; }
  std::string Key() const override { return "14 " + eviction.uid; }
  std::string Alias() const override {
    return eviction.pod_uid.empty() ? "" : "14 pod " + eviction.pod_uid;
  }
  std::string State() const override;
  std::string Headline() const override;
  std::string Remediation() const override;
  std::vector<Evidence> Trail() const override;
  void PutFields(nlohmann::ordered_json* verdict) const override;
  std::vector<std::string> Remarks() const override;
  std::optional<Moment> ResolvedAt() const override;
};

// One per evicted pod, by time and then by uid. Changes after an eviction do not explain it.
std::vector<PodEvicted> FindPodEvicted(const ClusterRecords& records);

}  // namespace slotscope
