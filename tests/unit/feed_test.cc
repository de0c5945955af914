// SPDX-License-Identifier: MIT
// What a consumer is told of slots, and what not.
#include "remediate/feed.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace slotscope {
namespace {

using Json = nlohmann::json;

GpuDevice DeviceOf(uint32_t index, int32_t instance, uint64_t total_bytes) {
  GpuDevice device;
  device.index = index;
  device.instance = instance;
  device.total_bytes = total_bytes;
  return device;
}

struct Told : SlotSink {
  explicit Told(std::vector<GpuDevice> gpus)
      : feed(
            std::move(gpus), [this](const std::string& line) { lines.push_back(Json::parse(line)); },
            [this] {
              nr_unheard += !is_heard;
              return is_heard;
            },
            &news, this) {}
  void OnSlot(Slot*) override { nr_slots++; }
  void Balance(const GpuBalance& balance) {
    Slot slot;
    slot.unix_offset_ns = 1'000'000;
    slot.gpu_detail.balances = {balance};
    feed.OnSlot(&slot);
  }
  void Straggle(StraggleReport::State state,
                std::vector<std::pair<ProcessKey, RanInstead>> ran_instead = {}) {
    Straggle(state, std::move(ran_instead), {});
  }
  void Straggle(StraggleReport::State state, std::vector<std::pair<ProcessKey, RanInstead>> ran_instead,
                StraggleReport report) {
    Slot slot;
    slot.unix_offset_ns = -5;
    report.state = state;
    report.process = {42, 1};
    if (report.until_ns == 0) report.until_ns = 1005;
    report.drop_ppm = 452'000;
    report.nr_switches = 12;
    report.ran_instead = std::move(ran_instead);
    slot.straggles = {report};
    feed.OnSlot(&slot);
  }

