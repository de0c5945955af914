// SPDX-License-Identifier: MIT
// The options of detectors, of detect and of record --detect alike.
#pragma once

#include <boost/program_options.hpp>
#include <map>
#include <string>

#include "base/status.h"
#include "detect/patterns/detectors.h"

namespace slotscope {

struct JudgeTexts {
  std::map<std::string, std::string> thresholds;  // by their options
  std::string config;

  bool empty() const;
};

void DescribeThresholds(JudgeTexts* texts, boost::program_options::options_description* options);
Status ParseJudge(const JudgeTexts& texts, JudgeOptions* judge);
// Names, or "all".
Status ParseDetectors(const std::string& text, JudgeOptions* judge);
// "pod_evicted, nccl_hang and xid_correlation".
std::string DetectorNames();
// "--fr-dir", "--kmsg and --k8s-events": what gives the detector its input.
std::string NeededInputs(const Pattern& pattern);

}  // namespace slotscope
