// SPDX-License-Identifier: MIT
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "cli/options.h"
#include "cli/reader_parser.h"

namespace slotscope {

struct TopTexts {
  ReaderTexts reader;
  std::string sort, nr_rows;
};

boost::program_options::options_description DescribeTop(TopTexts* texts, TopOptions* top);
Status ParseTop(const TopTexts& texts, TopOptions* top);

}  // namespace slotscope
