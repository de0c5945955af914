// SPDX-License-Identifier: MIT
// Why processes waited, by hand; that whole machines are right the oracle says.
#include "slots/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "sinks/pair_table.h"
#include "sinks/wait_sink.h"
#include "slots/fold.h"
#include "tests/gen/generator.h"
#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kStartNs = 100 * kMs;

struct Slots final : SlotSink {
  void OnSlot(Slot* slot) override { slots.push_back(*slot); }
  std::vector<Slot> slots;
};

// One CPU from kStartNs on, whose slots retire 10 ms behind.
class OneCpu {
 public:
  explicit OneCpu(bool steal = false) : builder_(Options(steal), &slots_) {
    ss_cpu_state state = {};
    state.hdr.ts_ns = kStartNs;
    state.online = 1;
    builder_.OnCpuState(state);
    builder_.OnWatermark(kStartNs + 1);
    at_ns_ = kStartNs;
  }

  // Of it, the hypervisor had stolen_ns; of the wait cut_ns are too much.
  void Run(int32_t tgid, uint64_t until_ns, uint64_t wait_ns = 0, uint32_t flags = 0,
           uint32_t stolen_ns = 0, uint32_t cut_ns = 0) {
    ss_measure measure = {};
    measure.hdr.ts_ns = until_ns;
    measure.hdr.size = sizeof(measure);
    measure.start_ns = at_ns_;
    measure.tgid = tgid;
    measure.start_time_ns = tgid ? 1 : 0;
    measure.wait_ns = wait_ns;
    measure.stolen_ns = stolen_ns;
    measure.cut_ns = cut_ns;
    measure.flags = (tgid ? 0 : SS_MEASURE_IDLE) | (wait_ns ? SS_MEASURE_ONE_WAIT : 0) | flags;
    at_ns_ = until_ns;
    builder_.OnMeasure(measure);
  }
  // Of SS_WAIT_QUOTA: throttled in [from_ns, until_ns).
  void Wait(int32_t tgid, uint64_t end_ns, uint64_t wait_ns, uint32_t flags, uint64_t from_ns = 0,
            uint64_t until_ns = 0) {
    ss_any_message message = {};
    message.wait.hdr.ts_ns = end_ns;
    message.wait.hdr.type = SS_WAIT;
    message.wait.end_ns = end_ns;
    message.wait.wait_ns = wait_ns;
    message.wait.tgid = tgid;
    message.wait.start_time_ns = 1;
    message.wait.flags = flags;
    message.wait.start_ns = from_ns;
    message.wait.throttled_until_ns = until_ns;
    builder_.OnMessage(message, false);
  }
  void Name(int32_t tgid, const char* name) {
    ss_any_message message = {};
    message.task_meta.hdr.ts_ns = kStartNs;
    message.task_meta.hdr.type = SS_TASK_META;
    message.task_meta.tgid = tgid;
    message.task_meta.start_time_ns = 1;
    std::strncpy(message.task_meta.comm, name, sizeof(message.task_meta.comm) - 1);
    builder_.OnMessage(message, false);
  }
  void Causes(uint64_t from_ns, bool told) { builder_.OnWaitCauses(from_ns, told); }
  void Watermark(uint64_t ts_ns) { builder_.OnWatermark(ts_ns); }
  const std::vector<Slot>& Finish() {
    builder_.Finish();
    EXPECT_TRUE(builder_.accounting().Holds());
    return slots_.slots;
  }
  const SlotBuilder& builder() const { return builder_; }

 private:
  static SlotBuilderOptions Options(bool steal) {
    SlotBuilderOptions options;
    options.window_ns = 10 * kMs;
    options.present_cpus = {0};
    options.needs_dump = false;
    options.wait_causes = steal ? kAllWaitCauses : kAllWaitCauses & ~(1u << kWaitSteal);
    return options;
  }

  Slots slots_;
  SlotBuilder builder_;
  uint64_t at_ns_ = 0;
};

WaitRow WaitOf(const Slot& slot, int32_t tgid) {
  for (const Row& row : slot.rows)
    if (row.key.tgid == tgid && row.wait) return slot.waits[row.wait - 1];
  return {};
}

