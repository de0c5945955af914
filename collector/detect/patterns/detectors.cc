// SPDX-License-Identifier: MIT
#include "detect/patterns/detectors.h"

#include <memory>
#include <utility>
#include <vector>

#include "detect/patterns/pod_evicted.h"
#include "detect/patterns/xid_correlation.h"

namespace slotscope {
namespace {

template <typename T>
Findings Share(std::vector<T> found) {
  Findings findings;
  for (T& one : found) findings.push_back(std::make_shared<T>(std::move(one)));
  return findings;
}

constexpr Detector kDetectors[] = {
    {&kPodEvicted, [](const DetectRecords& records,
                      const JudgeOptions&) { return Share(FindPodEvicted(records.cluster)); }},
    {&kNcclHang,
     [](const DetectRecords& records, const JudgeOptions& options) {
       Findings findings;
       if (auto job = JoinNcclHangs(FindNcclHangs(
               records.nccl, {options.ThresholdNs(kNcclHang), options.clock, options.as_of_ns})))
         findings.push_back(std::make_shared<NcclHang>(std::move(*job)));
       return findings;
     }},
    {&kXidCorrelation,
     [](const DetectRecords& records, const JudgeOptions& options) {
       return Share(FindXidCorrelations(records.xids, records.cluster.evictions,
                                        options.ThresholdNs(kXidCorrelation)));
     }},
};

}  // namespace

std::span<const Detector> Detectors() { return kDetectors; }

Findings Judge(const DetectRecords& records, const JudgeOptions& options) {
  Findings findings;
  for (const Detector& detector : kDetectors)
    if (options.IsOn(*detector.pattern))
      for (auto& one : detector.find(records, options)) findings.push_back(std::move(one));
  return findings;
}

}  // namespace slotscope
