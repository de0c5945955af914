// SPDX-License-Identifier: MIT
// The rule of both kernel sides for what is told of a wait (slotscope/waits.h).
#include <gtest/gtest.h>
#include <slotscope/waits.h>

namespace slotscope {
namespace {

constexpr uint64_t kUs = 1000;
constexpr uint64_t kBeginNs = 5'000'000;

struct Cpu {
  ss_interval interval = {};
  ss_last_run last[4] = {};
  uint64_t told_ns = 0;  // by messages of their own

  Cpu() { ss_interval_begin(&interval, kBeginNs); }
  // The thread `who` begins to run, and is measured at once: the kernel has added its wait by then.
  uint64_t Run(uint64_t who, uint64_t in_ns, uint64_t run_delay, uint64_t wait_ns) {
    ss_interval_begin_run(&interval, &last[who], who, run_delay, 0, in_ns);
    const uint64_t left_ns =
        ss_interval_add_wait(&interval, ss_interval_take_wait(&interval, run_delay + wait_ns));
    told_ns += left_ns;
    return left_ns;
  }
  void End(uint64_t who, uint64_t out_ns) {
    ss_last_run_end(&last[who], who, interval.run_delay, 0, out_ns, 0);
  }
  ss_measure Measure(uint64_t now_ns) {
    ss_measure measure = {};
    ss_interval_fill(&interval, &measure, 0, now_ns, 1, 0);
    ss_interval_next(&interval, now_ns);
    return measure;
  }
};

TEST(WaitRule, AWaitThatEndsWhereTheIntervalBeginsRidesOnItsMeasure) {
  Cpu cpu;
  EXPECT_EQ(cpu.Run(1, kBeginNs, 1000, 300), 0u);
  const ss_measure measure = cpu.Measure(kBeginNs + 50 * kUs);
  EXPECT_EQ(measure.wait_ns, 300u);
  EXPECT_EQ(measure.flags, SS_MEASURE_ONE_WAIT);
  EXPECT_EQ(cpu.interval.self_ns, 0u);
  const ss_measure next = cpu.Measure(kBeginNs + 60 * kUs);
  EXPECT_EQ(next.wait_ns, 0u);
  EXPECT_EQ(next.flags, 0u);
}

TEST(WaitRule, WhileAnotherThreadOfItsProcessRanItWaitedForItself) {
  Cpu cpu;
  cpu.Run(1, kBeginNs, 0, 0);
  cpu.End(1, kBeginNs + 100 * kUs);
  // Thread 2 came 40 us ago, and ran on this CPU before: within this interval there was nobody else.
  EXPECT_EQ(cpu.Run(2, kBeginNs + 100 * kUs, 0, 40 * kUs), 0u);
  EXPECT_EQ(cpu.interval.self_ns, 40 * kUs);
  EXPECT_EQ(cpu.interval.wait_ns, 0u);
  cpu.End(2, kBeginNs + 200 * kUs);
  // Thread 3 waited for 500 us: 200 of them for these two; the rest is for whoever was there before.
  EXPECT_EQ(cpu.Run(3, kBeginNs + 200 * kUs, 0, 500 * kUs), 0u);
  EXPECT_EQ(cpu.interval.self_ns, 240 * kUs);
  EXPECT_EQ(cpu.interval.wait_ns, 300 * kUs);
  cpu.End(3, kBeginNs + 250 * kUs);
  // A second one that reaches out of the interval has no room in the measure.
  EXPECT_EQ(cpu.Run(1, kBeginNs + 250 * kUs, 0, 0), 0u);
  cpu.End(1, kBeginNs + 260 * kUs);
  EXPECT_EQ(cpu.Run(0, kBeginNs + 260 * kUs, 0, 400 * kUs), 140 * kUs);
  EXPECT_EQ(cpu.interval.self_ns, 500 * kUs);
}

TEST(WaitRule, AWaitCannotBeginBeforeTheThreadsOwnRunEnded) {
  Cpu cpu;
  cpu.Run(1, kBeginNs, 0, 0);
  cpu.End(1, kBeginNs + 100 * kUs);
  cpu.Measure(kBeginNs + 100 * kUs);
  cpu.Run(2, kBeginNs + 100 * kUs, 0, 0);
  cpu.End(2, kBeginNs + 110 * kUs);
  cpu.Measure(kBeginNs + 110 * kUs);
  // The scheduler says 30 us, of which 10 can be.
  EXPECT_EQ(cpu.Run(1, kBeginNs + 110 * kUs, 0, 30 * kUs), 0u);
  EXPECT_EQ(cpu.interval.wait_ns, 30 * kUs);
  EXPECT_EQ(cpu.interval.wait_flags, SS_MEASURE_ONE_WAIT);
  EXPECT_EQ(cpu.interval.cut_ns, 20 * kUs);
  // Where it ran last within the interval there was nobody else at all.
  cpu.End(1, kBeginNs + 120 * kUs);
  EXPECT_EQ(cpu.Run(1, kBeginNs + 125 * kUs, 30 * kUs, 50 * kUs), 0u);
  EXPECT_EQ(cpu.interval.self_ns, 50 * kUs);
}

TEST(WaitRule, WhatWasAddedWhileNobodyLookedIsToldOnce) {
  Cpu cpu;
  cpu.Run(1, kBeginNs, 1000, 500);
  cpu.End(1, kBeginNs + kUs);
  cpu.Measure(kBeginNs + kUs);
  // In another queue, or behind a switch that was hidden: 700 more.
  EXPECT_EQ(cpu.Run(1, kBeginNs + kUs, 2200, 100), 0u);
  EXPECT_EQ(cpu.interval.wait_ns, 800u);
  cpu.Measure(kBeginNs + 2 * kUs);
  EXPECT_EQ(ss_interval_take_wait(&cpu.interval, 2300), 0u);
}

TEST(WaitRule, AThreadThatIsNotKnownIsToldFromItsSwitchInOn) {
  Cpu cpu;
  EXPECT_EQ(cpu.Run(1, kBeginNs, 1'000'000'000, 40), 0u);
  EXPECT_EQ(cpu.interval.wait_ns, 40u);
}

TEST(WaitRule, WhatPassedOtherwiseHasAMessage) {
  Cpu cpu;
  ss_interval_begin_run(&cpu.interval, &cpu.last[1], 1, 0, 0, kBeginNs);
  cpu.interval.wait_odd = SS_WAIT_HIDDEN;
  EXPECT_EQ(ss_interval_add_wait(&cpu.interval, 77), 77u);
  EXPECT_EQ(cpu.interval.wait_ns, 0u);
}

// In the measure in which it runs again, once, and not of a thread that was just born.
TEST(WaitRule, AThreadThatRunsElsewhereThanBeforeHasMigrated) {
  Cpu cpu;
  const auto run_on = [&](uint64_t who, uint32_t on, uint64_t in_ns) {
    ss_interval_begin_run(&cpu.interval, &cpu.last[who], who, 0, on, in_ns);
    EXPECT_EQ(cpu.interval.migrations, 0u) << "it is the next measure's";
    ss_interval_take_wait(&cpu.interval, 0);
    ss_last_run_end(&cpu.last[who], who, 0, on, in_ns + kUs, 0);
    return cpu.Measure(in_ns + kUs).migrations;
  };
  ss_last_run_end(&cpu.last[1], 1, 0, 5, 0, 0);  // born on CPU 5
  EXPECT_EQ(run_on(1, 3, kBeginNs), 0u);
  EXPECT_EQ(run_on(1, 3, kBeginNs + 10 * kUs), 0u);
  EXPECT_EQ(run_on(1, 4, kBeginNs + 20 * kUs), 1u);
  EXPECT_EQ(run_on(2, 4, kBeginNs + 30 * kUs), 0u) << "another thread";
  EXPECT_EQ(run_on(1, 3, kBeginNs + 40 * kUs), 1u);
}

// Two threads whose pids have the same place, and a write that is half done.
TEST(WaitRule, AnEntryIsBelievedOnlyIfAllOfItFits) {
  ss_last_run entry = {}, run = {};
  run.run_delay = 5;
  run.out_ns = 6;
  run.cpu = 7;
  ss_last_run_set(&entry, ss_thread_of(10, 1000), &run);
  EXPECT_TRUE(ss_last_run_get(&entry, ss_thread_of(10, 1000), &run));
  EXPECT_FALSE(ss_last_run_get(&entry, ss_thread_of(10 + SS_LAST_RUNS, 1000), &run));
  EXPECT_FALSE(ss_last_run_get(&entry, ss_thread_of(10, 1001), &run));
  for (size_t i = 0; i < sizeof(entry); i++) {
    ss_last_run torn = entry;
    reinterpret_cast<unsigned char*>(&torn)[i] ^= 1;
    EXPECT_FALSE(ss_last_run_get(&torn, ss_thread_of(10, 1000), &run)) << i;
  }
}

}  // namespace
}  // namespace slotscope
