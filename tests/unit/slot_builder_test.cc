// SPDX-License-Identifier: MIT
// From measures to slots, by hand-made measures. Slots here are 100 ns long and the window is 400 ns, so
// that the numbers can be checked by looking at them.
#include "slots/slot_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace slotscope {
namespace {

constexpr uint64_t kSlotNs = 100;
constexpr uint64_t kWindowNs = 400;

class Recorder final : public SlotSink {
 public:
  void OnSlot(Slot* slot) override { slots.push_back(*slot); }
  std::vector<Slot> slots;
};

class Build {
 public:
  explicit Build(std::vector<int> cpus, bool needs_dump = false, uint64_t slot_ns = kSlotNs,
                 uint64_t window_ns = kWindowNs)
      : builder({slot_ns, window_ns, cpus, needs_dump, 0}, &sink) {
    for (int cpu : cpus) builder.OnExpected(cpu);
  }

  template <typename Message>
  void SendState(Message message, uint16_t type, bool late = false) {
    message.hdr.type = type;
    message.hdr.size = sizeof(message);
    ss_any_message any = {};
    std::memcpy(static_cast<void*>(&any), &message, sizeof(message));
    builder.OnMessage(any, late);
  }
  void SendAsItIs(ss_measure measure) {
    measure.hdr.type = SS_MEASURE;
    measure.hdr.size = sizeof(measure);
    builder.OnMeasure(measure);
  }
  void Send(ss_measure measure) {
    measure.seq = seq_[measure.hdr.cpu]++;
    SendAsItIs(measure);
  }
  void CpuState(uint32_t cpu, uint64_t ts_ns, bool online) {
    ss_cpu_state state = {};
    state.hdr.ts_ns = ts_ns;
    state.hdr.cpu = cpu;
    state.online = online;
    builder.OnCpuState(state);
  }
  void Meta(ProcessKey key, uint64_t ts_ns, const char* comm, bool late = false) {
    ss_task_meta meta = {};
    meta.hdr.ts_ns = ts_ns;
    meta.tgid = key.tgid;
    meta.start_time_ns = key.start_time_ns;
    strncpy(meta.comm, comm, sizeof(meta.comm) - 1);
    SendState(meta, SS_TASK_META, late);
  }
  void Rmid(uint16_t type, uint32_t rmid, uint32_t generation, ProcessKey key, uint64_t ts_ns) {
    ss_rmid_event event = {};
    event.hdr.ts_ns = ts_ns;
    event.rmid = rmid;
    event.generation = generation;
    event.tgid = key.tgid;
    event.start_time_ns = key.start_time_ns;
    SendState(event, type);
  }
  void LoseSeq(uint32_t cpu) { seq_[cpu]++; }

  const Slot* SlotAt(uint64_t start_ns) const {
    for (const Slot& slot : sink.slots)
      if (slot.start_ns == start_ns) return &slot;
    return nullptr;
  }
  const Row* Find(uint64_t start_ns, const std::function<bool(const Row&)>& is_it) const {
    const Slot* slot = SlotAt(start_ns);
    if (!slot) return nullptr;
    auto found = std::find_if(slot->rows.begin(), slot->rows.end(), is_it);
    return found == slot->rows.end() ? nullptr : &*found;
  }
  const Row* Process(uint64_t start_ns, int32_t tgid) const {
    return Find(start_ns, [&](const Row& row) {
      return row.kind != RowKind::kLost && row.kind != RowKind::kOffline && row.key.tgid == tgid;
    });
  }
  uint64_t Cpu(uint64_t start_ns, int32_t tgid) const {
    const Row* row = Process(start_ns, tgid);
    return row ? row->sums[kCpuNs] : 0;
  }
  uint64_t Kind(uint64_t start_ns, RowKind kind) const {
    const Row* row = Find(start_ns, [&](const Row& one) { return one.kind == kind; });
    return row ? row->sums[kCpuNs] : 0;
  }
  uint64_t Lost(uint64_t start_ns) const { return Kind(start_ns, RowKind::kLost); }
  uint64_t Offline(uint64_t start_ns) const { return Kind(start_ns, RowKind::kOffline); }
  std::vector<uint64_t> Starts() const {
    std::vector<uint64_t> starts;
    for (const Slot& slot : sink.slots) starts.push_back(slot.start_ns);
    return starts;
  }

  Recorder sink;
  SlotBuilder builder;