// others, self, wakeup, unknown
std::vector<uint64_t> CausesOf(const Slot& slot, int32_t tgid) {
  const WaitRow wait = WaitOf(slot, tgid);
  return {wait.ns[kWaitOthers], wait.ns[kWaitSelf], wait.ns[kWaitWakeup], wait.ns[kWaitUnknown]};
}

TEST(Waits, AWaitIsCutByWhoRanAndAtTheBorders) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + 200'000);
  cpu.Run(0, kStartNs + 300'000);
  cpu.Run(2, kStartNs + kMs + 100'000);
  cpu.Run(1, kStartNs + 3 * kMs, 850'000);
  const auto& slots = cpu.Finish();
  ASSERT_GE(slots.size(), 2u);
  EXPECT_THAT(CausesOf(slots[0], 1), ElementsAre(700'000, 0, 50'000, 0));
  EXPECT_THAT(CausesOf(slots[1], 1), ElementsAre(100'000, 0, 0, 0));
  EXPECT_EQ(WaitOf(slots[0], 1).ran_instead.tgid, 2);
  EXPECT_EQ(WaitOf(slots[0], 1).ran_ns, 700'000u);
  EXPECT_EQ(WaitOf(slots[0], 1).longest_ns, 0u) << "it has not ended there";
  EXPECT_EQ(WaitOf(slots[1], 1).longest_ns, 850'000u);
  ASSERT_EQ(slots[0].wait_details.size(), 2u);
  const WaitDetail& detail = slots[0].wait_details[0];
  EXPECT_EQ(
      std::tie(detail.waiter.tgid, detail.cause, detail.ran.tgid, detail.cpu, detail.ns, detail.nr),
      std::tuple(1, kWaitOthers, 2, 0u, 700'000u, 1u));
}

// 400 us of a run of 800: half of any part of it. Of an idle CPU, too: it was on its way, and kept.
TEST(Waits, WhatTheHypervisorTookIsNobodysTurn) {
  for (bool steal : {true, false}) {
    OneCpu cpu(steal);
    cpu.Run(1, kStartNs + 100'000);
    cpu.Run(2, kStartNs + 900'000, 0, 0, 400'000);
    cpu.Run(0, kStartNs + kMs, 0, 0, 25'000);
    cpu.Run(1, kStartNs + 2 * kMs, 500'000);
    const auto& slots = cpu.Finish();
    ASSERT_FALSE(slots.empty());
    const uint64_t stolen = steal ? 1 : 0;
    EXPECT_THAT(CausesOf(slots[0], 1),
                ElementsAre(400'000 - stolen * 200'000, 0, 100'000 - stolen * 25'000, 0));
    EXPECT_EQ(WaitOf(slots[0], 1).ns[kWaitSteal], stolen * 225'000);
    EXPECT_EQ(WaitOf(slots[0], 1).ran_ns, 400'000 - stolen * 200'000);
  }
}

// What is of its quota is not of the hypervisor, and a measure cannot have lost more than it is long.
TEST(Waits, StealIsBounded) {
  OneCpu cpu(true);
  cpu.Run(1, kStartNs + 100'000);
  cpu.Run(2, kStartNs + 700'000, 0, 0, 2'000'000'000);
  cpu.Wait(1, kStartNs + 700'000, 600'000, SS_WAIT_QUOTA, kStartNs + 200'000, kStartNs + 500'000);
  cpu.Run(1, kStartNs + 2 * kMs);
  const auto& slots = cpu.Finish();
  ASSERT_FALSE(slots.empty());
  const WaitRow wait = WaitOf(slots[0], 1);
  EXPECT_EQ(wait.ns[kWaitThrottled], 300'000u);
  EXPECT_EQ(wait.ns[kWaitSteal], 300'000u);
  EXPECT_EQ(wait.ns[kWaitOthers], 0u);
}

// It has a row there, of no CPU time.
TEST(Waits, WhoOnlyWaitedInASlotHasARow) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + 500'000);
  cpu.Run(2, kStartNs + 3 * kMs + 500'000);
  cpu.Run(1, kStartNs + 5 * kMs, 3 * kMs);
  const auto& slots = cpu.Finish();
  for (size_t i : {1u, 2u}) {
    ASSERT_EQ(slots[i].rows.size(), 2u) << i;
    EXPECT_EQ(slots[i].rows[0].key.tgid, 1);
    EXPECT_EQ(slots[i].rows[0].sums[kCpuNs], 0u);
    EXPECT_THAT(CausesOf(slots[i], 1), ElementsAre(kMs, 0, 0, 0));
  }
}

TEST(Waits, WhatPassedInRetiredSlotsIsSaidWhereItEnded) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + 500'000);
  for (uint64_t ms = 1; ms <= 30; ms++) {
    cpu.Run(2, kStartNs + ms * kMs);
    cpu.Watermark(kStartNs + ms * kMs);
  }
  cpu.Run(1, kStartNs + 40 * kMs, 29 * kMs + 500'000);
  const auto& slots = cpu.Finish();
  const WaitRow ended = WaitOf(slots[29], 1);
  EXPECT_EQ(ended.earlier_ns, 19 * kMs + 500'000) << "20 slots had retired";
  EXPECT_EQ(ended.longest_ns, 29 * kMs + 500'000);
  EXPECT_EQ(WaitOf(slots[19], 1).sum(), 0u);
  EXPECT_THAT(CausesOf(slots[20], 1), ElementsAre(kMs, 0, 0, 0));
  EXPECT_EQ(cpu.builder().accounting().wait_earlier_ns, ended.earlier_ns);
  const WaitDetail& earlier = slots[29].wait_details.back();
  ASSERT_TRUE(earlier.is_earlier());
  EXPECT_EQ(earlier.start_ns, kStartNs + 500'000) << "since when";
  EXPECT_EQ(earlier.until_ns, kStartNs + 20 * kMs) << "that slot is open";
  EXPECT_EQ(earlier.ns, ended.earlier_ns);
  EXPECT_EQ(earlier.cause, kWaitOthers);
  EXPECT_EQ(earlier.ran.tgid, 2);
}

TEST(Waits, OfALongWaitThoseWhoRanLongestAreNamed) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + kMs);
  uint64_t at_ns = kStartNs + kMs;
  for (int32_t tgid = 11; tgid <= 30; tgid++) {
    at_ns += static_cast<uint64_t>(tgid) * 100'000;
    cpu.Run(tgid, at_ns);
    cpu.Watermark(at_ns);
  }
  cpu.Run(31, at_ns + 20 * kMs);  // all of the others are in retired slots
  cpu.Watermark(at_ns + 20 * kMs);
  cpu.Run(1, at_ns + 21 * kMs, at_ns + 20 * kMs - kStartNs - kMs);
  uint64_t named_ns = 0, others_ns = 0;
  size_t nr_named = 0;
  for (const Slot& slot : cpu.Finish())
    for (const WaitDetail& one : slot.wait_details) {
      if (!one.is_earlier() || one.ran.tgid == 31) continue;
      EXPECT_EQ(one.cause, kWaitOthers);
      if (one.has_ran()) {
        EXPECT_GE(one.ran.tgid, 24) << "the least are not named";
        EXPECT_EQ(one.ns, static_cast<uint64_t>(one.ran.tgid) * 100'000);
        nr_named++;
        named_ns += one.ns;
      } else {
        EXPECT_EQ(CommText(one.ran_comm), "") << "these have no name";
        others_ns += one.ns;
      }
    }
  EXPECT_EQ(nr_named, 7u) << "and the one with most is 31";
  EXPECT_EQ(others_ns, (11 + 23) * 13 / 2 * 100'000u);
  EXPECT_EQ(named_ns + others_ns, at_ns - kStartNs - kMs);
}

// Of many that ran briefly there is a row for each name.
TEST(Waits, OfALongWaitThoseWhoRanBrieflyAreOneForEachName) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + kMs);
  uint64_t at_ns = kStartNs + kMs;
  for (int32_t tgid = 11; tgid <= 110; tgid++) {
    cpu.Name(tgid, tgid % 4 ? "cc1" : "ld");
    at_ns += tgid <= 18 ? 2 * kMs : 100'000;
    cpu.Run(tgid, at_ns);
    cpu.Watermark(at_ns);
  }
  cpu.Run(2, at_ns + 20 * kMs);
  cpu.Watermark(at_ns + 20 * kMs);
  cpu.Run(1, at_ns + 21 * kMs, at_ns + 20 * kMs - kStartNs - kMs);
  std::map<std::string, uint64_t> several_ns;
  size_t nr_named = 0;
  for (const Slot& slot : cpu.Finish())
    for (const WaitDetail& one : slot.wait_details)
      if (one.is_earlier()) {
        nr_named += one.has_ran();
        if (!one.has_ran()) several_ns[std::string(CommText(one.ran_comm))] += one.ns;
      }
  EXPECT_EQ(nr_named, 8u) << "7 of the longest, and 2";
  // One of 2 ms is among them as well: the last in order.
  EXPECT_EQ(several_ns,
            (std::map<std::string, uint64_t>{{"cc1", 69 * 100'000 + 2 * kMs}, {"ld", 23 * 100'000}}));
}

// 2048 runs per CPU are kept.
TEST(Waits, WhoRanTooLongAgoIsNotKnown) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + kMs);
  uint64_t at_ns = kStartNs + kMs;
  for (size_t i = 0; i < 3000; i++) {
    at_ns += 100'000;
    cpu.Run(i % 2 ? 2 : 3, at_ns);
    cpu.Watermark(at_ns);
  }
  cpu.Run(4, at_ns + 20 * kMs);
  cpu.Watermark(at_ns + 20 * kMs);
  cpu.Run(1, at_ns + 21 * kMs, at_ns + 20 * kMs - kStartNs - kMs);
  std::map<int32_t, uint64_t> ran_ns;
  uint64_t unknown_ns = 0;
  for (const Slot& slot : cpu.Finish())
    for (const WaitDetail& one : slot.wait_details) {
      if (!one.is_earlier()) continue;
      (one.has_ran() ? ran_ns[one.ran.tgid] : unknown_ns) += one.ns;
      EXPECT_EQ(one.has_ran(), one.cause != kWaitUnknown);
    }
  EXPECT_EQ(ran_ns[2], Timeline::kKeptRuns / 2 * 100'000);
  EXPECT_EQ(ran_ns[3], Timeline::kKeptRuns / 2 * 100'000);
  EXPECT_EQ(unknown_ns, (3000 - Timeline::kKeptRuns) * 100'000);
}

TEST(Waits, AThreadsOwnRunEndsItsWait) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + 100'000);
  cpu.Run(2, kStartNs + 150'000);
  cpu.Run(3, kStartNs + 160'000);
  cpu.Run(1, kStartNs + 2 * kMs, 80'000, 0, 0, 20'000);
  const auto& slots = cpu.Finish();
  EXPECT_THAT(CausesOf(slots[0], 1), ElementsAre(80'000, 0, 0, 0));
  EXPECT_EQ(WaitOf(slots[0], 1).ran_instead.tgid, 2);
  EXPECT_EQ(WaitOf(slots[0], 1).ran_ns, 70'000u) << "who came next has what is left over";
}

TEST(Waits, WhoseCauseIsNotKnownSaysSo) {
  OneCpu cpu;
  cpu.Run(2, kStartNs + 500'000);
  cpu.Wait(1, kStartNs + 400'000, 100'000, SS_WAIT_HIDDEN);
  cpu.Wait(1, kStartNs + 400'000, 20'000, SS_WAIT_PHANTOM);
  cpu.Run(3, kStartNs + 600'000, 0, SS_MEASURE_UNKNOWN);
  cpu.Run(1, kStartNs + 2 * kMs, 150'000);
  const auto& slots = cpu.Finish();
  EXPECT_THAT(CausesOf(slots[0], 1), ElementsAre(50'000, 0, 0, 220'000));
  EXPECT_EQ(cpu.builder().waits().nr_hidden, 1u);
  EXPECT_EQ(cpu.builder().waits().nr_phantom, 1u);
}

// A recording that is to cost less: how long, and when, is said as before, and why again when it goes
// back.
TEST(Waits, CausesCanBeDoneWithout) {
  constexpr uint64_t kLeadNs = 10 * kMs;  // before that is followed
  constexpr uint64_t kOffNs = kStartNs + 12 * kMs, kOnNs = kOffNs + 2 * kMs;
  OneCpu cpu;
  cpu.Causes(kOffNs - kLeadNs, false);
  cpu.Causes(kOffNs - kLeadNs, false);
  cpu.Causes(kOnNs - kLeadNs, true);
  cpu.Run(2, kOffNs - 1);
  cpu.Run(1, kOffNs + 500'000, 100'000);                           // ended 1 ns too early
  cpu.Run(2, kOffNs + 900'000, 1'000'000);                         // of it half a slot earlier
  cpu.Wait(1, kOffNs + 800'000, 30'000, SS_WAIT_OWN, kOffNs + 1);  // a sum
  cpu.Wait(3, kOffNs + 800'000, 30'000, SS_WAIT_QUOTA, kOffNs, kOffNs + 790'000);
  cpu.Run(4, kOnNs - 1, 50'000, 0, 0, 20'000);
  cpu.Run(1, kOnNs + 3 * kMs, kMs);
  cpu.Wait(3, kOnNs + 700'000, 60'000, SS_WAIT_MOVED);
  const auto& slots = cpu.Finish();
  ASSERT_GT(slots.size(), 14u);
  EXPECT_THAT(CausesOf(slots[11], 1), ElementsAre(100'000, 0, 0, 0)) << "of the last it had one";
  EXPECT_THAT(CausesOf(slots[11], 2), ElementsAre(0, 0, 0, 500'000));
  EXPECT_THAT(CausesOf(slots[12], 2), ElementsAre(0, 0, 0, 500'000));
  EXPECT_EQ(WaitOf(slots[12], 2).longest_ns, kMs);
  EXPECT_THAT(CausesOf(slots[12], 1), ElementsAre(0, 0, 0, 30'001));
  EXPECT_THAT(CausesOf(slots[12], 3), ElementsAre(0, 0, 0, 10'000));
  EXPECT_EQ(WaitOf(slots[12], 3).ns[kWaitThrottled], 20'000u) << "for that nobody is to be looked at";
  EXPECT_THAT(CausesOf(slots[12], 4), ElementsAre(0, 0, 0, 50'000));
  EXPECT_EQ(WaitOf(slots[13], 1).ns[kWaitUnknown], 999'999u) << "it ended 1 ns too early";
  EXPECT_THAT(CausesOf(slots[14], 3), ElementsAre(60'000, 0, 0, 0)) << "it is told again";
}

// A thread that left this queue: who runs there comes later than the message.
TEST(Waits, AWaitInAnotherQueueStaysUntilItsCpuHasSpoken) {
  OneCpu cpu;
  cpu.Run(2, kStartNs + 100'000);
  cpu.Wait(1, kStartNs + 300'000, 150'000, SS_WAIT_MOVED);
  cpu.Watermark(kStartNs + 350'000);
  cpu.Run(3, kStartNs + 2 * kMs);
  const auto& slots = cpu.Finish();
  EXPECT_EQ(WaitOf(slots[0], 1).ran_instead.tgid, 3);
  EXPECT_THAT(CausesOf(slots[0], 1), ElementsAre(150'000, 0, 0, 0));
}

// Of every machine: details, rows and who ran longest say the same.
TEST(Waits, DetailsAddUpToRows) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    GeneratorOptions machine;
    machine.seed = seed;
    machine.nr_cpus = 1 + seed % 5;
    machine.duration_ms = 200;
    machine.nr_processes = 30;
    machine.waits = true;
    machine.late_ppm = 5000;
    machine.lost_ppm = 5000;
    Generator generator(machine);
    Slots slots;
    Engine engine(generator.facts(), kMs, 20 * kMs, GpuTracker::kNothing, &slots);
    auto block = std::make_unique<Block>();
    while (generator.Next(block.get())) ASSERT_TRUE(engine.merger().OnItems(block->bytes()));
    engine.Finish();
    size_t nr = 0;
    for (const Slot& slot : slots.slots) {
      std::map<ProcessKey, WaitRow> sums;
      std::map<std::pair<ProcessKey, ProcessKey>, uint64_t> ran;
      for (const WaitDetail& one : slot.wait_details) {
        if (one.is_earlier())
          sums[one.waiter].earlier_ns += one.ns;
        else
          sums[one.waiter].ns[one.cause] += one.ns;
        if (one.cause != kWaitOthers || one.is_earlier()) continue;
        WaitRow& sum = sums[one.waiter];
        uint64_t& ns = ran[{one.waiter, one.ran}];
        ns += one.ns;
        sum.ran_ns = std::max(sum.ran_ns, ns);
      }
      for (const Row& row : slot.rows) {
        if (!row.wait) continue;
        const WaitRow& wait = slot.waits[row.wait - 1];
        ASSERT_EQ(wait.ns, sums[row.key].ns);
        ASSERT_EQ(wait.earlier_ns, sums[row.key].earlier_ns);
        ASSERT_EQ(wait.ran_ns, sums[row.key].ran_ns);
        ASSERT_EQ(wait.sum(), row.sums[kWaitNs]);
        if (wait.ran_ns) {
          ASSERT_EQ((ran[{row.key, wait.ran_instead}]), wait.ran_ns);
        }
        nr++;
      }
    }
    EXPECT_GT(nr, 100u);
  }
}

// Whoever ran while its quota was used up is no neighbour.
TEST(Waits, WhileItsQuotaIsUsedUpNobodyIsInItsWay) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + 100'000);
  cpu.Run(2, kStartNs + 700'000);
  cpu.Run(1, kStartNs + 800'000);
  cpu.Run(2, kStartNs + 2 * kMs);
  // Ran until 100, throttled until 600, in the queue until 700.
  cpu.Wait(1, kStartNs + 700'000, 600'000, SS_WAIT_QUOTA, kStartNs + 90'000, kStartNs + 600'000);
  // Throttled in the midst, and over a border; it would be others' without.
  cpu.Wait(3, kStartNs + 1'900'000, 1'000'000, SS_WAIT_QUOTA, kStartNs + 950'000, kStartNs + 1'800'000);
  const auto& slots = cpu.Finish();
  ASSERT_EQ(slots.size(), 2u);
  const auto causes = [&](size_t slot, int32_t tgid) {
    for (const Row& row : slots[slot].rows)
      if (row.key.tgid == tgid && row.wait) return slots[slot].waits[row.wait - 1].ns;
    return std::array<uint64_t, kNrWaitCauses>{};
  };
  EXPECT_THAT(causes(0, 1), ElementsAre(100'000, 0, 500'000, 0, 0, 0));
  EXPECT_THAT(causes(0, 3), ElementsAre(50'000, 0, 50'000, 0, 0, 0));
  EXPECT_THAT(causes(1, 3), ElementsAre(100'000, 0, 800'000, 0, 0, 0));
}

TEST(Waits, OfALongThrottlingWhatPassedInRetiredSlotsIsOneRow) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + kMs);
  for (uint64_t ms = 2; ms <= 60; ms++) {
    cpu.Run(2, kStartNs + ms * kMs);
    cpu.Watermark(kStartNs + ms * kMs);
  }
  cpu.Wait(1, kStartNs + 60 * kMs, 59 * kMs, SS_WAIT_QUOTA, kStartNs + kMs,
           kStartNs + 60 * kMs - 100'000);
  uint64_t earlier_ns = 0, throttled_ns = 0, others_ns = 0, nr_earlier = 0;
  for (const Slot& slot : cpu.Finish()) {
    for (const WaitRow& row : slot.waits) {
      earlier_ns += row.earlier_ns;
      throttled_ns += row.ns[kWaitThrottled];
      others_ns += row.ns[kWaitOthers];
    }
    for (const WaitDetail& detail : slot.wait_details)
      if (detail.is_earlier()) {
        nr_earlier++;
        EXPECT_EQ(detail.cause, kWaitThrottled);
        EXPECT_EQ(detail.start_ns, kStartNs + kMs);
      }
  }
  EXPECT_EQ(nr_earlier, 1u);
  EXPECT_GT(earlier_ns, 40 * kMs);
  EXPECT_GT(throttled_ns, 5 * kMs);
  EXPECT_EQ(others_ns, 100'000u);
  EXPECT_EQ(earlier_ns + throttled_ns + others_ns, 59 * kMs);
}

TEST(Waits, WhereNobodyKnowsHowLongNobodyKnowsWhy) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + kMs, 0, SS_MEASURE_NO_WAIT);
  cpu.Run(2, kStartNs + 2 * kMs);
  for (const Slot& slot : cpu.Finish()) {
    ASSERT_EQ(slot.rows.size(), 1u);
    const bool is_known = slot.rows[0].key.tgid == 2;
    for (const Column& column : kSlotColumns) {
      if (column.part == RowPart::kWait && column.is_value()) {
        EXPECT_EQ(ValueOf(slot, slot.rows[0], column).has_value(), is_known && column.id != kWaitSteal)
            << column.name;
      }
    }
    TextFile file;
    CsvSink sink(&file, 0, 0);
    sink.OnSlot(slot);
    sink.Flush();
    EXPECT_THAT(file.text, EndsWith(is_known ? "1000000,0,0,0,0,0,,0,,,,,,1,0,0,,,,,,,,,,,,\n"
                                             : "1000000,,,,,,,,,,,,,1,0,0,,,,,,,,,,,,\n"));
  }
}

TEST(Waits, ATableOfThemFollowsTheRowsThatAreKept) {
  OneCpu cpu;
  cpu.Run(1, kStartNs + 100'000);
  cpu.Run(2, kStartNs + 200'000, 50'000);
  cpu.Run(1, kStartNs + 2 * kMs, 90'000);
  Slot slot = cpu.Finish()[0];
  TextFile file;
  WaitSink sink(&file);
  sink.WriteHeader({});
  const size_t header = file.text.size();
  FoldOptions fold;
  fold.tgids = {1};
  FoldSlot(fold, &slot);
  sink.OnSlot(slot);
  sink.Flush();
  EXPECT_EQ(file.text.substr(header), "100000000,100000000,1,1,,others,2,1,,0,90000,1,,,\n");
  EXPECT_THAT(file.text, HasSubstr("cause,ran_tgid,ran_start_time_ns,ran_comm,cpu,ns,waits"));
  ASSERT_EQ(slot.rows.back().kind, RowKind::kOther);
  EXPECT_EQ(slot.waits[slot.rows.back().wait - 1].ns[kWaitOthers], 50'000u);
  EXPECT_EQ(sink.Contents(), "1 rows");
}

TEST(PairTable, KnowsTheWorstOfManyMoreThanItKeeps) {
  PairTable table;
  for (int32_t i = 0; i < 50'000; i++) {
    Slot slot;
    WaitDetail& one = slot.wait_details.emplace_back();
    one.waiter = {i % 20'000, 1};
    one.ran = {7, 1};
    one.ns = 1;
    WaitDetail& worst = slot.wait_details.emplace_back();
    worst.waiter = {1, 1};
    worst.ran = {8, 1};
    worst.ns = 3;
    WaitDetail& self = slot.wait_details.emplace_back();
    self.waiter = {1, 1};
    self.cause = kWaitSelf;
    self.ns = 1000;
    table.OnSlot(slot);
  }
  const auto pairs = table.Worst(5);
  ASSERT_EQ(pairs.size(), 5u);
  EXPECT_EQ(pairs[0].ran.tgid, 8);
  EXPECT_EQ(pairs[0].ns, 150'000u);
}

}  // namespace
}  // namespace slotscope