  std::vector<Json> lines;
  News news;
  int nr_slots = 0;
  bool is_heard = true;
  uint64_t nr_unheard = 0;
  RemediateFeed feed;
};

GpuBalance BalanceOn(int32_t gpu, int32_t device) {
  return {1000, {42, 1}, {'t'}, device, gpu, 500, 400, true, false};
}

TEST(Feed, MemoryIsOfTheMachinesGpu) {
  Told told({DeviceOf(0, -1, 1000), DeviceOf(7, -1, 2000), DeviceOf(7, 1, 800)});
  told.Balance(BalanceOn(1, 0));
  ASSERT_EQ(told.lines.size(), 1u);
  EXPECT_EQ(told.lines[0],
            Json::parse(R"({"type":"memory","pid":42,"comm":"t","gpu_id":7,)"
                        R"("allocated_bytes":500,"total_vram":2000,"utilization_pct":25.0,)"
                        R"("last_alloc_size":400,"timestamp_ns":1001000})"));
  told.Balance(BalanceOn(2, 0));
  EXPECT_EQ(told.lines[1].at("gpu_id"), 7) << "an instance is on its GPU";
  EXPECT_EQ(told.lines[1].at("total_vram"), 800) << "and has its own memory";
  EXPECT_EQ(told.nr_slots, 2) << "slots go on";
  EXPECT_TRUE(told.news.Take().empty());
}

TEST(Feed, AGpuThatIsNotKnown) {
  Told two({DeviceOf(0, -1, 1000), DeviceOf(1, -1, 1000)});
  two.Balance(BalanceOn(kUnknownGpu, 1));
  EXPECT_TRUE(two.lines.empty()) << "a wrong number is worse than none";
  EXPECT_EQ(two.feed.stats().nr_unknown_gpu, 1u);
  EXPECT_EQ(two.news.Take().size(), 1u);

  Told one({DeviceOf(3, -1, 1000)});
  one.Balance(BalanceOn(kUnknownGpu, kUnknownDevice));
  ASSERT_EQ(one.lines.size(), 1u);
  EXPECT_EQ(one.lines[0].at("gpu_id"), 3) << "there is no other";
  GpuBalance again = BalanceOn(0, 0);
  again.again = true;
  one.Balance(again);
  EXPECT_EQ(one.lines.size(), 1u) << "and it has been told";
  two.Balance(again);
  ASSERT_EQ(two.lines.size(), 1u);
  EXPECT_EQ(two.lines[0].at("gpu_id"), 0) << "now it is known";

  Told none({});
  none.Balance(BalanceOn(kUnknownGpu, 2));
  ASSERT_EQ(none.lines.size(), 1u);
  EXPECT_EQ(none.lines[0].at("gpu_id"), 2) << "without NVML the process's own number";
  EXPECT_EQ(none.lines[0].at("total_vram"), 0);
  EXPECT_EQ(none.lines[0].at("utilization_pct"), 0.0);
  EXPECT_EQ(none.news.Take().size(), 2u) << "and it is said that both are not known";
}

TEST(Feed, MemoryThatIsNotKnown) {
  Told told({DeviceOf(0, -1, 1000)});
  GpuBalance balance = BalanceOn(0, 0);
  balance.complete = false;
  told.Balance(balance);
  told.Balance(balance);
  EXPECT_EQ(told.lines.size(), 2u) << "a lower bound is told";
  EXPECT_EQ(told.news.Take().size(), 1u) << "and once, that it is one";
  balance.missed = true;
  told.Balance(balance);
  EXPECT_EQ(told.lines.size(), 2u) << "what says nothing is not";
  EXPECT_EQ(told.feed.stats().nr_unknown_balance, 1u);
  EXPECT_EQ(told.news.Take().size(), 1u);
}

TEST(Feed, DevicesThatAreOneGpuAreAddedUp) {
  Told told({DeviceOf(0, -1, 1000)});
  told.Balance(BalanceOn(0, 0));
  told.Balance(BalanceOn(kUnknownGpu, kUnknownDevice));
  ASSERT_EQ(told.lines.size(), 2u);
  EXPECT_EQ(told.lines[1].at("allocated_bytes"), 1000) << "both are on it";
  GpuBalance gone = BalanceOn(0, 0);
  gone.bytes = 0;
  told.Balance(gone);
  EXPECT_EQ(told.lines[2].at("allocated_bytes"), 500);
}

TEST(Feed, WithoutAListenerNothingIsMade) {
  Told told({DeviceOf(0, -1, 1000)});
  told.is_heard = false;
  told.Balance(BalanceOn(0, 0));
  EXPECT_TRUE(told.lines.empty());
  EXPECT_EQ(told.nr_unheard, 1u);
  EXPECT_EQ(told.feed.stats().nr_memory, 1u);
}

TEST(Feed, StraggleKeepsItsEventIdForAnEpisode) {
  using State = StraggleReport::State;
  Told told({});
  told.Straggle(State::kInitial, {{{6789, 1}, {}}});
  told.Straggle(State::kSustained);
  told.Straggle(State::kResolved);
  told.Straggle(State::kInitial);
  ASSERT_EQ(told.lines.size(), 3u) << "an end is not told: messages cease";
  const Json& first = told.lines[0];
  EXPECT_EQ(first.at("pid"), 42);
  EXPECT_EQ(first.at("throughput_drop_pct"), 45.2);
  EXPECT_EQ(first.at("sched_switch_count"), 12);
  EXPECT_EQ(first.at("preempting_pids"), Json({6789}));
  EXPECT_EQ(first.at("timestamp_ns"), 1000);
  EXPECT_EQ(first.at("sustained"), false);
  EXPECT_FALSE(first.contains("comm")) << "it is not known";
  EXPECT_EQ(told.lines[1].at("sustained"), true);
  EXPECT_EQ(told.lines[1].at("event_id"), first.at("event_id"));
  EXPECT_EQ(told.lines[2].at("sustained"), false);
  EXPECT_NE(told.lines[2].at("event_id"), first.at("event_id"));
}

// Of a second in which it waited for 200 ms, for two others and its quota.
StraggleReport Waiting(uint64_t others_ms, uint64_t throttled_ms) {
  constexpr uint64_t kMs = 1'000'000;
  StraggleReport report = {};
  report.effort.values[1] = (others_ms + throttled_ms) * kMs;
  report.wait_causes.values[kWaitOthers] = others_ms * kMs;
  report.wait_causes.values[kWaitThrottled] = throttled_ms * kMs;
  report.since_ns = 1'005;
  report.until_ns = 1'000'001'005;
  report.no_work = {{500, 100, 300, 50, 20, 10, 5, 15, 0}, 0};
  return report;
}
std::vector<std::pair<ProcessKey, RanInstead>> Ran(uint64_t first_ms, uint64_t second_ms) {
  std::vector<std::pair<ProcessKey, RanInstead>> ran = {{{6789, 1}, {}}, {{6790, 1}, {}}};
  ran[0].second = {true, {'h', 'o', 'g'}, first_ms * 1'000'000, {}, false, 0};
  ran[1].second.ns = second_ms * 1'000'000;
  return ran;
}

TEST(Feed, StraggleSaysWhyAndWhoIsToBlame) {
  const auto told_of = [](const StraggleReport& report,
                          std::vector<std::pair<ProcessKey, RanInstead>> ran) {
    Told told({});
    told.Straggle(StraggleReport::State::kInitial, std::move(ran), report);
    return told.lines.at(0);
  };
  Json line = told_of(Waiting(180, 20), Ran(100, 80));
  EXPECT_EQ(line.at("wait_ns"), 200'000'000);
  EXPECT_EQ(line.at("wait_cause"), "others");
  EXPECT_EQ(line.at("culprit_pid"), 6789);
  EXPECT_EQ(line.at("culprit_comm"), "hog");
  EXPECT_EQ(line.at("culprit_ns"), 100'000'000);
  EXPECT_EQ(line.at("gpu_no_work_ns"), 500);
  EXPECT_EQ(line.at("gpu_no_work_cause"), "waited");
  line = told_of(Waiting(180, 20), Ran(89, 88));
  EXPECT_FALSE(line.contains("culprit_pid")) << "most of it while somebody else ran";
  EXPECT_EQ(line.at("preempting_pids"), Json({6789, 6790}));
  line = told_of(Waiting(99, 0), Ran(99, 0));
  EXPECT_FALSE(line.contains("culprit_pid")) << "it hardly waited";
  EXPECT_EQ(line.at("wait_cause"), "others");
  line = told_of(Waiting(20, 180), Ran(20, 0));
  EXPECT_EQ(line.at("wait_cause"), "throttled");
  EXPECT_FALSE(line.contains("culprit_pid")) << "it was its quota";
  StraggleReport unknown = Waiting(180, 20);
  unknown.effort.unmeasured = 1u << 1;
  unknown.no_work.unmeasured = 1;
  line = told_of(unknown, Ran(180, 0));
  for (const char* name : {"wait_ns", "wait_cause", "culprit_pid", "gpu_no_work_ns"})
    EXPECT_FALSE(line.contains(name)) << name;
  StraggleReport never_waits = Waiting(180, 20);
  never_waits.no_work = {};
  EXPECT_FALSE(told_of(never_waits, {}).contains("gpu_no_work_ns")) << "not visible from the host";
}

}  // namespace
}  // namespace slotscope