 private:
  std::map<uint32_t, uint32_t> seq_;
};

using Starts = std::vector<uint64_t>;

ss_measure Measure(uint32_t cpu, uint64_t start_ns, uint64_t end_ns, int32_t tgid) {
  ss_measure measure = {};
  measure.hdr.ts_ns = end_ns;
  measure.hdr.cpu = cpu;
  measure.start_ns = start_ns;
  measure.tgid = tgid;
  measure.start_time_ns = 1;
  measure.rmid = tgid > 0 ? static_cast<uint32_t>(tgid) : 0;
  measure.generation = 1;
  for (ss_counter& counter : measure.counters) counter = {0, end_ns - start_ns, end_ns - start_ns};
  if (start_ns == end_ns)
    for (ss_counter& counter : measure.counters) counter = {0, 1, 1};
  return measure;
}

// Accounted for, in the run and in each slot.
void ExpectIdentity(const Build& build, size_t nr_cpus, uint64_t slot_ns = kSlotNs) {
  EXPECT_TRUE(build.builder.accounting().Holds());
  for (const Slot& slot : build.sink.slots) {
    uint64_t sum = 0;
    for (const Row& row : slot.rows) sum += row.sums[kCpuNs];
    EXPECT_EQ(sum, slot_ns * nr_cpus) << "slot " << slot.start_ns;
  }
}

TEST(SlotBuilder, CutsTimeAndCountersInProportionAndGivesTheLastPieceTheRemainder) {
  Build build({0});
  build.Send(Measure(0, 900, 1000, 7));
  ss_measure measure = Measure(0, 1000, 1270, 7);  // 100 + 100 + 70
  measure.counters[0] = {1000, 270, 135};          // 370.4, 370.4, rest
  measure.counters[1] = {2, 270, 270};             // 0.74 -> 0, 1.48 -> 1, rest
  measure.counters[2] = {UINT64_MAX, 270, 270};
  build.Send(measure);
  build.Send(Measure(0, 1270, 1400, 8));
  build.builder.Finish();
  ASSERT_EQ(build.Starts(), Starts({1000, 1100, 1200, 1300}));
  const struct {
    uint64_t start_ns, cpu_ns, cycles, instructions, enabled_ns, running_ns;
  } cases[] = {
      {1000, 100, 370, 0, 100, 50},
      {1100, 100, 370, 1, 100, 50},
      {1200, 70, 260, 1, 70, 35},
  };
  uint64_t misses = 0;
  for (const auto& c : cases) {
    const Row* row = build.Process(c.start_ns, 7);
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->sums[kCpuNs], c.cpu_ns) << c.start_ns;
    EXPECT_EQ(row->sums[kCycles], c.cycles) << c.start_ns;
    EXPECT_EQ(row->sums[kInstructions], c.instructions) << c.start_ns;
    EXPECT_EQ(row->sums[kEnabledNs], c.enabled_ns) << c.start_ns;
    EXPECT_EQ(row->sums[kRunningNs], c.running_ns) << c.start_ns;
    misses += row->sums[kLlcMisses];
  }
  EXPECT_EQ(misses, UINT64_MAX) << "no bit is lost on the way";
  ExpectIdentity(build, 1);
}

TEST(SlotBuilder, CountsAreInTheSlotOfTheSwitchAndWaitsInTheSlotOfTheStart) {
  const struct {
    uint64_t start_ns, end_ns;
    uint32_t flags;
    uint64_t counts_ns, wait_ns;  // the slots that they belong to
  } cases[] = {
      {1000, 1099, 0, 1000, 1000},
      {1000, 1100, 0, 1000, 1000},
      {1000, 1101, 0, 1100, 1000},
      {1050, 1250, 0, 1200, 1000},
      {1000, 1300, 0, 1200, 1000},
      {1000, 1101, SS_MEASURE_TICK, 1000, 1000},  // the tick came a little after the border
      {1050, 1250, SS_MEASURE_TICK, 1000, 1000},
      {1050, 1050, 0, 1000, 1000},  // of no length: all in the slot of the nanosecond before
      {1100, 1100, 0, 1000, 1000},
      {1101, 1101, 0, 1100, 1100},
  };
  for (const auto& c : cases) {
    Build build({0});
    build.Send(Measure(0, 900, 1000, 9));
    if (c.start_ns > 1000) build.Send(Measure(0, 1000, c.start_ns, 9));
    ss_measure measure = Measure(0, c.start_ns, c.end_ns, 7);
    measure.flags |= c.flags;
    measure.switches = 5;
    measure.preemptions = 2;
    measure.wait_ns = 12345;
    build.Send(measure);
    build.Send(Measure(0, c.end_ns, 1400, 9));
    build.builder.Finish();
    for (const Slot& slot : build.sink.slots) {
      const Row* row = build.Process(slot.start_ns, 7);
      Sums sums = row ? row->sums : Sums{};
      EXPECT_EQ(sums[kSwitches], slot.start_ns == c.counts_ns ? 5u : 0u)
          << c.start_ns << " " << c.end_ns << " " << slot.start_ns;
      EXPECT_EQ(sums[kPreemptions], slot.start_ns == c.counts_ns ? 2u : 0u)
          << c.start_ns << " " << c.end_ns;
      EXPECT_EQ(sums[kWaitNs], slot.start_ns == c.wait_ns ? 12345u : 0u)
          << c.start_ns << " " << c.end_ns;
    }
    ExpectIdentity(build, 1);
  }
}

TEST(SlotBuilder, AGapIsLost) {
  Build build({0});
  build.Send(Measure(0, 900, 1000, 7));
  build.Send(Measure(0, 1000, 1080, 7));
  build.LoseSeq(0);
  build.Send(Measure(0, 1210, 1300, 7));
  build.builder.Finish();
  EXPECT_EQ(build.Lost(1000), 20u);
  EXPECT_EQ(build.Lost(1100), 100u);
  EXPECT_EQ(build.Lost(1200), 10u);
  EXPECT_EQ(build.Cpu(1200, 7), 90u);
  EXPECT_EQ(build.builder.stats().nr_seq_gaps, 1u);
  EXPECT_EQ(build.builder.accounting().lost_ns, 130u);
  ExpectIdentity(build, 1);
}

TEST(SlotBuilder, TimeWithAMissedSwitchIsLostAndItsCountsAreNobodys) {
  Build build({0});
  build.CpuState(0, 0, true);
  build.Send(Measure(0, 0, 130, 7));
  ss_measure unknown = Measure(0, 130, 170, 0);
  unknown.flags |= SS_MEASURE_UNKNOWN | SS_MEASURE_TICK;
  unknown.switches = 5;
  build.Send(unknown);
  build.Send(Measure(0, 170, 300, 8));
  build.builder.OnWatermark(1000);
  EXPECT_EQ(build.Cpu(100, 7), 30u);
  EXPECT_EQ(build.Lost(100), 40u);
  EXPECT_EQ(build.Cpu(100, 8), 30u);
  EXPECT_EQ(build.builder.stats().nr_missed_switches, 1u);
  EXPECT_EQ(build.builder.stats().nr_seq_gaps, 0u);
  build.builder.Finish();
  EXPECT_EQ(build.builder.accounting().received[kSwitches],
            build.builder.accounting().written[kSwitches]);
  EXPECT_TRUE(build.builder.accounting().Holds());
}

