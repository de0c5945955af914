// SPDX-License-Identifier: MIT
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "cli/judge_parser.h"
#include "cli/options.h"

namespace slotscope {

// As they were given; what they mean goes to DetectOptions.
struct DetectTexts {
  JudgeTexts judge;
  std::string as_of, boot_time, year, zone = "local", format, ranks;
  bool json = false;
};

boost::program_options::options_description DescribeDetect(DetectTexts* texts, DetectOptions* detect);
Status ParseDetect(const DetectTexts& texts, DetectOptions* detect);

}  // namespace slotscope
