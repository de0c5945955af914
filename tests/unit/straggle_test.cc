// SPDX-License-Identifier: MIT
// Who is said to straggle, second by second. A slot is 100 ms here, so a tick has ten.
#include "straggle/detector.h"

#include <gtest/gtest.h>

#include <cstring>

#include <string>
#include <vector>

#include "sinks/straggle_sink.h"
#include "tests/unit/go_on_anew.h"
#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

// In kEffortColumns.
constexpr size_t kCpuNsAt = 0, kWaitNsAt = 1, kLlcMissesAt = 2, kMbmTotalAt = 3;

constexpr uint64_t kSlotNs = 100'000'000;
constexpr uint64_t kSlots = StraggleDetector::kTickNs / kSlotNs;
constexpr ProcessKey kTrainer = {100, 7};

struct Taken : SlotSink {
  void OnSlot(Slot* slot) override {
    for (StraggleReport& report : slot->straggles) reports.push_back(report);
    for (const Row& row : slot->rows)
      if (row.key == kTrainer && row.gpu) last = slot->gpu[row.gpu - 1];
  }
  std::vector<StraggleReport> reports;
  GpuRow last;  // of the trainer
};

Row RowOf(ProcessKey key, const char* comm) {
  Row row;
  row.key = key;
  row.named = true;
  strncpy(row.comm.data(), comm, row.comm.size() - 1);
  return row;
}

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  // A second in which the trainer launched and was switched out so many times.
  void Second(uint64_t nr_launches, uint64_t nr_switches, bool measured = true) {
    for (uint64_t i = 0; i < kSlots; i++) {
      Slot slot;
      slot.start_ns = now_ns_;
      slot.end_ns = slot.start_ns + kSlotNs;
      now_ns_ += kSlotNs;
      Row row = RowOf(kTrainer, "trainer");
      // All of it in one slot: only the second counts.
      GpuRow gpu;
      gpu.values[kGpuLaunches] = i == 3 ? nr_launches : 0;
      row.sums[kSwitches] = i == 4 ? nr_switches : 0;
      row.sums[kWaitNs] = 10;
      row.sums[kLlcMisses] = 20;
      if (!measured && i == 5) gpu.unmeasured = 1u << kGpuLaunches;
      slot.gpu.push_back(gpu);
      row.gpu = 1;
      slot.rows = {RowOf({50, 1}, "noisy"), row, RowOf({200, 2}, "kworker")};
      slot.rows[0].sums[kCpuNs] = 1000;
      slot.wait_details = waits;
      slot.wait_causes = wait_causes;
      for (uint64_t cause = 0; cause < kNrWaitCauses; cause++) wait.ns[cause] += 1;
      slot.waits.push_back(wait);
      slot.rows[1].wait = 1;
      for (size_t at = 0; at < kNoWorkColumns.size(); at++)
        slot.gpu[0].values[kNoWorkColumns[at]->id] = 100 * (at + 1);
      detector_.OnSlot(&slot);
      GoOnAnew(&detector_, true, &taken_);
    }
  }
  // The trainer ends in its fourth slot, after so many launches and switches.
  void LastSecond(uint64_t nr_launches, uint64_t nr_switches) {
    for (uint64_t i = 0; i < kSlots; i++) {
      Slot slot;
      slot.start_ns = now_ns_;
      slot.end_ns = slot.start_ns + kSlotNs;
      now_ns_ += kSlotNs;
      if (i < 4) {
        Row row = RowOf(kTrainer, "trainer");
        slot.gpu.emplace_back();
        slot.gpu[0].values[kGpuLaunches] = i == 0 ? nr_launches : 0;
        row.sums[kSwitches] = i == 0 ? nr_switches : 0;
        row.gpu = 1;
        slot.rows = {row};
      }
      if (i == 3) slot.gpu_detail.ended = {kTrainer};
      detector_.OnSlot(&slot);
      GoOnAnew(&detector_, true, &taken_);
    }
  }
  // The trainer is not there any more.
  void EmptySecond() {
    for (uint64_t i = 0; i < kSlots; i++) {
      Slot slot;
      slot.start_ns = now_ns_;
      slot.end_ns = slot.start_ns + kSlotNs;
      now_ns_ += kSlotNs;
      detector_.OnSlot(&slot);
      GoOnAnew(&detector_, true, &taken_);
    }
  }
  // "i45.0 s46.0 r": the reports since the last call.
  std::string TakeReports() {
    std::string text;
    for (const StraggleReport& report : taken_.reports) {
      if (!text.empty()) text += ' ';
      text += "isr"[static_cast<size_t>(report.state)];
      text += std::to_string((report.drop_ppm + 5000) / 10'000);
    }
    taken_.reports.clear();
    return text;
  }
  // The trainer's columns in the last slot: "" if not known, else "0", "1" or "2".
  std::string straggle() const {
    return taken_.last.straggle == Straggle::kUnknown
               ? ""
               : std::to_string(static_cast<int>(taken_.last.straggle));
  }
  uint32_t drop_ppm() const { return taken_.last.drop_ppm; }
  const std::vector<StraggleReport>& reports() const { return taken_.reports; }
  const StraggleDetector& detector() const { return detector_; }

  std::vector<WaitDetail> waits;  // of each slot from now on
  WaitCauses wait_causes = kNoWaitCauses;
  WaitRow wait;  // the trainer's; of each cause a nanosecond more with each slot

 private:
  Taken taken_;
  StraggleDetector detector_{true, &taken_};
  uint64_t now_ns_ = 5'000'000'000;
};