TEST(SlotBuilder, SeqWrapsWithoutAGap) {
  Build build({0});
  ss_measure measure = Measure(0, 900, 1000, 7);
  measure.seq = UINT32_MAX;
  build.SendAsItIs(measure);
  measure = Measure(0, 1000, 1100, 7);
  measure.seq = 0;
  build.SendAsItIs(measure);
  EXPECT_EQ(build.builder.stats().nr_seq_gaps, 0u);
}

TEST(SlotBuilder, TimeBetweenOffAndOnIsOffline) {
  Build build({0, 1});
  for (uint32_t cpu : {0u, 1u}) build.Send(Measure(cpu, 900, 1000, 7));
  build.Send(Measure(0, 1000, 1500, 7));
  build.Send(Measure(1, 1000, 1130, 8));
  build.CpuState(1, 1150, false);  // 20 ns that nobody measured
  build.CpuState(1, 1320, true);
  build.Send(Measure(1, 1325, 1500, 8));
  build.builder.Finish();
  ASSERT_EQ(build.Starts(), Starts({1000, 1100, 1200, 1300, 1400}));
  EXPECT_EQ(build.Lost(1100), 20u);
  EXPECT_EQ(build.Offline(1100), 50u);
  EXPECT_EQ(build.Offline(1200), 100u);
  EXPECT_EQ(build.Offline(1300), 20u);
  EXPECT_EQ(build.Lost(1300), 5u);
  EXPECT_EQ(build.builder.accounting().offline_ns, 170u);
  ExpectIdentity(build, 2);
}

TEST(SlotBuilder, ACpuThatIsNotExpectedIsOfflineUntilItSpeaks) {
  Build build({0});
  SlotBuilder builder({kSlotNs, kWindowNs, {0, 1}, false, 0}, &build.sink);
  builder.OnExpected(0);
  auto send = [&](ss_measure measure) {
    measure.hdr.type = SS_MEASURE;
    builder.OnMeasure(measure);
  };
  send(Measure(0, 900, 1000, 7));
  send(Measure(0, 1000, 1100, 7));
  builder.OnWatermark(1100);
  send(Measure(1, 1150, 1300, 8));
  send(Measure(0, 1100, 1300, 7));
  builder.Finish();
  EXPECT_EQ(build.Offline(1000), 100u);
  EXPECT_EQ(build.Offline(1100), 50u);
  EXPECT_EQ(build.Cpu(1100, 8), 50u);
  EXPECT_EQ(build.Offline(1200), 0u);
  EXPECT_EQ(builder.stats().nr_unwatched, 0u);
  EXPECT_TRUE(builder.accounting().Holds());
}

TEST(SlotBuilder, AnExpectedCpuThatStaysSilentIsNotWaitedForLongerThanAWindow) {
  Build build({0, 1});
  build.Send(Measure(0, 900, 1000, 7));
  for (uint64_t at_ns = 1000; at_ns < 2000; at_ns += 100) {
    build.Send(Measure(0, at_ns, at_ns + 100, 7));
    build.builder.OnWatermark(at_ns + 100);
    EXPECT_EQ(build.sink.slots.empty(), at_ns + 100 <= 1000 + kWindowNs) << at_ns;
  }
  EXPECT_EQ(build.builder.stats().nr_unwatched, 1u);
  EXPECT_EQ(build.Offline(1100), 100u);
  build.builder.Finish();
  ExpectIdentity(build, 2);
}

TEST(SlotBuilder, PiecesOfARetiredSlotAreLateAndTheirTimeIsLost) {
  Build build({0, 1});
  for (uint32_t cpu : {0u, 1u}) build.Send(Measure(cpu, 900, 1000, 7));
  build.Send(Measure(0, 1000, 2000, 7));
  build.builder.OnWatermark(1600);  // 1000 and 1100 retire
  ASSERT_EQ(build.Starts(), Starts({1000, 1100}));
  EXPECT_EQ(build.Lost(1000), 100u);
  ss_measure measure = Measure(1, 1000, 1400, 8);
  measure.counters[0].delta = 400;
  measure.switches = 1;
  build.Send(measure);
  build.Send(Measure(1, 1400, 2000, 8));
  build.builder.Finish();
  EXPECT_EQ(build.builder.stats().nr_late_pieces, 1u);
  EXPECT_EQ(build.builder.accounting().late[kCpuNs], 200u);
  EXPECT_EQ(build.builder.accounting().late[kCycles], 200u);
  EXPECT_EQ(build.builder.accounting().late[kSwitches], 0u) << "the count is in the slot of its end";
  EXPECT_EQ(build.Cpu(1200, 8), 100u) << "what is in an open slot is used";
  EXPECT_EQ(build.Process(1300, 8)->sums[kSwitches], 1u);
  EXPECT_EQ(build.Lost(1200), 0u);
  ExpectIdentity(build, 2);
}

TEST(SlotBuilder, WhatIsBehindTheCursorIsNotCountedTwice) {
  for (bool first_is_fixed : {false, true}) {
    Build build({0});
    build.Send(Measure(0, 900, 1000, 7));
    if (first_is_fixed) build.builder.OnWatermark(1000);
    build.Send(Measure(0, 1000, 1020, 7));
    build.Send(Measure(0, 1060, 1100, 7));  // 1020 to 1060 is lost
    build.Send(Measure(0, 1020, 1060, 8));
    build.Send(Measure(0, 1100, 1200, 7));
    build.builder.Finish();
    EXPECT_EQ(build.Lost(1000), 40u);
    EXPECT_EQ(build.Cpu(1000, 8), 0u);
    EXPECT_EQ(build.builder.accounting().late[kCpuNs], 40u);
    ExpectIdentity(build, 1);
  }
}

