// SPDX-License-Identifier: MIT
#include "sinks/lines_sink.h"

#include <gtest/gtest.h>

#include <string>

#include "text_file.h"

namespace slotscope {
namespace {

TEST(LinesSink, WhatComesBehindTheEndIsRefused) {
  TextFile file;
  LinesSink sink(&file, "");
  EXPECT_EQ(sink.Put("a\n"), LinesSink::Taken::kYes);
  sink.OnSlot({});
  EXPECT_TRUE(sink.End()) << "all of it has been taken";
  EXPECT_EQ(sink.Put("b\n"), LinesSink::Taken::kEnded);
  EXPECT_TRUE(sink.Finish().ok());
  EXPECT_EQ(file.text, "a\n");
}

TEST(LinesSink, WhatNobodyHasTakenAtTheEndIsSaid) {
  TextFile file;
  LinesSink sink(&file, "");
  EXPECT_EQ(sink.Put("a\n"), LinesSink::Taken::kYes);
  EXPECT_FALSE(sink.End());
}

TEST(LinesSink, ThereIsRoomForSoMuch) {
  TextFile file;
  LinesSink sink(&file, "");
  size_t nr = 0;
  while (sink.Put(std::string(1u << 16, 'x') + "\n") == LinesSink::Taken::kYes && nr < 10'000) nr++;
  EXPECT_LT(nr, 10'000u);
  EXPECT_EQ(sink.Put("y\n"), LinesSink::Taken::kYes) << "a short one still fits";
  sink.OnSlot({});
  EXPECT_EQ(sink.Put(std::string(1u << 16, 'x') + "\n"), LinesSink::Taken::kYes);
}

}  // namespace
}  // namespace slotscope
