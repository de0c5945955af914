// SPDX-License-Identifier: MIT
// The options of everything that makes rows.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/group_parser.h"
#include "run/options.h"

namespace slotscope {

// As they were given; what they mean goes to OutputOptions.
struct OutputTexts {
  std::string slot = "1";
  std::string window = "64";
  std::string segment = "60";
  std::string pid, comm, top, max_size;
  GroupTexts groups;
  std::string keep;  // of record alone
};

boost::program_options::options_description DescribeOutput(OutputTexts* texts, OutputOptions* output);
Status ParseOutput(const OutputTexts& texts, OutputOptions* output);

struct NamedFile {
  const char* name;  // an option, or what the file is
  std::string path;  // empty: none
};

// No file is written twice, and none that is read is overwritten.
Status CheckNames(const OutputOptions& output, const std::string& raw, const std::string& verdicts,
                  const std::vector<NamedFile>& inputs);

}  // namespace slotscope