// The first second is not a whole one, the next three make the baseline.
struct Trained : Machine {
  Trained() {
    for (int i = 0; i < 4; i++) Second(1000, 0);
  }
};

struct Case {
  uint64_t nr_launches, nr_switches;
  const char* reports;
};

TEST(Straggle, NeedsAThirdLessAndFiveSwitchesInOneSecond) {
  const Case cases[] = {
      {699, 5, "i30"}, {700, 5, ""}, {699, 4, ""}, {0, 5, "i100"}, {0, 0, ""}, {5000, 500, ""},
  };
  for (const Case& one : cases) {
    Trained machine;
    machine.Second(one.nr_launches, one.nr_switches);
    EXPECT_EQ(machine.TakeReports(), one.reports) << one.nr_launches << " launches, " << one.nr_switches;
  }
}

TEST(Straggle, OnlyTheFirstReportOfAnEpisodeIsInitial) {
  Trained machine;
  machine.Second(500, 9);
  EXPECT_EQ(machine.TakeReports(), "i50");
  machine.Second(400, 9);
  EXPECT_EQ(machine.TakeReports(), "s60") << "against the same baseline: it rests";
  machine.Second(990, 5);
  EXPECT_EQ(machine.TakeReports(), "s1") << "contention alone keeps it going";
  machine.Second(1200, 5);
  EXPECT_EQ(machine.TakeReports(), "s0") << "more than the baseline is no drop";
  machine.Second(1000, 4);
  EXPECT_EQ(machine.TakeReports(), "r0");
  machine.Second(1000, 4);
  EXPECT_EQ(machine.TakeReports(), "");
  machine.Second(500, 5);
  EXPECT_EQ(machine.TakeReports(), "i50") << "a new episode";
  EXPECT_EQ(machine.detector().nr_episodes(), 2u);
}

// Whoever shares its CPU is switched out all the time.
TEST(Straggle, IsOverWhenTheDropHasBeenGoneForThreeSeconds) {
  Trained machine;
  machine.Second(500, 50);
  machine.Second(950, 50);
  machine.Second(950, 50);
  EXPECT_EQ(machine.TakeReports(), "i50 s5 s5");
  machine.Second(600, 50);
  machine.Second(950, 50);
  machine.Second(950, 50);
  EXPECT_EQ(machine.TakeReports(), "s40 s5 s5") << "it came again: from then on three";
  machine.Second(950, 50);
  EXPECT_EQ(machine.TakeReports(), "r5");
  machine.Second(1000, 50);
  EXPECT_EQ(machine.TakeReports(), "");
  machine.Second(500, 50);
  EXPECT_EQ(machine.TakeReports(), "i50");
}