TEST(SlotBuilder, CountsOfNoLengthOfARetiredSlotAreLate) {
  Build build({0});
  build.Send(Measure(0, 900, 1000, 7));
  build.Send(Measure(0, 1000, 2000, 7));
  build.builder.OnWatermark(1500);
  ASSERT_EQ(build.Starts(), Starts({1000}));
  ss_measure measure = Measure(0, 1100, 1100, 8);
  measure.switches = 1;
  build.Send(measure);
  EXPECT_EQ(build.builder.accounting().late[kSwitches], 1u);
  measure = Measure(0, 1101, 1101, 8);
  measure.switches = 1;
  build.Send(measure);
  EXPECT_EQ(build.builder.accounting().late[kSwitches], 1u) << "its slot is open";
  build.builder.Finish();
  EXPECT_EQ(build.Process(1100, 8)->sums[kSwitches], 1u);
  ExpectIdentity(build, 1);
}

TEST(SlotBuilder, FirstSlotBeginsAfterEveryCpusBaseline) {
  const struct {
    uint64_t baseline0_ns, baseline1_ns, first_ns;
  } cases[] = {
      {1000, 1000, 1000}, {1000, 1001, 1100}, {1099, 1000, 1100}, {1000, 1250, 1300}, {1310, 1020, 1400},
  };
  for (const auto& c : cases) {
    Build build({0, 1});
    build.Send(Measure(0, c.baseline0_ns - 10, c.baseline0_ns, 7));
    build.Send(Measure(1, c.baseline1_ns - 10, c.baseline1_ns, 8));
    build.Send(Measure(0, c.baseline0_ns, 2000, 7));
    build.Send(Measure(1, c.baseline1_ns, 2000, 8));
    build.builder.OnWatermark(2000);
    build.builder.Finish();
    ASSERT_FALSE(build.sink.slots.empty());
    EXPECT_EQ(build.sink.slots.front().start_ns, c.first_ns);
    EXPECT_EQ(build.Cpu(c.first_ns, 7), 100u);
    EXPECT_EQ(build.Cpu(c.first_ns, 8), 100u);
    ExpectIdentity(build, 2);
  }
}

TEST(SlotBuilder, FirstSlotBeginsAfterTheDump) {
  Build build({0}, true);
  build.Send(Measure(0, 900, 1000, 7));
  for (uint64_t at_ns = 1000; at_ns < 3000; at_ns += 100) {
    build.Send(Measure(0, at_ns, at_ns + 100, 7));
    build.builder.OnWatermark(at_ns + 100);
  }
  EXPECT_TRUE(build.sink.slots.empty()) << "nobody has been named";
  build.Meta({7, 1}, 3030, "named");
  build.builder.OnDumpEnd(950, 3030);
  build.Send(Measure(0, 3000, 4000, 7));
  build.builder.OnWatermark(4000);
  ASSERT_FALSE(build.sink.slots.empty());
  EXPECT_EQ(build.sink.slots.front().start_ns, 3100u);
  EXPECT_TRUE(build.sink.slots.front().rows.front().named);
  build.builder.Finish();
  EXPECT_EQ(build.builder.accounting().before[kCpuNs], 2200u);
  ExpectIdentity(build, 1);
}

TEST(SlotBuilder, WithoutABaselineOrADumpNothingIsWritten) {
  Build no_dump({0}, true);
  no_dump.Send(Measure(0, 900, 1000, 7));
  no_dump.Send(Measure(0, 1000, 2000, 7));
  no_dump.builder.OnWatermark(2000);
  no_dump.builder.Finish();
  EXPECT_TRUE(no_dump.sink.slots.empty());
  EXPECT_TRUE(no_dump.builder.accounting().Holds());

  Build silent({0});
  silent.builder.OnWatermark(2000);
  silent.builder.Finish();
  EXPECT_TRUE(silent.sink.slots.empty());
  EXPECT_TRUE(silent.builder.accounting().Holds());
}

TEST(SlotBuilder, LastSlotEndsAtTheLastBorderThatEveryCpuPassed) {
  const struct {
    uint64_t end0_ns, end1_ns, last_start_ns;
  } cases[] = {
      {1500, 1500, 1400},
      {1599, 1500, 1400},
      {1500, 1499, 1300},
      {1600, 1301, 1200},
  };
  for (const auto& c : cases) {
    Build build({0, 1});
    for (uint32_t cpu : {0u, 1u}) build.Send(Measure(cpu, 900, 1000, 7));
    build.Send(Measure(0, 1000, c.end0_ns, 7));
    build.Send(Measure(1, 1000, c.end1_ns, 8));
    build.builder.Finish();
    ASSERT_FALSE(build.sink.slots.empty());
    EXPECT_EQ(build.sink.slots.back().start_ns, c.last_start_ns) << c.end0_ns << " " << c.end1_ns;
    EXPECT_EQ(build.builder.accounting().after[kCpuNs],
              c.end0_ns + c.end1_ns - 2 * (c.last_start_ns + 100));
    ExpectIdentity(build, 2);
  }
}

TEST(SlotBuilder, ACpuThatIsGoneDoesNotHoldTheEnd) {
  Build build({0, 1});
  for (uint32_t cpu : {0u, 1u}) build.Send(Measure(cpu, 900, 1000, 7));
  build.CpuState(1, 1050, false);
  build.Send(Measure(0, 1000, 1500, 7));
  build.builder.Finish();
  EXPECT_EQ(build.Starts(), Starts({1000, 1100, 1200, 1300, 1400}));
  EXPECT_EQ(build.Offline(1400), 100u);
  ExpectIdentity(build, 2);
}

TEST(SlotBuilder, ASlotRetiresWhenTheWatermarkIsAWindowPastItsEnd) {
  Build build({0});
  build.Send(Measure(0, 900, 1000, 7));
  build.Send(Measure(0, 1000, 2000, 7));
  build.builder.OnWatermark(1100 + kWindowNs - 1);
  EXPECT_EQ(build.Starts(), Starts({}));
  build.builder.OnWatermark(1100 + kWindowNs);
  EXPECT_EQ(build.Starts(), Starts({1000}));
  build.builder.OnWatermark(1300 + kWindowNs);
  EXPECT_EQ(build.Starts(), Starts({1000, 1100, 1200}));
}

