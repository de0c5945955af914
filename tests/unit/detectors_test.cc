// SPDX-License-Identifier: MIT
// What the table of detectors promises to those who read verdicts.
#include "detect/patterns/detectors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace slotscope {
namespace {

TEST(Detectors, AreInTheOrderOfTheirIdsAndEachHasItsSchema) {
  int last_id = 0;
  std::set<std::string> names;
  for (const Detector& detector : Detectors()) {
    const Pattern& pattern = *detector.pattern;
    EXPECT_GT(std::stoi(pattern.id), last_id) << pattern.name;
    last_id = std::stoi(pattern.id);
    EXPECT_TRUE(names.insert(pattern.name).second) << pattern.name;
    const std::string path = std::string("deploy/schemas/") + pattern.name + "_verdict.schema.json";
    std::ifstream file(path);
    ASSERT_TRUE(file) << "there is no " << path;
    EXPECT_EQ(nlohmann::json::parse(file)["properties"]["pattern.id"]["const"], pattern.id) << path;
  }
}

}  // namespace
}  // namespace slotscope
