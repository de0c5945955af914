// SPDX-License-Identifier: MIT
#include "run/overhead.h"

#include <gtest/gtest.h>

#include <vector>

namespace slotscope {
namespace {

using Step = OverheadGuard::Step;
constexpr double kLimit = 3;

TEST(OverheadGuard, StepsDownAfterThreeSecondsOnEndAboveTheLimit) {
  const struct {
    const char* what;
    bool has_counters;
    std::vector<double> percents;
    std::vector<Step> steps;  // those that are not kNone
  } cases[] = {
      {"never above", true, {0, 2.9, 3, 3, 3, 3, 3}, {}},
      {"a peak is no reason", true, {9, 9, 1, 9, 9, 1, 9, 9}, {}},
      {"one step", true, {4, 4, 4}, {Step::kSlowRounds}},
      {"it helped", true, {4, 4, 4, 2, 2, 2, 2, 2}, {Step::kSlowRounds}},
      {"each step gets its time", true, {4, 4, 4, 4, 4}, {Step::kSlowRounds}},
      {"all", true, std::vector<double>(9, 4), {Step::kSlowRounds, Step::kNoCounters, Step::kStop}},
      {"nothing to do without", false, std::vector<double>(6, 4), {Step::kSlowRounds, Step::kStop}},
      {"nothing after the stop", false, std::vector<double>(30, 99), {Step::kSlowRounds, Step::kStop}},
  };
  for (const auto& c : cases) {
    OverheadGuard guard(kLimit, c.has_counters);
    std::vector<Step> steps;
    for (double percent : c.percents)
      if (Step step = guard.OnSecond(percent); step != Step::kNone) steps.push_back(step);
    EXPECT_EQ(steps, c.steps) << c.what;
  }
}

TEST(OverheadGuard, SaysWhatItDoesAndWhy) {
  OverheadGuard guard(2.5, true);
  for (Step step : {Step::kSlowRounds, Step::kNoCounters, Step::kStop}) {
    std::string text = guard.Text(step, 3.14);
    EXPECT_NE(text.find("3.1%"), std::string::npos) << text;
    EXPECT_NE(text.find("--max-overhead 2.5"), std::string::npos) << text;
  }
  EXPECT_NE(guard.Text(Step::kStop, 4).find("stops"), std::string::npos);
}

// No programs and hardly a message: what is left is this process, which is busy here.
TEST(OverheadMeter, MeasuresThisProcessOncePerSecond) {
  OverheadMeter meter({}, 2, kLimit);
  constexpr uint64_t kSecondNs = 1'000'000'000;
  EXPECT_FALSE(meter.Poll(1 * kSecondNs, 0)) << "the first look has nothing to compare with";
  EXPECT_FALSE(meter.Poll(1 * kSecondNs + kSecondNs / 2, 0));
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 30'000'000; i++) sum = sum + i;
  ASSERT_TRUE(meter.Poll(2 * kSecondNs, 10));
  EXPECT_GT(meter.percent(), 0);
  EXPECT_FALSE(meter.Poll(2 * kSecondNs + 1, 10));
}

}  // namespace
}  // namespace slotscope
