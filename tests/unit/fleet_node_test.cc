// SPDX-License-Identifier: MIT
// What is observed of a node, and what it tells its consumer.
#include "fleet/node.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fleet/observer.h"

namespace slotscope {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kS = 1'000'000'000;
constexpr Signals kGood = {1000, 0.9, 0.8, 0.8};
constexpr double kGoodScore = 0.4 + 0.25 * 0.9 + 0.2 * 0.8 + 0.15 * 0.8;
constexpr Signals kBad = {400, 0.9, 0.8, 0.8};

struct Judged {
  explicit Judged(bool is_judged = true)
      : node(
            {"node-7", "blue"}, 10 * kS, ThresholdAges(),
            is_judged ? FleetNode::ViewFn([this] { return view; }) : FleetNode::ViewFn(),
            [this](const std::string& line) { lines.push_back(Json::parse(line)); }, &news) {}

  NodeHealth Interval(std::optional<Signals> raw, int nr = 1, bool has_work = true) {
    for (int i = 0; i < nr; i++) {
      now_ns += 10 * kS;
      if (view.value && view.reachable && view.has_quorum) view.computed_ns = now_ns - kS;
      node.OnInterval({now_ns, 1'700'000'000'000'000'000, raw, has_work}, now_ns);
    }
    return node.health();
  }

