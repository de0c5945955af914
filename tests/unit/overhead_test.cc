// SPDX-License-Identifier: MIT
#include "run/overhead.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace slotscope {
namespace {

using Step = OverheadGuard::Step;
constexpr double kLimit = 3;
constexpr OverheadLimit kThreePercent = {kLimit, 0, false}, kOrStop = {kLimit, 0, true};

// What it does, second by second: d0 d1 d2 d3 without rounds, counters, CUDA, causes of waits; u0 u1 ...
// with them again; stay, stop.
std::string Course(OverheadGuard* guard, const std::vector<double>& percents,
                   const std::function<bool(Step)>& has) {
  std::string course;
  for (double percent : percents) {
    const auto change = guard->OnSecond(percent, has);
    if (!change) continue;
    EXPECT_FALSE(change->text.empty());
    const std::string step = std::to_string(static_cast<int>(change->step));
    course += change->stop   ? "stop "
              : change->stay ? "stay "
                             : (change->without ? "d" : "u") + step + " ";
  }
  return course;
}

std::vector<double> Seconds(std::initializer_list<std::pair<size_t, double>> runs) {
  std::vector<double> percents;
  for (const auto& [nr, percent] : runs) percents.insert(percents.end(), nr, percent);
  return percents;
}

TEST(OverheadGuard, DoesWithoutAndGoesBack) {
  const auto all = [](Step) { return true; };
  const auto rounds_only = [](Step step) { return step == Step::kFastRounds; };
  const struct {
    const char* what;
    OverheadLimit limit;
    std::function<bool(Step)> has;
    std::vector<double> percents;
    std::string course;
  } cases[] = {
      {"never above", kThreePercent, all, Seconds({{99, 3}}), ""},
      {"a peak is no reason", kThreePercent, all, {9, 9, 1, 9, 9, 1, 9, 9}, ""},
      {"it helped", kThreePercent, all, Seconds({{3, 4}, {99, 2}}), "d0 "},
      {"each step gets its time", kThreePercent, all, Seconds({{5, 4}}), "d0 "},
      {"all of them, and it is said once", kThreePercent, all, Seconds({{99, 4}}),
       "d0 d1 d2 d3 d4 stay "},
      {"only what there is", kThreePercent, rounds_only, Seconds({{99, 4}}), "d0 stay "},
      {"or it stops", kOrStop, rounds_only, Seconds({{6, 4}}), "d0 stop "},
      {"back, the last one first", kThreePercent, all, Seconds({{6, 4}, {20, 1}}), "d0 d1 u1 u0 "},
      {"not before it is quiet for long", kThreePercent, all, Seconds({{3, 4}, {9, 1}, {1, 2}, {9, 1}}),
       "d0 "},
      {"a burst later", kThreePercent, all, Seconds({{3, 4}, {10, 1}, {70, 1}, {3, 4}, {10, 1}}),
       "d0 u0 d0 u0 "},
      {"too early: it waits twice as long", kThreePercent, all,
       Seconds({{3, 4}, {10, 1}, {3, 4}, {19, 1}}), "d0 u0 d0 "},
      {"and then goes back", kThreePercent, all, Seconds({{3, 4}, {10, 1}, {3, 4}, {20, 1}}),
       "d0 u0 d0 u0 "},
      {"an hour later it says so again", kThreePercent, rounds_only, Seconds({{3, 4}, {3'700, 4}}),
       "d0 stay stay "},
  };
  for (const auto& c : cases) {
    OverheadGuard guard(c.limit, 4);
    EXPECT_EQ(Course(&guard, c.percents, c.has), c.course) << c.what;
  }
}

// A load that is too much whenever it goes back.
TEST(OverheadGuard, WaitsLongerEachTimeUpToTenMinutes) {
  OverheadGuard guard(kThreePercent, 4);
  const auto all = [](Step) { return true; };
  std::vector<int> waits;
  while (waits.size() < 9) {
    ASSERT_EQ(Course(&guard, Seconds({{3, 4}}), all), "d0 ");
    int& seconds = waits.emplace_back(1);
    while (!guard.OnSecond(1, all) && seconds < 1'000) seconds++;
  }
  EXPECT_EQ(waits, (std::vector<int>{10, 20, 40, 80, 160, 320, 600, 600, 600}));
}

TEST(OverheadGuard, SaysWhatItTookAndWhatToDo) {
  OverheadGuard guard({2.5, 0, false}, 4);
  std::string last;
  const auto says = [&](const std::vector<double>& percents) {
    for (double percent : percents)
      if (auto change = guard.OnSecond(percent, [](Step) { return true; })) last = change->text;
    return last;
  };
  for (const char* hint :
       {"drained", "--events none", "--gpu off", "--no-waits", "--slot", "records on"}) {
    const std::string text = says({3, 3.1, 3.2});
    for (const std::string part : {"3.1%", "3 s", "--max-overhead 2.5%", hint})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_NE(says(Seconds({{9, 0.5}, {1, 1.2}})).find("at most 1.2% of all CPUs for 10 s"),
            std::string::npos)
      << last;
}

// On a large machine a small share is much.
TEST(OverheadLimit, IsTheSmallerOfBoth) {
  EXPECT_DOUBLE_EQ(OverheadLimit().PercentOf(2), 3);
  EXPECT_DOUBLE_EQ(OverheadLimit().PercentOf(128), 200.0 / 128);
  EXPECT_DOUBLE_EQ(kThreePercent.PercentOf(128), 3);
  EXPECT_EQ(OverheadLimit().Text(), "3%,2cpus");
  EXPECT_EQ((OverheadLimit{2.5, 0, true}).Text(), "2.5%,stop");
}

// No probes: what is left is this process, which is busy here.
TEST(OverheadMeter, MeasuresThisProcessOncePerSecond) {
  OverheadMeter meter([] { return uint64_t{0}; }, 2);
  constexpr uint64_t kSecondNs = 1'000'000'000;
  EXPECT_FALSE(meter.Poll(1 * kSecondNs)) << "the first look has nothing to compare with";
  EXPECT_FALSE(meter.Poll(1 * kSecondNs + kSecondNs / 2));
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 30'000'000; i++) sum = sum + i;
  ASSERT_TRUE(meter.Poll(2 * kSecondNs));
  EXPECT_GT(meter.percent(), 0);
  EXPECT_FALSE(meter.Poll(2 * kSecondNs + 1));
}

// What runs in the kernel for us is as much of it: a tenth of one of two CPUs.
TEST(OverheadMeter, CountsProbes) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  uint64_t probe_ns = 0;
  OverheadMeter meter([&] { return probe_ns; }, 2);
  EXPECT_FALSE(meter.Poll(1 * kSecondNs));
  probe_ns = kSecondNs / 10;
  ASSERT_TRUE(meter.Poll(2 * kSecondNs));
  EXPECT_GE(meter.percent(), 5);
  EXPECT_LT(meter.percent(), 10);
}

}  // namespace
}  // namespace slotscope
