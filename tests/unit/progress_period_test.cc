// SPDX-License-Identifier: MIT
#include "cli/progress_period.h"

#include <gtest/gtest.h>

namespace slotscope {
namespace {

size_t NrLinesIn(uint64_t ns) {
  size_t nr = 0;
  for (uint64_t at_ns = PlainProgressNs(0); at_ns <= ns; at_ns += PlainProgressNs(at_ns)) nr++;
  return nr;
}

// A line every two seconds is 43,200 a day.
TEST(PlainProgress, DoesNotFloodAJournal) {
  constexpr uint64_t kHourNs = 3'600'000'000'000;
  EXPECT_EQ(NrLinesIn(8'000'000'000), 4u);
  EXPECT_NEAR(NrLinesIn(24 * kHourNs), 55, 10);
  EXPECT_NEAR(NrLinesIn(30 * 24 * kHourNs), 750, 50);
}

}  // namespace
}  // namespace slotscope
