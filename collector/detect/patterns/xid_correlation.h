// SPDX-License-Identifier: MIT
// Finds pods that were evicted from a node soon after a GPU of it failed (pattern 16).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detect/inputs/cluster_records.h"
#include "detect/inputs/kernel_log.h"
#include "detect/patterns/finding.h"

namespace slotscope {

inline constexpr Pattern kXidCorrelation = {
    "16",
    "xid_correlation",
    "pod was evicted soon after an Xid",
    "pods were evicted soon after an Xid",
    false,
    kNeedsKernelLog | kNeedsKubernetes,
    "xid-correlation-window",
    60'000'000'000,
    "seconds within which an eviction follows an Xid, at least 1 (default 60)"};

// deploy/schemas/xid_correlation_verdict.schema.json
struct XidCorrelation final : Finding {
  XidCorrelation() : Finding(kXidCorrelation) {}

  PodEviction eviction;
  XidRecord xid;                  // the latest one before it
  std::vector<XidRecord> before;  // those before that one, in the window, oldest first; the latest few

  Moment When() const override { return eviction.when; }
  std::string Key() const override { return "16 " + eviction.uid; }
  std::string Alias() const override {
    return eviction.pod_uid.empty() ? "" : "16 pod " + eviction.pod_uid;
  }
  std::string Headline() const override;
  std::string Remediation() const override;
  std::vector<Evidence> Trail() const override;
  void PutFields(nlohmann::ordered_json* verdict) const override;
};

// "Xid 79 on GPU 0000:91:00: GPU has fallen off the bus."
std::string DescribeXid(const XidRecord& xid);

// One per evicted pod that had an Xid on its node within window_ns before, by time of the eviction and
// then by its uid. Where times are too coarse to tell, what may have been so counts.
std::vector<XidCorrelation> FindXidCorrelations(const std::vector<XidRecord>& xids,
                                                const std::vector<PodEviction>& evictions,
                                                int64_t window_ns);

}  // namespace slotscope
