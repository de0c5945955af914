// SPDX-License-Identifier: MIT
#include "run/capabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace slotscope {
namespace {

// Live tests record with these; the package's unit is to have no others.
TEST(Capabilities, TheUnitHasThoseOfTheRecorderAndOneToBeginWith) {
  std::ifstream unit("debian/slotscope.service");
  std::set<std::string> of_unit, of_recorder = {"CAP_SYS_ADMIN"};
  const std::string key = "CapabilityBoundingSet=";
  for (std::string line; std::getline(unit, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream words(line.substr(key.size()));
    for (std::string word; words >> word;) of_unit.insert(word);
  }
  for (int one : kRecordingCapabilities) {
    std::string name = std::string("CAP_") + capng_capability_to_name(static_cast<unsigned>(one));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    of_recorder.insert(name);
  }
  EXPECT_EQ(of_unit, of_recorder);
}

}  // namespace
}  // namespace slotscope