TEST(Straggle, ABaselineNeedsThreeWholeSeconds) {
  for (int nr_seconds = 1; nr_seconds <= 5; nr_seconds++) {
    Machine machine;
    for (int i = 0; i < nr_seconds; i++) machine.Second(1000, 0);
    machine.Second(100, 9);
    EXPECT_EQ(machine.TakeReports(), nr_seconds >= 4 ? "i90" : "") << nr_seconds;
  }
}

TEST(Straggle, TheBaselineFollowsByAFifthWithoutContention) {
  Trained machine;
  machine.Second(500, 0);  // 900
  machine.Second(500, 0);  // 820
  machine.Second(574, 9);
  EXPECT_EQ(machine.TakeReports(), "") << "574 of 820 is 30.0% less, not more";
  Trained other;
  other.Second(500, 0);
  other.Second(500, 0);
  other.Second(573, 9);
  EXPECT_EQ(other.TakeReports(), "i30");
}

TEST(Straggle, ItsBaselineFallsWhileItIsIdle) {
  Trained machine;
  for (int i = 0; i < 29; i++) machine.EmptySecond();
  machine.Second(0, 9);
  EXPECT_EQ(machine.TakeReports(), "i100") << "and is there";
}

TEST(Straggle, IsForgottenAfterThirtyIdleSeconds) {
  Trained machine;
  for (int i = 0; i < 30; i++) machine.EmptySecond();
  machine.Second(0, 9);
  EXPECT_EQ(machine.TakeReports(), "");
  for (int i = 0; i < 4; i++) machine.Second(1000, 0);
  machine.Second(500, 9);
  EXPECT_EQ(machine.TakeReports(), "i50") << "and is learned anew";
}

TEST(Straggle, ASecondInWhichCallsWereLostDecidesNothing) {
  Trained machine;
  machine.Second(100, 9, false);
  EXPECT_EQ(machine.TakeReports(), "");
  machine.Second(500, 9);
  EXPECT_EQ(machine.TakeReports(), "i50") << "the baseline is as it was";
  machine.Second(1000, 0, false);
  EXPECT_EQ(machine.TakeReports(), "") << "nor does it end an episode";
  machine.Second(500, 9);
  EXPECT_EQ(machine.TakeReports(), "s50");
}

TEST(Straggle, ThatAProcessEndsIsNone) {
  Trained machine;
  machine.LastSecond(400, 9);
  EXPECT_EQ(machine.TakeReports(), "") << "40% of a second's launches in 40% of it";
  Trained other;
  other.Second(500, 9);
  EXPECT_EQ(other.TakeReports(), "i50");
  other.LastSecond(100, 9);
  EXPECT_EQ(other.TakeReports(), "r50") << "but it ends an episode";
  other.EmptySecond();
  EXPECT_EQ(other.TakeReports(), "");
}

TEST(Straggle, WhatIsNotMeasuredIsNotShown) {
  Trained machine;
  machine.Second(500, 9);
  machine.Second(500, 9, false);
  EXPECT_EQ(machine.straggle(), "1");
  machine.Second(500, 9);
  EXPECT_EQ(machine.straggle(), "") << "in the second before calls were lost";
  machine.Second(500, 9);
  EXPECT_EQ(machine.straggle(), "2");
}

