// SPDX-License-Identifier: MIT
#pragma once

#include <boost/program_options.hpp>
#include <map>
#include <string>

#include "base/status.h"
#include "tests/gen/generator.h"

namespace slotscope {

using GenTexts = std::map<std::string, std::string>;  // numbers, by name

boost::program_options::options_description DescribeGenerate(GenTexts* texts,
                                                             GeneratorOptions* generator);
Status ParseGenerate(const GenTexts& texts, GeneratorOptions* generator);

}  // namespace slotscope