TEST(SlotBuilder, CoarserSlotsHoldTheSumOfFinerOnes) {
  Build fine({0}, false, 100), coarse({0}, false, 500);
  for (Build* build : {&fine, &coarse}) {
    build->Send(Measure(0, 900, 1000, 7));
    uint64_t at_ns = 1000;
    for (uint64_t length_ns : {30, 370, 1, 99, 250, 250, 700, 300}) {
      ss_measure measure = Measure(0, at_ns, at_ns + length_ns, 7 + static_cast<int32_t>(length_ns % 2));
      measure.switches = 1;
      build->Send(measure);
      at_ns += length_ns;
    }
    build->builder.Finish();
  }
  ASSERT_EQ(coarse.Starts(), Starts({1000, 1500, 2000, 2500}));
  for (uint64_t start_ns : coarse.Starts())
    for (int32_t tgid : {7, 8}) {
      Sums sum = {};
      for (uint64_t at_ns = start_ns; at_ns < start_ns + 500; at_ns += 100)
        if (const Row* row = fine.Process(at_ns, tgid)) Add(&sum, row->sums);
      const Row* row = coarse.Process(start_ns, tgid);
      EXPECT_EQ(row ? row->sums[kCpuNs] : 0, sum[kCpuNs]) << start_ns << " " << tgid;
      EXPECT_EQ(row ? row->sums[kSwitches] : 0, sum[kSwitches]) << start_ns << " " << tgid;
    }
  ExpectIdentity(coarse, 1, 500);
}

TEST(SlotBuilder, AMeasureAfterTheFreeInTheSameSlotHasTheName) {
  Build build({0});
  build.Send(Measure(0, 900, 1000, 9));
  build.Rmid(SS_RMID_ALLOC, 7, 1, {7, 1}, 1010);
  build.Meta({7, 1}, 1010, "short");
  build.Send(Measure(0, 1000, 1020, 9));
  build.Rmid(SS_RMID_FREE, 7, 1, {7, 1}, 1030);
  build.Send(Measure(0, 1020, 1040, 7));
  build.Send(Measure(0, 1040, 2000, 9));
  build.builder.Finish();
  const Row* row = build.Process(1000, 7);
  ASSERT_NE(row, nullptr);
  EXPECT_TRUE(row->named);
  EXPECT_STREQ(row->comm.data(), "short");
}

TEST(SlotBuilder, NamesAreThoseOfTheSlotsEnd) {
  Build build({0});
  build.Meta({7, 1}, 950, "before");
  build.Send(Measure(0, 900, 1000, 7));
  build.Send(Measure(0, 1000, 1120, 7));
  build.Meta({7, 1}, 1150, "after");
  build.Send(Measure(0, 1120, 1300, 7));
  build.builder.Finish();
  EXPECT_STREQ(build.Process(1000, 7)->comm.data(), "before");
  EXPECT_STREQ(build.Process(1100, 7)->comm.data(), "after");
}

TEST(SlotBuilder, LateStateTakesEffectInTheNextSlotToRetire) {
  Build build({0});
  build.Meta({7, 1}, 950, "before");
  build.Send(Measure(0, 900, 1000, 7));
  build.Send(Measure(0, 1000, 3000, 7));
  build.builder.OnWatermark(1600);
  ASSERT_EQ(build.Starts(), Starts({1000, 1100}));
  build.Meta({7, 1}, 1050, "after", true);
  build.builder.Finish();
  EXPECT_STREQ(build.Process(1100, 7)->comm.data(), "before");
  EXPECT_STREQ(build.Process(1200, 7)->comm.data(), "after");
  EXPECT_EQ(build.builder.tracker().stats().nr_late, 1u);
}

TEST(SlotBuilder, APieceWithoutACounterEmptiesTheColumnOfItsRowOnly) {
  Build build({0});
  build.Send(Measure(0, 900, 1000, 7));
  build.Send(Measure(0, 1000, 1050, 7));
  ss_measure measure = Measure(0, 1050, 1100, 7);
  measure.counters[SS_LLC_MISSES] = {55, 50, 0};  // whatever delta says
  build.Send(measure);
  measure = Measure(0, 1100, 1200, 7);
  for (ss_counter& counter : measure.counters) counter = {};
  measure.flags |= SS_MEASURE_NO_WAIT;
  build.Send(measure);
  build.Send(Measure(0, 1200, 1300, 7));
  build.builder.Finish();
  const struct {
    uint64_t start_ns;
    uint32_t unmeasured;
  } cases[] = {
      {1000, 1u << kLlcMisses},
      {1100, 1u << kCycles | 1u << kInstructions | 1u << kLlcMisses | 1u << kEnabledNs | 1u << kWaitNs},
      {1200, 0},
  };
  for (const auto& c : cases)
    EXPECT_EQ(build.Process(c.start_ns, 7)->unmeasured & ~(1u << kRunningNs), c.unmeasured)
        << c.start_ns;
  EXPECT_EQ(build.Process(1000, 7)->sums[kLlcMisses], 0u);
  ExpectIdentity(build, 1);
}

