// SPDX-License-Identifier: MIT
// The options of detectors, of detect and of record --detect alike.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "detect/patterns/judge.h"

namespace slotscope {

struct JudgeTexts {
  std::string nccl_hang_threshold, xid_correlation_window, config;
};

void DescribeThresholds(JudgeTexts* texts, boost::program_options::options_description* options);
Status ParseJudge(const JudgeTexts& texts, JudgeOptions* judge);
// Names, or "all".
Status ParseDetectors(const std::string& text, DetectorSet* set);

}  // namespace slotscope