TEST(Straggle, RowsSayWhatTheLastTickDecided) {
  Machine machine;
  for (int i = 0; i < 5; i++) {
    machine.Second(1000, 0);
    EXPECT_EQ(machine.straggle(), "") << i;
  }
  machine.Second(500, 9);
  EXPECT_EQ(machine.straggle(), "0") << "it is over before it is judged";
  machine.Second(400, 9);
  EXPECT_EQ(machine.straggle(), "1");
  EXPECT_EQ(machine.drop_ppm(), 500'000u);
  machine.Second(1000, 0);
  EXPECT_EQ(machine.straggle(), "2");
  EXPECT_EQ(machine.drop_ppm(), 600'000u);
  machine.Second(1000, 0);
  EXPECT_EQ(machine.straggle(), "0");
}

WaitDetail WaitedFor(ProcessKey ran, uint64_t ns, uint32_t cpu = 0, ProcessKey waiter = kTrainer) {
  return {waiter, {}, kWaitOthers, ran, {}, cpu, 0, 0, ns, 1};
}

TEST(Straggle, TheEvidenceIsOfThatSecond) {
  Trained machine;
  WaitDetail own = WaitedFor({}, 90'000);
  own.cause = kWaitSelf;
  machine.waits = {WaitedFor({50, 1}, 300),
                   WaitedFor({200, 2}, 4000),
                   WaitedFor({200, 2}, 1000, 1),
                   WaitedFor({200, 1}, 200, 1),
                   own,
                   WaitedFor({50, 1}, 9, 0, {999, 1})};
  strcpy(machine.waits[0].ran_comm.data(), "noisy");
  machine.Second(500, 9);
  ASSERT_EQ(machine.reports().size(), 1u);
  const StraggleReport report = machine.reports()[0];  // more will come
  EXPECT_EQ(report.process, kTrainer);
  EXPECT_EQ(CommText(report.comm), "trainer");
  EXPECT_EQ(report.nr_switches, 9u);
  EXPECT_EQ(report.until_ns - report.since_ns, StraggleDetector::kTickNs);
  EXPECT_EQ(report.episode_ns, report.since_ns);
  EXPECT_EQ(report.launches_per_s, 500);
  EXPECT_EQ(report.baseline_per_s, 1000);
  EXPECT_EQ(report.effort.values[kWaitNsAt], 10 * kSlots);
  EXPECT_EQ(report.effort.values[kLlcMissesAt], 20 * kSlots);
  EXPECT_EQ(report.effort.unmeasured, 1u << kMbmTotalAt);
  EXPECT_TRUE(report.has_waits);
  ASSERT_EQ(report.ran_instead.size(), 3u) << "only those of this process";
  EXPECT_EQ(report.ran_instead[0].first, (ProcessKey{200, 2})) << "who ran longest comes first";
  EXPECT_EQ(report.ran_instead[0].second.ns, 5000 * kSlots) << "on both CPUs";
  EXPECT_EQ(report.ran_instead[1].first, (ProcessKey{50, 1}));
  EXPECT_EQ(CommText(report.ran_instead[1].second.comm), "noisy");
  EXPECT_EQ(report.ran_instead[1].second.effort.values[kCpuNsAt], 1000 * kSlots);
  EXPECT_EQ(report.ran_instead[2].first, (ProcessKey{200, 1})) << "its number had another one before";
  EXPECT_FALSE(report.ran_instead[2].second.has_row);
  machine.waits.clear();
  machine.Second(500, 9);
  EXPECT_TRUE(machine.reports()[1].ran_instead.empty());
  EXPECT_EQ(machine.reports()[1].episode_ns, report.episode_ns);
}

// Why it waited, and why its GPU had no work: sums of that second's slots, by cause.
TEST(Straggle, TheCausesAreOfThatSecond) {
  Trained machine;
  machine.wait_causes = kAllWaitCauses & ~(1u << kWaitSteal);
  machine.Second(1000, 1);  // what was before is not in it
  machine.wait = {};
  machine.wait.ns[kWaitOthers] = 1'000;
  machine.Second(500, 9);
  ASSERT_EQ(machine.reports().size(), 1u);
  const StraggleReport report = machine.reports()[0];
  // Each slot has one more than the one before.
  EXPECT_EQ(report.wait_causes.values[kWaitOthers], kSlots * 1'000 + kSlots * (kSlots + 1) / 2);
  EXPECT_EQ(report.wait_causes.values[kWaitWakeup], kSlots * (kSlots + 1) / 2);
  EXPECT_EQ(report.wait_causes.unmeasured, 1u << kWaitSteal);
  for (size_t at = 0; at < kNoWorkColumns.size(); at++)
    EXPECT_EQ(report.no_work.values[at], kSlots * 100 * (at + 1)) << kNoWorkColumns[at]->name;
  EXPECT_EQ(report.no_work.unmeasured, 0u);
}

TEST(Straggle, WhatOneWithoutARowDidIsNotKnown) {
  Trained machine;
  machine.waits = {WaitedFor({777, 1}, 300)};
  machine.Second(500, 9);
  ASSERT_EQ(machine.reports().size(), 1u);
  ASSERT_EQ(machine.reports()[0].ran_instead.size(), 1u);
  EXPECT_EQ(machine.reports()[0].ran_instead[0].second.ns, 300 * kSlots);
  EXPECT_EQ(machine.reports()[0].ran_instead[0].second.effort.unmeasured, kUnknownEffort.unmeasured);
}

TEST(Straggle, KeepsTheFirstNeighboursAndCountsTheOthers) {
  Trained machine;
  for (int32_t tgid = 1; tgid <= 70; tgid++) machine.waits.push_back(WaitedFor({1000 + tgid, 1}, 5));
  machine.Second(500, 9);
  ASSERT_EQ(machine.reports().size(), 1u);
  EXPECT_EQ(machine.reports()[0].ran_instead.size(), StraggleDetector::kMaxRanInstead);
  EXPECT_EQ(machine.reports()[0].left_out_ns, 5 * 6 * kSlots);
}

TEST(Straggle, IsWrittenAsJsonLines) {
  Slot slot;
  slot.unix_offset_ns = 1000;
  StraggleReport report = {};
  report.state = StraggleReport::State::kSustained;
  report.process = {42, 7};
  report.named = true;
  report.comm = {'t', '"', '\x1b', '\xff'};
  report.until_ns = 2'000'000'000;
  report.since_ns = 1'000'000'000;
  report.drop_ppm = 452'000;
  report.effort = {{1, 2, 3, 4}, 1u << kMbmTotalAt};
  report.no_work = {{9, 8, 1}, 1u << 3};
  slot.straggles = {report};
  report.has_waits = true;
  report.ran_instead = {{{9, 1}, {}}};
  report.ran_instead[0].second.ns = 5;
  slot.straggles.push_back(report);
  report.ran_instead.clear();  // nobody, or nobody knows who
  report.wait_causes.values[kWaitWakeup] = 50;
  report.wait_causes.values[kWaitUnknown] = 50;
  slot.straggles.push_back(report);
  report.wait_causes.values[kWaitUnknown] = 52;
  slot.straggles.push_back(report);
  TextFile file;
  StraggleSink sink(&file);
  sink.WriteHeader({{"host", "h"}, {"note", "a"}, {"note", "b"}});
  sink.OnSlot(slot);
  ASSERT_TRUE(sink.Finish().ok());
  const std::string told =
      R"({"state":"sustained","tgid":42,"start_time_ns":7,"comm":"t\"\u001b\ufffd",)"
      R"("episode_ns":0,"since_ns":1000000000,"until_ns":2000000000,"until_unix_ns":2000001000,)"
      R"("throughput_drop_pct":45.2,"launches_per_s":0.0,"baseline_launches_per_s":0.0,)"
      R"("switches":0,"cpu_ns":1,"wait_ns":2,"llc_misses":3,"mbm_total_bytes":null,"gpu_no_work_ns":9,"gpu_no_work_ran_ns":8,)"
      R"("gpu_no_work_waited_ns":1,"gpu_no_work_throttled_ns":null,"gpu_no_work_cuda_wait_ns":0,"gpu_no_work_disk_ns":0,)"
      R"("gpu_no_work_stopped_ns":0,"gpu_no_work_asleep_ns":0,"gpu_no_work_unknown_ns":0,"ran_instead":)";
  EXPECT_EQ(file.text, R"({"state":"header","host":"h","notes":["a","b"]})"
                       "\n" +
                           told + "null}\n" + told +
                           R"([{"tgid":9,"start_time_ns":1,"comm":null,"ran_instead_ns":5,"cpu_ns":0,)"
                           R"("wait_ns":0,"llc_misses":0,"mbm_total_bytes":0}]})"
                           "\n" +
                           told + "[]}\n" + told + "null}\n");
  EXPECT_EQ(sink.Contents(), "4 reports");
}

}  // namespace
}  // namespace slotscope