TEST(SlotBuilder, KindOfARow) {
  const struct {
    const char* what;
    int32_t tgid;
    uint32_t rmid;
    uint32_t flags;
    RowKind kind;
  } cases[] = {
      {"user", 7, 3, 0, RowKind::kUser},
      {"user in a tick", 7, 3, SS_MEASURE_TICK, RowKind::kUser},
      {"no RMID", 7, 0, 0, RowKind::kUnassigned},
      {"kernel thread", 7, 0, SS_MEASURE_KTHREAD, RowKind::kKernel},
      {"idle", 0, 0, SS_MEASURE_IDLE, RowKind::kIdle},
      {"no room in the table", 7, 0, SS_MEASURE_UNTRACKED, RowKind::kUnassigned},
  };
  for (const auto& c : cases) {
    Build build({0});
    build.Send(Measure(0, 900, 1000, 9));
    ss_measure measure = Measure(0, 1000, 1100, c.tgid);
    measure.rmid = c.rmid;
    measure.flags |= c.flags;
    build.Send(measure);
    build.builder.Finish();
    const Row* row = build.Process(1000, c.tgid);
    ASSERT_NE(row, nullptr) << c.what;
    EXPECT_EQ(row->kind, c.kind) << c.what;
    EXPECT_EQ(row->rmid, c.rmid) << c.what;
    EXPECT_EQ(row->tracked, !(c.flags & SS_MEASURE_UNTRACKED)) << c.what;
    if (c.kind == RowKind::kIdle) {
      EXPECT_STREQ(row->comm.data(), "idle");
    }
  }
}

TEST(SlotBuilder, AProcessThatGotItsRmidWithinTheSlotIsAUserRow) {
  for (bool rmid_first : {false, true}) {
    Build build({0});
    build.Send(Measure(0, 900, 1000, 9));
    for (int half = 0; half < 2; half++) {
      uint64_t at_ns = 1000 + 50 * static_cast<uint64_t>(half);
      ss_measure measure = Measure(0, at_ns, at_ns + 50, 7);
      measure.rmid = (half == 0) == rmid_first ? 3 : 0;
      build.Send(measure);
    }
    build.builder.Finish();
    ASSERT_EQ(build.sink.slots.at(0).rows.size(), 1u);
    EXPECT_EQ(build.sink.slots[0].rows[0].kind, RowKind::kUser);
    EXPECT_EQ(build.sink.slots[0].rows[0].rmid, 3u);
  }
}

TEST(SlotBuilder, IdleOfAllCpusIsOneRowAndProcessesAreToldApartByTheirStart) {
  Build build({0, 1});
  for (uint32_t cpu : {0u, 1u}) {
    build.Send(Measure(cpu, 900, 1000, 9));
    ss_measure idle = Measure(cpu, 1000, 1060, 0);
    idle.start_time_ns = 0;
    idle.flags |= SS_MEASURE_IDLE;
    build.Send(idle);
    ss_measure measure = Measure(cpu, 1060, 1100, 7);
    measure.start_time_ns = 100 + cpu;
    build.Send(measure);
  }
  build.builder.Finish();
  ASSERT_EQ(build.sink.slots.size(), 1u);
  EXPECT_EQ(build.sink.slots[0].rows.size(), 3u);
  EXPECT_EQ(build.Kind(1000, RowKind::kIdle), 120u);
  ExpectIdentity(build, 2);
}

