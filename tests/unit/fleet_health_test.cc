// SPDX-License-Identifier: MIT
// A node's score, what it is used to, and when there is anything to say of it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "fleet/health.h"
#include "fleet/judgement.h"
#include "fleet/memory_headroom.h"
#include "fleet/node_phase.h"

namespace slotscope {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(HealthScore, WeighsItsSignals) {
  EXPECT_DOUBLE_EQ(std::accumulate(kSignalWeights.begin(), kSignalWeights.end(), 0.0), 1.0);
  const struct {
    const char* what;
    Signals signals;
    double score;
  } kCases[] = {
      {"all is well", {1, 1, 1, 1}, 1},
      {"throughput", {0.5, 1, 1, 1}, 0.8},
      {"compute", {1, 0.5, 1, 1}, 0.875},
      {"memory", {1, 1, 0.5, 1}, 0.9},
      {"cpu", {1, 1, 1, 0.5}, 0.925},
      {"more than all is all", {7, 1, 1, 1}, 1},
      {"less than nothing is nothing", {1, 1, 1, -1}, 0.85 * 0.5},
      {"the worst is just good enough", {1, 1, 1, 0.35}, 0.9025},
      {"half way down", {1, 1, 1, 0.3}, (0.85 + 0.045) * 0.75},
      {"at the bottom", {1, 1, 1, 0.25}, (0.85 + 0.0375) * 0.5},
      {"deeper pulls no more", {1, 1, 1, 0.1}, (0.85 + 0.015) * 0.5},
      {"no number", {kNan, 1, 1, 1}, 0.3},
      {"not even a finite one", {1, kInfinity, 1, 1}, 0.375},
      {"nothing", {0, 0, 0, 0}, 0},
  };
  for (const auto& c : kCases) EXPECT_NEAR(HealthScore(c.signals), c.score, 1e-12) << c.what;
}

TEST(Ema, IsNotPulledTowardsZeroAtItsBeginning) {
  Ema ema(0.1);
  EXPECT_EQ(ema.value(), 0);
  ema.Add(100);
  EXPECT_DOUBLE_EQ(ema.value(), 100);
  ema.Add(200);
  EXPECT_NEAR(ema.value(), (0.1 * 200 + 0.09 * 100) / 0.19, 1e-9);
  for (int i = 0; i < 200; i++) ema.Add(50);
  EXPECT_NEAR(ema.value(), 50, 1e-6);
  ema.Add(kNan);  // nothing
  EXPECT_NEAR(ema.value(), 45, 1e-6);
  ema.Reset();
  EXPECT_EQ(ema.value(), 0);
}

TEST(Baseline, ASlowDeclineIsSeenAgainstHowItWasLongAgo) {
  Baseline baseline;
  const Signals kGood = {1000, 0.8, 0.6, 0.7};
  for (uint32_t i = 1; i < Baseline::kWarmup; i++) baseline.Add(kGood);
  baseline.Add({0, 0, 0, 0});
  for (int i = 0; i < 5; i++) baseline.Add({400, 0.8, 0.6, 0.7});
  EXPECT_FALSE(baseline.IsDegraded());
  for (int i = 0; i < 20; i++) baseline.Add({400, 0.8, 0.6, 0.7});
  EXPECT_NEAR(baseline.fast()[kSignalThroughput], 400, 80);
  EXPECT_GT(baseline.slow()[kSignalThroughput], 600);
  EXPECT_FALSE(baseline.IsDegraded());
  for (int i = 0; i < 30; i++) baseline.Add({200, 0.8, 0.6, 0.7});
  EXPECT_TRUE(baseline.IsDegraded());
  baseline.Reset();
  EXPECT_FALSE(baseline.IsDegraded());
  EXPECT_EQ(baseline.nr_samples(), 0u);
}

TEST(Baseline, WhatWasNeverThereCannotDecline) {
  Baseline baseline;
  for (int i = 0; i < 100; i++) baseline.Add({1000, 0.009, 0.6, 0.7});
  for (int i = 0; i < 100; i++) baseline.Add({1000, 0, 0.6, 0.7});
  EXPECT_FALSE(baseline.IsDegraded());
}

// A letter per interval: L launches, 0 does not, ? is not measured; and the phase after it.
TEST(NodePhase, FollowsWhatIsLaunched) {
  const struct {
    const char* what;
    std::string intervals;
    Phase phase;
    bool is_sample;
  } kCases[] = {
      {"the beginning", "", Phase::kCalibrating, false},
      {"29 samples", std::string(29, 'L'), Phase::kCalibrating, true},
      {"30 samples", std::string(30, 'L'), Phase::kActive, true},
      {"nothing is no sample before it works", "0L0" + std::string(28, 'L'), Phase::kCalibrating, true},
      {"two without", std::string(30, 'L') + "00", Phase::kActive, true},
      {"three without", std::string(30, 'L') + "000", Phase::kIdle, false},
      {"never any", "000", Phase::kIdle, false},
      {"two without, twice", std::string(30, 'L') + "00L00", Phase::kActive, true},
      {"begun again", std::string(30, 'L') + "000L", Phase::kCalibrating, true},
      {"and used to it again", std::string(30, 'L') + "000" + std::string(30, 'L'), Phase::kActive,
       true},
      {"two not measured", std::string(30, 'L') + "??", Phase::kActive, false},
      {"three not measured", std::string(30, 'L') + "???", Phase::kStale, false},
      {"measured in between", std::string(30, 'L') + "??L??", Phase::kActive, false},
      {"measured again", std::string(30, 'L') + "???L", Phase::kCalibrating, true},
      {"measured again, nothing there", std::string(30, 'L') + "???0", Phase::kIdle, false},
      {"not measured while idle", "000???", Phase::kStale, false},
      {"not measured does not wake", "000??", Phase::kIdle, false},
  };
  for (const auto& c : kCases) {
    NodePhase phase;
    for (char letter : c.intervals)
      phase.OnInterval(letter == '?' ? std::nullopt : std::optional(letter == 'L' ? 7.0 : 0.0));
    EXPECT_EQ(phase.phase(), c.phase) << c.what;
    EXPECT_EQ(phase.is_sample(), c.is_sample) << c.what;
  }
}

TEST(NodePhase, BeginsAnewOnce) {
  NodePhase phase;
  int nr_begun = 0;
  for (char letter : "L" + std::string(40, 'L') + "0000LL???LL") {
    phase.OnInterval(letter == '?' ? std::nullopt : std::optional(letter == 'L' ? 7.0 : 0.0));
    nr_begun += phase.has_begun_anew();
  }
  EXPECT_EQ(nr_begun, 3);
}

TEST(Crossing, OfAScoreThatTremblesIsOne) {
  using Edge = Crossing::Edge;
  Crossing crossing;
  const struct {
    double score, threshold;
    Edge edge;
  } kCases[] = {
      {0.90, 0.80, Edge::kNone},         {0.80, 0.80, Edge::kNone},  // not below
      {0.7999999999, 0.80, Edge::kNone},                             // but for rounding
      {0.79, 0.80, Edge::kDown},         {0.10, 0.80, Edge::kNone},
      {0.80, 0.80, Edge::kNone},         {0.815, 0.80, Edge::kNone},  // not yet back
      {0.82, 0.80, Edge::kUp},  // 0.80 + 0.02 is more than 0.82, by rounding
      {0.801, 0.80, Edge::kNone},        {0.799, 0.80, Edge::kDown},
      {0.799, 0.75, Edge::kUp},  // the threshold came down
  };
  int i = 0;
  for (const auto& c : kCases) EXPECT_EQ(crossing.OnScore(c.score, c.threshold), c.edge) << i++;
  EXPECT_FALSE(crossing.is_below());
}

TEST(MemoryHeadroom, IsOfMeminfo) {
  const struct {
    const char* what;
    const char* text;
    std::optional<double> expected;
  } kCases[] = {
      {"as it is", "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n", 0.25},
      {"an old kernel", "MemTotal: 16000 kB\nMemFree: 1 kB\n", {}},
      {"nothing", "", {}},
      {"no number", "MemTotal: many kB\nMemAvailable: 1 kB\n", {}},
      {"no machine", "MemTotal: 0 kB\nMemAvailable: 0 kB\n", {}},
      {"more than there is", "MemTotal: 10 kB\nMemAvailable: 11 kB\n", {}},
      {"cut off", "MemTotal: 10 kB\nMemAvailable:", {}},
  };
  for (const auto& c : kCases) EXPECT_EQ(MemoryHeadroom(c.text), c.expected) << c.what;
  const auto now = ReadMemoryHeadroom();
  ASSERT_TRUE(now);
  EXPECT_GT(*now, 0);
  EXPECT_LE(*now, 1);
}

}  // namespace
}  // namespace slotscope
