// SPDX-License-Identifier: MIT
// Objects in a stream of JSON.
#include "detect/inputs/json_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace slotscope {
namespace {

using testing::ElementsAre;

std::vector<std::string> Split(std::string_view stream, size_t chunk, uint64_t* nr_malformed) {
  JsonTexts texts(100);
  std::vector<std::string> found;
  while (!stream.empty()) {
    texts.Feed(stream.substr(0, chunk), [&](std::string_view one) { found.emplace_back(one); });
    stream.remove_prefix(std::min(chunk, stream.size()));
  }
  *nr_malformed = texts.nr_malformed();
  return found;
}

TEST(JsonTexts, OnePerLineOrOverManyLines) {
  for (size_t chunk : {1u, 3u, 1000u}) {
    uint64_t nr_malformed;
    EXPECT_THAT(Split("{\"a\":1}\n{\"b\":\"}\\\"{\"}\n\n{\n  \"c\": [{\n  }]\n}\n{\"d\":{}}{\"e\":2}",
                      chunk, &nr_malformed),
                ElementsAre("{\"a\":1}", "{\"b\":\"}\\\"{\"}", "{\n  \"c\": [{\n  }]\n}", "{\"d\":{}}",
                            "{\"e\":2}"));
    EXPECT_EQ(nr_malformed, 0u);
  }
}

TEST(JsonTexts, WhatIsCutOffDoesNotTakeTheNextOneWithIt) {
  uint64_t nr_malformed;
  EXPECT_THAT(Split("{\"a\":{\"b\n{\"c\":1}\n{\"d\":[1,\n{\"e\":2}\n", 1000, &nr_malformed),
              ElementsAre("{\"c\":1}", "{\"e\":2}"));
  EXPECT_EQ(nr_malformed, 2u);
}

TEST(JsonTexts, WhatIsTooLongIsLeftOut) {
  uint64_t nr_malformed;
  EXPECT_THAT(Split("{\"a\":\"" + std::string(200, 'x') + "\"}\n{\"b\":1}\n", 7, &nr_malformed),
              ElementsAre("{\"b\":1}"));
  EXPECT_EQ(nr_malformed, 1u);
}

TEST(JsonTexts, OtherTextIsCountedByLine) {
  uint64_t nr_malformed;
  EXPECT_THAT(Split("error: the server is away\n{\"a\":1}\n---\n", 1000, &nr_malformed),
              ElementsAre("{\"a\":1}"));
  EXPECT_EQ(nr_malformed, 2u);
}

}  // namespace
}  // namespace slotscope
