// SPDX-License-Identifier: MIT
#include "base/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace slotscope {
namespace {

// A failure, asked about at each event of a flood of them.
TEST(Backoff, IsNotTriedAtEachEvent) {
  Backoff backoff(50, 300);
  std::vector<uint64_t> tries;
  for (uint64_t now = 1'000; now < 2'200; now++) {
    if (!backoff.IsDue(now)) continue;
    EXPECT_EQ(backoff.Fail(now), tries.empty()) << "said once";
    tries.push_back(now);
  }
  EXPECT_EQ(tries, (std::vector<uint64_t>{1'000, 1'050, 1'150, 1'350, 1'650, 1'950}));
  backoff.Succeed();
  EXPECT_TRUE(backoff.IsDue(2'200));
  EXPECT_TRUE(backoff.Fail(2'200));
  EXPECT_FALSE(backoff.IsDue(2'249));
  EXPECT_TRUE(backoff.IsDue(2'250)) << "as at first";
}

TEST(Backoff, MayBeOfOneLength) {
  Backoff backoff(100, 100);
  for (uint64_t now = 0; now < 1'000; now += 100) {
    EXPECT_TRUE(backoff.IsDue(now));
    backoff.Fail(now);
    EXPECT_FALSE(backoff.IsDue(now + 99));
  }
}

}  // namespace
}  // namespace slotscope