  uint64_t now_ns = 1000 * kS;
  ThresholdView view = {true, true, 0.8, 0};
  std::vector<Json> lines;
  News news;
  FleetNode node;
};

TEST(Node, HasAScoreOnceItIsCalibrated) {
  Judged judged;
  NodeHealth health = judged.Interval(kGood, 29);
  EXPECT_EQ(health.phase, Phase::kCalibrating);
  EXPECT_FALSE(health.score);
  ASSERT_TRUE(health.judgement);
  EXPECT_EQ(health.judgement->mode, DetectionMode::kCalibrating);
  health = judged.Interval(kGood);
  EXPECT_EQ(health.phase, Phase::kActive);
  ASSERT_TRUE(health.score);
  EXPECT_NEAR(*health.score, kGoodScore, 1e-9);
  ASSERT_TRUE(health.baseline);
  EXPECT_NEAR((*health.baseline)[kSignalThroughput], 1000, 1e-6);
  EXPECT_EQ(health.is_degraded, false);
  ASSERT_TRUE(health.judgement);
  EXPECT_EQ(health.judgement->mode, DetectionMode::kFleet);
  EXPECT_TRUE(judged.lines.empty());
  EXPECT_EQ(health.name.node_id, "node-7");
}

TEST(Node, TellsThatItStragglesOnceAndThatItIsOverOnce) {
  Judged judged;
  judged.Interval(kGood, 40);
  NodeHealth health = judged.Interval(kBad, 100);  // it does not get used to that
  EXPECT_NEAR(*health.score, kGoodScore - 0.6 * 0.4, 1e-9);
  EXPECT_TRUE(health.is_straggler);
  ASSERT_EQ(judged.lines.size(), 1u);
  const Json& state = judged.lines[0];
  EXPECT_EQ(state.at("type"), "straggler_state");
  EXPECT_EQ(state.at("node_id"), "node-7");
  EXPECT_EQ(state.at("cluster_id"), "blue");
  EXPECT_NEAR(state.at("score").get<double>(), kGoodScore - 0.6 * 0.4, 1e-9);
  EXPECT_DOUBLE_EQ(state.at("threshold").get<double>(), 0.8);
  EXPECT_EQ(state.at("detection_mode"), "fleet");
  EXPECT_EQ(state.at("dominant_signal"), "throughput");
  EXPECT_EQ(state.at("timestamp"), "2023-11-14T22:37:20.000000000Z") << "when others had seen it, too";
  health = judged.Interval(kGood, 3);
  EXPECT_FALSE(health.is_straggler);
  EXPECT_EQ(health.nr_crossings, 1u);
  ASSERT_EQ(judged.lines.size(), 2u);
  EXPECT_EQ(judged.lines[1].at("type"), "straggler_resolved");
  EXPECT_EQ(judged.lines[1].size(), 4u);
  const std::vector<std::string> news = judged.news.Take();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_NE(
      news[0].find("straggles: its health 0.665 is below 0.800 (fleet); what fell most: throughput"),
      std::string::npos)
      << news[0];
}

TEST(Node, NamesTheSignalThatFellMost) {
  const struct {
    Signals raw;
    const char* dominant;
  } kCases[] = {
      {{1000, 0.2, 0.8, 0.8}, "compute"}, {{1000, 0.9, 0.1, 0.8}, "memory"},
      {{1000, 0.9, 0.8, 0.1}, "cpu"},     {{100, 0.7, 0.7, 0.7}, "throughput"},
      {{900, 0.2, 0.8, 0.8}, "compute"},
  };
  for (const auto& c : kCases) {
    Judged judged;
    judged.view.value = 0.84;
    judged.Interval(kGood, 40);
    judged.Interval(c.raw, 4);
    ASSERT_EQ(judged.lines.size(), 1u) << c.dominant;
    EXPECT_EQ(judged.lines[0].at("dominant_signal"), c.dominant);
  }
  Judged judged;  // nothing fell: the others are better
  judged.Interval(kGood, 40);
  judged.view.value = 0.95;
  judged.Interval(kGood, 4);
  ASSERT_EQ(judged.lines.size(), 1u);
  EXPECT_EQ(judged.lines[0].at("dominant_signal"), "unknown");
}

TEST(Node, WithoutAFleetIsHeldAgainstItself) {
  Judged judged;
  judged.view = {};
  NodeHealth health = judged.Interval(kGood, 60);
  ASSERT_TRUE(health.judgement);
  EXPECT_EQ(health.judgement->mode, DetectionMode::kLocalBaseline);
  EXPECT_NEAR(health.judgement->threshold, 0.85 * kGoodScore, 1e-9);
  EXPECT_TRUE(judged.lines.empty());
  judged.Interval(kBad);
  ASSERT_EQ(judged.lines.size(), 1u);
  EXPECT_EQ(judged.lines[0].at("detection_mode"), "local-baseline");
}

TEST(Node, KeepsAThresholdForAWhile) {
  Judged judged;
  judged.Interval(kGood, 40);
  judged.view.reachable = false;
  const struct {
    int intervals;
    DetectionMode mode;
  } kCases[] = {{1, DetectionMode::kFleet},  // 11 s old
                {1, DetectionMode::kLocalCached},
                {27, DetectionMode::kLocalCached},  // 291 s
                {1, DetectionMode::kLocalBaseline}};
  for (const auto& c : kCases)
    EXPECT_EQ(judged.Interval(kGood, c.intervals).judgement->mode, c.mode) << c.intervals;
  judged.view.reachable = true;
  EXPECT_EQ(judged.Interval(kGood).judgement->mode, DetectionMode::kFleet);
  EXPECT_TRUE(judged.lines.empty());
}

TEST(Node, WhatIsNotMeasuredIsNotJudged) {
  Judged judged;
  judged.Interval(kGood, 40);
  judged.Interval(kBad, 4);
  EXPECT_EQ(judged.lines.size(), 1u);
  NodeHealth health = judged.Interval({});
  EXPECT_EQ(health.phase, Phase::kActive);
  EXPECT_FALSE(health.score);
  EXPECT_FALSE(health.judgement);
  EXPECT_TRUE(health.is_straggler);
  EXPECT_EQ(judged.Interval({}, 2).phase, Phase::kStale);
  EXPECT_NE(judged.news.Take().back().find("was not measured"), std::string::npos);
  // Nobody knows whether it is over: it is once it works as its peers do.
  EXPECT_EQ(judged.Interval(kGood, 29).phase, Phase::kCalibrating);
  EXPECT_EQ(judged.lines.size(), 1u);
  health = judged.Interval(kGood);
  EXPECT_EQ(health.phase, Phase::kActive);
  ASSERT_TRUE(health.score);
  EXPECT_NEAR(*health.score, kGoodScore, 1e-9);
  ASSERT_EQ(judged.lines.size(), 2u);
  EXPECT_EQ(judged.lines[1].at("type"), "straggler_resolved");
}

TEST(Node, AHangIsStragglingUntilTheWorkIsOver) {
  Judged judged;
  judged.view = {};  // it is said at once
  judged.Interval(kGood, 40);
  const Signals kHangs = {0, 0, 0.8, 0.8};
  EXPECT_TRUE(judged.Interval(kHangs).is_straggler);
  NodeHealth health = judged.Interval(kHangs, 100);
  EXPECT_EQ(health.phase, Phase::kIdle);
  EXPECT_FALSE(health.score);
  EXPECT_TRUE(health.is_straggler);
  EXPECT_TRUE(health.has_been_judged);
  EXPECT_EQ(judged.lines.size(), 1u);
  health = judged.Interval(kHangs, 2, false);  // somebody killed it
  EXPECT_FALSE(health.is_straggler);
  ASSERT_EQ(judged.lines.size(), 2u);
  EXPECT_EQ(judged.lines[1].at("type"), "straggler_resolved");
  EXPECT_EQ(health.nr_messages, 2u);
}

TEST(Node, AHangAmongPeersThatWorkIsStraggling) {
  const Signals kHangs = {0, 0, 0.8, 0.8};
  Judged judged;
  judged.Interval(kGood, 40);
  EXPECT_EQ(judged.Interval(kHangs, 3).phase, Phase::kIdle);
  EXPECT_TRUE(judged.lines.empty()) << "the others may hang, too";
  EXPECT_TRUE(judged.Interval(kHangs, 3).is_straggler);
  ASSERT_EQ(judged.lines.size(), 1u);
  EXPECT_EQ(judged.lines[0].at("detection_mode"), "fleet");
  EXPECT_FALSE(judged.node.health().score);

  Judged all;
  all.Interval(kGood, 40);
  all.Interval(kHangs, 2);
  all.view.has_quorum = false;  // who is idle has no score
  EXPECT_FALSE(all.Interval(kHangs, 30).is_straggler);
  all.view.has_quorum = true;  // a new job, on other nodes
  EXPECT_FALSE(all.Interval(kHangs, 30).is_straggler);
  EXPECT_TRUE(all.lines.empty());
}

// They write a checkpoint. The threshold follows, later.
TEST(Node, WhenAllNodesDropNoneStraggles) {
  Judged judged;
  judged.Interval(kGood, 40);
  judged.Interval(kBad, 2);
  judged.view.value = 0.6;
  EXPECT_FALSE(judged.Interval(kBad, 20).is_straggler);
  judged.view.value = 0.8;
  judged.Interval(kGood, 3);
  EXPECT_FALSE(judged.Interval(kBad, 2).is_straggler) << "it begins to wait anew";
  EXPECT_TRUE(judged.lines.empty());
}

TEST(Node, WithoutAFleetGetsUsedToOtherWork) {
  Judged judged;
  judged.view = {};
  judged.Interval(kGood, 40);
  EXPECT_TRUE(judged.Interval(kBad, 30).is_straggler);
  EXPECT_FALSE(judged.Interval(kBad, 30).is_straggler);
  EXPECT_EQ(judged.lines.size(), 2u);
}

TEST(Node, NobodyAskedForAJudgement) {
  Judged judged(false);
  NodeHealth health = judged.Interval(kGood, 40);
  EXPECT_TRUE(health.score);
  EXPECT_FALSE(health.judgement);
  judged.Interval(kBad, 5);
  EXPECT_TRUE(judged.lines.empty());
}

// ---- the observer

constexpr uint64_t kMs = 1'000'000;

struct Observed : SlotSink {
  void OnSlot(Slot*) override { nr_slots++; }
  // A slot of 1 ms on two CPUs, one of them idle.
  static Slot Make(uint64_t at_ms) {
    Slot slot;
    slot.start_ns = at_ms * kMs;
    slot.end_ns = slot.start_ns + kMs;
    slot.unix_offset_ns = 5;
    Row idle, process;
    idle.kind = RowKind::kIdle;
    idle.sums[kCpuNs] = kMs;
    process.sums[kCpuNs] = kMs;
    process.gpu = 1;
    slot.rows = {idle, process};
    GpuRow gpu;
    gpu.values[kGpuLaunches] = 3;
    gpu.values[kGpuActiveNs] = kMs / 2;
    slot.gpu = {gpu};
    slot.gpu_detail.parts = {{{42, 1}, {}, 0, kUnknownGpu, gpu}};
    return slot;
  }
  void Add(Slot slot) { observer.OnSlot(&slot); }
  void Run(uint64_t from_ms, uint64_t until_ms) {
    for (uint64_t ms = from_ms; ms < until_ms; ms++) Add(Make(ms));
  }