TEST(SlotBuilder, MeasuresOfACpuThatIsNotPresentAreNotCounted) {
  Build build({0, 2});
  for (uint32_t cpu : {1u, 3u, 100'000u}) build.Send(Measure(cpu, 900, 1000, 7));
  EXPECT_EQ(build.builder.accounting().received[kCpuNs], 0u);
}

TEST(SlotBuilder, SumsTheTicksThatWereMissed) {
  Build build({0});
  ss_tick tick = {};
  tick.missed = 3;
  build.builder.OnTick(tick);
  build.builder.OnTick(tick);
  EXPECT_EQ(build.builder.stats().nr_missed_ticks, 6u);
}

constexpr uint64_t kNowNs = 10'000'000;  // many slots after the start of the clock

// A run of one CPU that begins at kNowNs, with one late measure of strange times in it. Returns whether
// the identity holds.
bool HoldsWithLateMeasure(uint64_t start_ns, uint64_t end_ns, bool first_is_fixed) {
  Build build({0});
  build.Send(Measure(0, kNowNs - 100, kNowNs, 7));
  if (first_is_fixed) build.builder.OnWatermark(kNowNs);
  build.Send(Measure(0, start_ns, end_ns, 8));
  for (uint64_t at_ns = kNowNs; at_ns < kNowNs + 3000; at_ns += 100) {
    build.Send(Measure(0, at_ns, at_ns + 100, 7));
    build.builder.OnWatermark(at_ns + 100);
  }
  build.builder.Finish();
  return build.builder.accounting().Holds() && build.sink.slots.size() == 30;
}

// Messages are untrusted: whatever time an old one names, it brings nothing down.
TEST(SlotBuilder, SurvivesLateMeasuresOfAnyTime) {
  const struct {
    const char* what;
    uint64_t start_ns, end_ns;
  } cases[] = {
      {"no length, at 0", 0, 0},
      {"no length, at 1", 1, 1},
      {"no length, long ago", 1'000'000, 1'000'000},
      {"no length, just before", kNowNs - 50, kNowNs - 50},
      {"from 0 to 1", 0, 1},
      {"from 0 to long ago", 0, 1'000'000},
      {"from 0 to now", 0, kNowNs},
      {"from long ago to just before", 1'000'000, kNowNs - 50},
  };
  for (const auto& c : cases)
    for (bool first_is_fixed : {false, true})
      EXPECT_EXIT(std::exit(HoldsWithLateMeasure(c.start_ns, c.end_ns, first_is_fixed) ? 0 : 1),
                  testing::ExitedWithCode(0), "")
          << c.what << (first_is_fixed ? ", in the middle" : ", at the beginning");
}

// ---- Random runs.

struct Event {
  ss_measure measure;
  bool is_state = false;  // measure.hdr only: the CPU goes off or on
  bool online = false;
};

struct Plan {
  size_t nr_cpus;
  bool drop;   // some measures never arrive
  bool delay;  // some arrive late
  bool hotplug;
};

// Of all CPUs, in the order of their ends.
std::vector<Event> RandomRun(std::mt19937_64& random, const Plan& plan) {
  std::vector<Event> events;
  for (uint32_t cpu = 0; cpu < plan.nr_cpus; cpu++) {
    uint64_t at_ns = 900 + random() % 150;
    uint32_t seq = static_cast<uint32_t>(random());
    uint64_t end_ns = 6000 + random() % 200;
    bool first = true;
    while (at_ns < end_ns) {
      uint64_t length_ns = 0;  // one in eight has none
      switch (random() % 8) {
        case 0:
          break;
        case 1:
          length_ns = random() % 1500;
          break;
        default:
          length_ns = random() % 80;
      }
      auto tgid = static_cast<int32_t>(random() % 6);
      Event event;
      event.measure = Measure(cpu, at_ns, at_ns + length_ns, tgid);
      event.measure.start_time_ns = tgid ? 1 + random() % 2 : 0;
      if (tgid == 0) event.measure.flags |= SS_MEASURE_IDLE;
      if (random() % 5 == 0) event.measure.rmid = 0;
      event.measure.seq = seq++;
      event.measure.switches = static_cast<uint32_t>(random() % 4);
      event.measure.preemptions = static_cast<uint32_t>(random() % (event.measure.switches + 1));
      event.measure.wait_ns = random() % 3 ? 0 : random() % 5000;
      for (ss_counter& counter : event.measure.counters) {
        counter.delta = random() % 10 ? random() % 10'000 : random();
        counter.enabled_ns = length_ns + random() % 3;
        counter.running_ns = random() % 6 ? counter.enabled_ns : 0;
      }
      at_ns += length_ns;
      if (plan.hotplug && !first && random() % 60 == 0) {
        Event off, on;
        off.measure = Measure(cpu, at_ns, at_ns, 0);
        off.is_state = on.is_state = on.online = true;
        at_ns += random() % 700;
        on.measure = Measure(cpu, at_ns, at_ns, 0);
        events.push_back(event);
        events.push_back(off);
        events.push_back(on);
      } else if (!plan.drop || first || random() % 12) {
        events.push_back(event);
      }
      first = false;
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.measure.hdr.ts_ns < b.measure.hdr.ts_ns;
  });
  return events;
}

// The run as the merge would hand it out, with a watermark now and then. Returns what was sent.
Sums Play(std::mt19937_64& random, const Plan& plan, const std::vector<Event>& events, Build* build) {
  Sums sent = {};
  std::vector<std::pair<size_t, Event>> delayed;  // due at an index of `events`
  uint64_t watermark_ns = 0;
  auto send = [&](const Event& event) {
    const ss_measure& measure = event.measure;
    if (event.is_state) {
      build->CpuState(measure.hdr.cpu, measure.hdr.ts_ns, event.online);
      return;
    }
    sent[kCpuNs] += measure.hdr.ts_ns - measure.start_ns;
    sent[kSwitches] += measure.switches;
    sent[kPreemptions] += measure.preemptions;
    sent[kWaitNs] += measure.wait_ns;
    for (size_t i = 0; i < SS_NR_COUNTERS; i++)
      if (measure.counters[i].running_ns) sent[kCycles + i] += measure.counters[i].delta;
    build->SendAsItIs(measure);
  };
  for (size_t i = 0; i < events.size(); i++) {
    if (plan.delay && !events[i].is_state && random() % 15 == 0)
      delayed.emplace_back(i + random() % (30 * plan.nr_cpus), events[i]);
    else
      send(events[i]);
    for (size_t j = 0; j < delayed.size();) {
      if (delayed[j].first > i) {
        j++;
        continue;
      }
      send(delayed[j].second);
      delayed.erase(delayed.begin() + static_cast<ptrdiff_t>(j));
    }
    if (random() % 10 == 0) {
      watermark_ns = std::max<uint64_t>(watermark_ns, events[i].measure.hdr.ts_ns);
      build->builder.OnWatermark(watermark_ns);
    }
  }
  for (const auto& [due, event] : delayed) send(event);
  build->builder.Finish();
  return sent;
}

// What the identity says, added up again from the slots.
void ExpectRunIdentity(const Build& build, const Plan& plan, const Sums& sent) {
  const Accounting& accounting = build.builder.accounting();
  ASSERT_TRUE(accounting.Holds());
  ASSERT_EQ(accounting.nr_slots, build.sink.slots.size());
  Sums written = {};
  for (size_t i = 0; i < build.sink.slots.size(); i++) {
    const Slot& slot = build.sink.slots[i];
    ASSERT_EQ(slot.start_ns, build.sink.slots[0].start_ns + i * kSlotNs) << "each slot once, in order";
    uint64_t cpu_ns = 0;
    for (const Row& row : slot.rows) {
      cpu_ns += row.sums[kCpuNs];
      if (row.kind != RowKind::kLost && row.kind != RowKind::kOffline) Add(&written, row.sums);
    }
    ASSERT_EQ(cpu_ns, kSlotNs * plan.nr_cpus) << "slot " << slot.start_ns;
  }
  for (size_t i = 0; i < kNrAdditive; i++) {
    if (i != kEnabledNs && i != kRunningNs) {
      ASSERT_EQ(accounting.received[i], sent[i]) << kAdditiveNames[i];
    }
    ASSERT_EQ(accounting.written[i], written[i]) << kAdditiveNames[i];
  }
}

TEST(SlotBuilder, EveryNanosecondAndEveryCountIsAccountedForInRandomRuns) {
  size_t nr_slots = 0, nr_late = 0, nr_gaps = 0;
  uint64_t offline_ns = 0;
  for (uint64_t seed = 0; seed < 560; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Plan plan = {2 + seed % 7, (seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0};
    std::vector<int> cpus;
    for (size_t cpu = 0; cpu < plan.nr_cpus; cpu++) cpus.push_back(static_cast<int>(cpu));
    Build build(cpus);
    std::vector<Event> events = RandomRun(random, plan);
    Sums sent = Play(random, plan, events, &build);
    ASSERT_NO_FATAL_FAILURE(ExpectRunIdentity(build, plan, sent));
    nr_slots += build.sink.slots.size();
    nr_late += build.builder.stats().nr_late_pieces;
    nr_gaps += build.builder.stats().nr_seq_gaps;
    offline_ns += build.builder.accounting().offline_ns;
  }
  EXPECT_GT(nr_slots, 10'000u);
  EXPECT_GT(nr_late, 1000u);
  EXPECT_GT(nr_gaps, 1000u);
  EXPECT_GT(offline_ns, 1000u);
}

// By slot, tgid and start: walks the measures once and adds what each has of each slot.
std::map<std::tuple<uint64_t, int32_t, uint64_t>, uint64_t> Reference(const std::vector<Event>& events) {
  std::map<std::tuple<uint64_t, int32_t, uint64_t>, uint64_t> times;
  for (const Event& event : events) {
    const ss_measure& measure = event.measure;
    for (uint64_t slot_ns = measure.start_ns / kSlotNs * kSlotNs; slot_ns < measure.hdr.ts_ns;
         slot_ns += kSlotNs) {
      uint64_t from_ns = std::max<uint64_t>(slot_ns, measure.start_ns);
      uint64_t to_ns = std::min<uint64_t>(slot_ns + kSlotNs, measure.hdr.ts_ns);
      if (from_ns < to_ns) times[{slot_ns, measure.tgid, measure.start_time_ns}] += to_ns - from_ns;
    }
  }
  return times;
}

TEST(SlotBuilder, TimesAreThoseOfASlowAndObviousReference) {
  for (uint64_t seed = 0; seed < 140; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Plan plan = {2 + seed % 7, (seed & 1) != 0, false, false};
    std::vector<int> cpus;
    for (size_t cpu = 0; cpu < plan.nr_cpus; cpu++) cpus.push_back(static_cast<int>(cpu));
    Build build(cpus, false, kSlotNs, 2000);  // longer than any measure: none is late
    std::vector<Event> events = RandomRun(random, plan);
    Play(random, plan, events, &build);
    ASSERT_EQ(build.builder.stats().nr_late_pieces, 0u);
    ASSERT_FALSE(build.sink.slots.empty());
    auto reference = Reference(events);
    for (const Slot& slot : build.sink.slots) {
      uint64_t measured_ns = 0;
      size_t nr_rows = 0;
      for (const Row& row : slot.rows) {
        if (row.kind == RowKind::kLost || row.kind == RowKind::kOffline) continue;
        auto found = reference.find({slot.start_ns, row.key.tgid, row.key.start_time_ns});
        uint64_t expected_ns = found == reference.end() ? 0 : found->second;
        ASSERT_EQ(row.sums[kCpuNs], expected_ns) << slot.start_ns << " " << row.key.tgid;
        measured_ns += expected_ns;
        nr_rows += expected_ns > 0;
      }
      size_t nr_expected = 0;
      for (auto at = reference.lower_bound({slot.start_ns, INT32_MIN, 0});
           at != reference.end() && std::get<0>(at->first) == slot.start_ns; ++at)
        nr_expected++;
      ASSERT_EQ(nr_rows, nr_expected) << "nobody is missing in slot " << slot.start_ns;
      ASSERT_EQ(build.Lost(slot.start_ns), kSlotNs * plan.nr_cpus - measured_ns);
    }
  }
}

// Who ends, how, and when, as the GPU's stage is told.
class Ends final : public GpuJoin {
 public:
  void OnCall(const ss_cuda_call&) override {}
  void OnTurn(const ss_cuda_turn&) override {}
  void OnExit(ProcessKey process, uint64_t ts_ns) override { Add("exit", process, ts_ns); }
  void OnExec(ProcessKey process, uint64_t ts_ns) override { Add("exec", process, ts_ns); }
  void OnMissing(ProcessKey process, uint64_t ts_ns) override { Add("missing", process, ts_ns); }
  void OnLostCalls(uint64_t, uint64_t) override {}
  void TakeSlot(uint64_t, uint64_t, std::vector<GpuUse>* uses, GpuDetail* detail) override {
    uses->clear();
    detail->Clear();
  }
  std::string text;

 private:
  void Add(const char* what, ProcessKey process, uint64_t ts_ns) {
    text += what + (" " + std::to_string(process.tgid)) + "@" + std::to_string(ts_ns) + "; ";
  }
};

TEST(SlotBuilder, TheGpusStageIsToldWhoHasEnded) {
  Ends ends;
  Recorder sink;
  SlotBuilderOptions options;
  options.slot_ns = kSlotNs;
  options.window_ns = kWindowNs;
  options.present_cpus = {0};
  options.needs_dump = false;
  options.gpu = &ends;
  SlotBuilder builder(options, &sink);
  builder.OnExpected(0);
  const auto send = [&](int32_t tgid, uint32_t flags, uint64_t ts_ns) {
    ss_any_message any = {};
    any.task_meta.hdr = {ts_ns, SS_TASK_META, sizeof(ss_task_meta), 0};
    any.task_meta.tgid = tgid;
    any.task_meta.start_time_ns = 1;
    any.task_meta.flags = flags;
    builder.OnMessage(any, false);
  };
  send(7, SS_TASK_BIRTH, 110);
  send(7, SS_TASK_EXEC, 120);
  send(7, SS_TASK_RENAME, 130);
  send(7, SS_TASK_EXIT, 140);
  send(8, SS_TASK_BIRTH, 150);  // its end is lost
  send(9, SS_TASK_BIRTH, 160);
  send(9, SS_TASK_EXISTING, 420);
  EXPECT_EQ(ends.text, "exec 7@120; exit 7@140; ");
  for (uint64_t ns = 100; ns < 2000; ns += kSlotNs) builder.OnMeasure(Measure(0, ns, ns + kSlotNs, 5));
  builder.OnDumpEnd(400, 450);
  builder.OnWatermark(2000);
  EXPECT_EQ(ends.text, "exec 7@120; exit 7@140; missing 8@400; ");
}

}  // namespace
}  // namespace slotscope
