// SPDX-License-Identifier: MIT
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "cli/judge_parser.h"
#include "cli/output_parser.h"
#include "run/options.h"

namespace slotscope {

// As they were given; what they mean goes to RecordOptions.
struct RecordTexts {
  OutputTexts output;
  JudgeTexts judge;
  std::string source = "auto";
  std::string gpu = "auto";
  std::string duration;
  std::string events = "cycles,instructions,llc_misses";
  std::string rmids = "512";
  std::string max_overhead;
  std::string health_interval = "10";
  std::string detect;
  std::string trigger;
  bool no_waits = false;
};

boost::program_options::options_description DescribeRecord(RecordTexts* texts, RecordOptions* record);
Status ParseRecord(const RecordTexts& texts, RecordOptions* record);

}  // namespace slotscope