  std::vector<Observation> seen;
  std::optional<double> headroom = 0.25;
  int nr_slots = 0;
  NodeObserver observer{100 * kMs, [this] { return headroom; },
                        [this](const Observation& observation) { seen.push_back(observation); }, this};
};

TEST(NodeObserver, SumsIntervalsOfSlots) {
  Observed observed;
  observed.Run(7, 307);
  EXPECT_EQ(observed.nr_slots, 300);
  ASSERT_EQ(observed.seen.size(), 3u);
  EXPECT_EQ(observed.seen[0].end_ns, 107 * kMs);
  EXPECT_EQ(observed.seen[2].end_ns, 307 * kMs);
  EXPECT_EQ(observed.seen[0].unix_offset_ns, 5);
  ASSERT_TRUE(observed.seen[1].raw);
  const Signals expected = {3000, 0.5, 0.25, 0.5};
  for (size_t i = 0; i < kNrSignals; i++)
    EXPECT_NEAR((*observed.seen[1].raw)[i], expected[i], 1e-9) << kSignalNames[i];
}

TEST(NodeObserver, ComputeIsOfTheGpusThatWereUsed) {
  Observed observed;
  for (uint64_t ms = 0; ms < 200; ms++) {
    Slot slot = Observed::Make(ms + 1);
    GpuTotal busy = {}, idle = {};
    busy.gpu = 0;
    busy.row.values[kGpuActiveNs] = kMs;
    idle.gpu = 1;
    idle.row.values[kGpuActiveNs] = ms < 20 ? kMs : 0;  // later it waits for the other one
    slot.gpu_detail.totals = {busy, idle};
    slot.gpu_detail.parts[0].gpu = 0;
    slot.gpu_detail.parts[0].row = busy.row;
    slot.gpu_detail.parts.push_back({{42, 1}, {}, 1, 1, idle.row});
    observed.Add(slot);
  }
  ASSERT_EQ(observed.seen.size(), 2u);
  EXPECT_NEAR((*observed.seen[0].raw)[kSignalCompute], 0.6, 1e-9);
  EXPECT_NEAR((*observed.seen[1].raw)[kSignalCompute], 0.5, 1e-9);
}

// Whose devices are whose is not always known; the processes know how long they had work.
TEST(NodeObserver, AnUnknownTotalIsWhatItsPartsSay) {
  Observed observed;
  for (uint64_t ms = 0; ms < 100; ms++) {
    Slot slot = Observed::Make(ms + 1);
    GpuTotal total = {};
    total.gpu = 0;
    total.row.unmeasured = 1u << kGpuActiveNs;
    slot.gpu_detail.totals = {total};
    slot.gpu_detail.parts[0].gpu = 0;
    observed.Add(slot);
  }
  ASSERT_EQ(observed.seen.size(), 1u);
  ASSERT_TRUE(observed.seen[0].raw);
  EXPECT_NEAR((*observed.seen[0].raw)[kSignalCompute], 0.5, 1e-9);
}

TEST(NodeObserver, OneUnmeasuredSlotIsAnUnmeasuredInterval) {
  const struct {
    const char* what;
    void (*change)(Slot*);
  } kCases[] = {
      {"launches", [](Slot* slot) { slot->gpu_detail.parts[0].row.unmeasured = 1u << kGpuLaunches; }},
      {"activity", [](Slot* slot) { slot->gpu_detail.parts[0].row.unmeasured = 1u << kGpuActiveNs; }},
  };
  for (const auto& c : kCases) {
    Observed observed;
    observed.Run(1, 50);
    Slot slot = Observed::Make(50);
    c.change(&slot);
    observed.Add(slot);
    observed.Run(51, 201);
    ASSERT_EQ(observed.seen.size(), 2u) << c.what;
    EXPECT_FALSE(observed.seen[0].raw) << c.what;
    EXPECT_TRUE(observed.seen[1].raw) << c.what;
  }
  Observed observed;
  observed.headroom.reset();
  observed.Run(1, 101);
  ASSERT_EQ(observed.seen.size(), 1u);
  EXPECT_FALSE(observed.seen[0].raw);
}

// Only then is it known that both are one.
TEST(NodeObserver, AGpuThatBecomesKnownIsNotTwo) {
  Observed observed;
  for (uint64_t ms = 0; ms < 200; ms++) {
    Slot slot = Observed::Make(ms + 1);
    slot.gpu_detail.parts[0].gpu = ms < 30 ? kUnknownGpu : 0;
    observed.Add(slot);
  }
  ASSERT_EQ(observed.seen.size(), 2u);
  EXPECT_NEAR((*observed.seen[1].raw)[kSignalCompute], 0.5, 1e-9);
}

TEST(NodeObserver, ProcessesThatComeAndGoAreNotMany) {
  Observed observed;
  for (uint64_t ms = 0; ms < 300; ms++) {
    Slot slot = Observed::Make(ms + 1);
    slot.gpu_detail.parts[0].process = {static_cast<int32_t>(100 + ms / 100), 1};
    if (ms % 100 == 99) slot.gpu_detail.ended = {slot.gpu_detail.parts[0].process};
    observed.Add(slot);
  }
  ASSERT_EQ(observed.seen.size(), 3u);
  for (const Observation& one : observed.seen) {
    EXPECT_NEAR((*one.raw)[kSignalCompute], 0.5, 1e-9);
    EXPECT_FALSE(one.has_work);
  }
}

// Rows also have what another producer says.
TEST(NodeObserver, WhatIsJoinedIsNotObserved) {
  Observed observed;
  for (uint64_t ms = 0; ms < 100; ms++) {
    Slot slot = Observed::Make(ms + 1);
    slot.gpu_detail.parts.clear();
    slot.gpu[0].unmeasured = ~0u;
    observed.Add(slot);
  }
  ASSERT_EQ(observed.seen.size(), 1u);
  ASSERT_TRUE(observed.seen[0].raw);
  EXPECT_EQ((*observed.seen[0].raw)[kSignalThroughput], 0);
}

TEST(NodeObserver, AGapIsNoInterval) {
  Observed observed;
  observed.Run(1, 41);
  observed.Run(5001, 5101);  // the machine slept
  ASSERT_EQ(observed.seen.size(), 1u);
  EXPECT_FALSE(observed.seen[0].raw);
  EXPECT_EQ(observed.seen[0].end_ns, 5002 * kMs);
}

TEST(NodeObserver, AMachineWithoutAGpuLaunchesNothing) {
  Observed observed;
  for (uint64_t ms = 1; ms < 101; ms++) {
    Slot slot = Observed::Make(ms);
    slot.rows[1].gpu = 0;
    slot.gpu.clear();
    slot.gpu_detail.parts.clear();
    observed.Add(slot);
  }
  ASSERT_EQ(observed.seen.size(), 1u);
  ASSERT_TRUE(observed.seen[0].raw);
  EXPECT_EQ((*observed.seen[0].raw)[kSignalThroughput], 0);
}

}  // namespace
}  // namespace slotscope
