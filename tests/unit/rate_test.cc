// SPDX-License-Identifier: MIT
#include "base/rate.h"

#include <gtest/gtest.h>

namespace slotscope {
namespace {

int TakeAll(Rate* rate, uint64_t now_ns) {
  int nr = 0;
  while (nr < 1000 && rate->Take(now_ns)) nr++;
  return nr;
}

TEST(Rate, SoManyAtOnceAndThenOneAPeriod) {
  Rate rate(3, 100);
  EXPECT_TRUE(rate.IsRested(1000));
  EXPECT_EQ(TakeAll(&rate, 1000), 3);
  EXPECT_FALSE(rate.IsRested(1000));
  EXPECT_EQ(TakeAll(&rate, 1099), 0);
  EXPECT_EQ(TakeAll(&rate, 1100), 1);
  EXPECT_EQ(TakeAll(&rate, 1350), 2);
  EXPECT_FALSE(rate.IsRested(1599));
  EXPECT_TRUE(rate.IsRested(1600));
  EXPECT_EQ(TakeAll(&rate, 1'000'000), 3) << "rest is not saved up";
}

TEST(Rate, AClockThatIsSetBackDoesNotEndIt) {
  Rate rate(1, 100);
  EXPECT_EQ(TakeAll(&rate, 1'000'000), 1);
  EXPECT_EQ(TakeAll(&rate, 50), 0);
  EXPECT_EQ(TakeAll(&rate, 150), 1);
}

}  // namespace
}  // namespace slotscope
