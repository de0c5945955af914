// SPDX-License-Identifier: MIT
#include "cuda/reading_budget.h"

#include <gtest/gtest.h>

namespace slotscope {
namespace {

constexpr uint64_t kS = 1'000'000'000;
constexpr int32_t kA = 7, kB = 8;

TEST(ReadingBudget, WhoTakesLongWaitsForHisOwnAlone) {
  ReadingBudget budget;
  EXPECT_TRUE(budget.Allows(kA, 0));
  budget.Took(kA, kS / 2, 100 * kS);
  EXPECT_TRUE(budget.Allows(kA, 100 * kS)) << "a framework of many libraries";
  budget.Took(kA, kS / 2 + 1, 100 * kS);
  EXPECT_FALSE(budget.Allows(kA, 100 * kS));
  EXPECT_TRUE(budget.Allows(kB, 100 * kS));
  EXPECT_TRUE(budget.Allows(kA, 100 * kS + 2 * ReadingBudget::kShare));
  EXPECT_FALSE(budget.Allows(kA, 99 * kS)) << "a clock that went back pays nothing";
}

// For ever: one part in so many of the time.
TEST(ReadingBudget, ASteadyReaderHasItsShare) {
  ReadingBudget budget;
  uint64_t took_ns = 0;
  for (uint64_t now_ns = kS; now_ns < 1001 * kS; now_ns += kS / 100)
    if (budget.Allows(kA, now_ns)) {
      budget.Took(kA, kS / 2, now_ns);
      took_ns += kS / 2;
    }
  const uint64_t share_ns = 1000 * kS / ReadingBudget::kShare;
  EXPECT_GE(took_ns, share_ns);
  EXPECT_LE(took_ns, share_ns + 2 * ReadingBudget::kBurstNs);
}

TEST(ReadingBudget, WhatIsPaidIsForgotten) {
  ReadingBudget budget;
  budget.Took(kA, 5 * kS, kS);
  budget.Settle(kS + 5 * kS * ReadingBudget::kShare - 1);
  EXPECT_FALSE(budget.Allows(kA, kS));
  budget.Settle(kS + 5 * kS * ReadingBudget::kShare);
  EXPECT_TRUE(budget.Allows(kA, kS));
}

}  // namespace
}  // namespace slotscope
