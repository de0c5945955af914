// SPDX-License-Identifier: MIT
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "cli/options.h"

namespace slotscope {

struct ShipTexts {
  std::string milliseconds, max_waiting, ttl;
};

boost::program_options::options_description DescribeShip(ShipTexts* texts, ShipVerbOptions* ship);
Status ParseShip(const ShipTexts& texts, ShipVerbOptions* ship);

}  // namespace slotscope
