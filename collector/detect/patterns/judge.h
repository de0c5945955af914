// SPDX-License-Identifier: MIT
// All detectors, over all that is known.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "detect/inputs/records.h"
#include "detect/patterns/nccl_hang.h"
#include "detect/patterns/pod_evicted.h"
#include "detect/patterns/verdict.h"
#include "detect/patterns/xid_correlation.h"

namespace slotscope {

struct DetectorSet {
  bool nccl_hang = true;
  bool xid_correlation = true;
  bool pod_evicted = true;
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
