// SPDX-License-Identifier: MIT
// All detectors, over all that is known.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "detect/cluster_records.h"
#include "detect/kernel_log.h"
#include "detect/nccl_hang.h"
#include "detect/nccl_records.h"
#include "detect/pod_evicted.h"
#include "detect/verdict.h"
#include "detect/xid_correlation.h"

namespace slotscope {

struct DetectorSet {
  bool nccl_hang = true;
  bool xid_correlation = true;
  bool pod_evicted = true;
};

struct DetectRecords {
  NcclRecords nccl;
  std::vector<XidRecord> xids;
  std::vector<XidRecord> untimed_xids;  // of which nobody knows when they were; they join nothing
  ClusterRecords cluster;
};

struct Findings {
  std::vector<NcclHang> hangs;
  std::vector<XidCorrelation> xids;
  std::vector<PodEvicted> evicted;
};

struct JudgeOptions {
  DetectorSet detectors;
  NcclHangOptions nccl_hang;
  int64_t xid_window_ns = kDefaultXidWindowNs;
};

Findings Judge(const DetectRecords& records, const JudgeOptions& options);

// The host's evidence of a hang (see HostEvidenceOf()). Null: there is no recording of this host.
using EvidenceFn = std::function<nlohmann::ordered_json(const NcclHang&)>;

// By pattern, each in its own order.
std::vector<Verdict> VerdictsOf(const DetectRecords& records, const Findings& findings, NcclClock clock,
                                const EvidenceFn& evidence = {});

}  // namespace slotscope
