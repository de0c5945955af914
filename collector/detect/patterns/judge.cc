// SPDX-License-Identifier: MIT
#include "detect/patterns/judge.h"

#include "detect/patterns/nccl_hang_verdict.h"
#include "detect/patterns/pod_evicted_verdict.h"
#include "detect/patterns/xid_correlation_verdict.h"

namespace slotscope {

Findings Judge(const DetectRecords& records, const JudgeOptions& options) {
  Findings findings;
  if (options.detectors.nccl_hang) findings.hangs = FindNcclHangs(records.nccl, options.nccl_hang);
  if (options.detectors.xid_correlation)
    findings.xids = FindXidCorrelations(records.xids, records.cluster.evictions, options.xid_window_ns);
  if (options.detectors.pod_evicted) findings.evicted = FindPodEvicted(records.cluster);
  return findings;
}

std::vector<Verdict> VerdictsOf(const DetectRecords& records, const Findings& findings, NcclClock clock,
                                const EvidenceFn& evidence) {
  std::vector<Verdict> verdicts;
  for (const PodEvicted& one : findings.evicted) verdicts.push_back(PodEvictedVerdict(one));
  const std::set<int32_t> suspects = SuspectsOf(findings.hangs);
  for (const NcclHang& one : findings.hangs) {
    verdicts.push_back(NcclHangVerdict(records.nccl, one, clock, suspects));
    if (evidence) verdicts.back().json["host_evidence"] = evidence(one);
  }
  for (const XidCorrelation& one : findings.xids) verdicts.push_back(XidCorrelationVerdict(one));
  return verdicts;
}

}  // namespace slotscope
