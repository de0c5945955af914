// SPDX-License-Identifier: MIT
#include "slots/cut.h"

#include <gtest/gtest.h>

#include <random>

namespace slotscope {
namespace {

ss_measure MeasureOf(uint64_t start_ns, uint64_t end_ns, uint32_t flags) {
  ss_measure measure = {};
  measure.hdr.ts_ns = end_ns;
  measure.start_ns = start_ns;
  measure.flags = flags;
  return measure;
}

TEST(Cut, SharesByTimeAndTheLastGetsWhatRemains) {
  const ss_measure measure = MeasureOf(100, 400, 0);
  const Sums whole = {300, 7, 2, 1, 1000, 100, 1, 300, 200};
  Cut cut(measure, whole);
  EXPECT_EQ(cut.TakeUntil(200), (Sums{100, 7, 0, 0, 333, 33, 0, 100, 66}));
  EXPECT_EQ(cut.TakeUntil(300), (Sums{100, 0, 0, 0, 333, 33, 0, 100, 67}));
  EXPECT_EQ(cut.left(), (Sums{100, 0, 2, 1, 334, 34, 1, 100, 67}));
  EXPECT_EQ(cut.TakeUntil(400), (Sums{100, 0, 2, 1, 334, 34, 1, 100, 67}));
  EXPECT_EQ(cut.left(), Sums{});
}

TEST(Cut, CountsThatATickBringsWereBeforeIt) {
  const ss_measure measure = MeasureOf(100, 400, SS_MEASURE_TICK);
  const Sums whole = {300, 7, 2, 1, 0, 0, 0, 0, 0};
  Cut cut(measure, whole);
  EXPECT_EQ(cut.TakeUntil(399), (Sums{299, 7, 2, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(cut.left(), (Sums{1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Cut, PiecesAddUpHoweverLargeTheyAre) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; i++) {
    const uint64_t start_ns = random() >> 2, duration_ns = 1 + (random() >> (random() % 62 + 2));
    const ss_measure measure =
        MeasureOf(start_ns, start_ns + duration_ns, random() % 2 ? SS_MEASURE_TICK : 0);
    Sums whole;
    for (uint64_t& sum : whole) sum = random() >> random() % 64;
    whole[kCpuNs] = duration_ns;
    Cut cut(measure, whole);
    Sums added = {};
    for (uint64_t part = random() % duration_ns / 4; part < duration_ns; part += 1 + duration_ns / 3)
      Add(&added, cut.TakeUntil(start_ns + part));
    Add(&added, cut.left());
    EXPECT_EQ(added, whole) << start_ns << " " << duration_ns;
  }
}

}  // namespace
}  // namespace slotscope
