// SPDX-License-Identifier: MIT
// The table of detectors, and all of them over all that is known.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "detect/inputs/records.h"
#include "detect/patterns/finding.h"
#include "detect/patterns/nccl_hang.h"

namespace slotscope {

struct JudgeOptions {
  std::set<std::string> off;                     // names of patterns that are not looked for
  std::map<std::string, int64_t> thresholds_ns;  // by names of patterns; of others the default holds
  NcclClock clock = NcclClock::kDumps;
  int64_t as_of_ns = 0;  // Unix time; for NcclClock::kAsOf

  bool IsOn(const Pattern& pattern) const { return !off.contains(pattern.name); }
  int64_t ThresholdNs(const Pattern& pattern) const {
    const auto at = thresholds_ns.find(pattern.name);
    return at == thresholds_ns.end() ? pattern.threshold_ns : at->second;
  }
};

struct Detector {
  const Pattern* pattern;
  // In its own order.
  Findings (*find)(const DetectRecords& records, const JudgeOptions& options);
};

// By pattern.id.
std::span<const Detector> Detectors();

// What those find that are on.
Findings Judge(const DetectRecords& records, const JudgeOptions& options);

}  // namespace slotscope
