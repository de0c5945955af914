// SPDX-License-Identifier: MIT
// What a CPU's time is counted by, in the kernel as in eBPF.
#include <gtest/gtest.h>
#include <slotscope/interval.h>

#include <cstdint>

namespace {

constexpr uint64_t kMs = 1'000'000;

struct Interval : ss_interval {
  Interval() : ss_interval{} { ss_interval_begin(this, 5 * kMs); }
  ss_measure Measure(uint64_t clock_ns, int32_t next_tgid = 0, uint32_t cause = 0) {
    const uint64_t now_ns = ss_interval_now(this, clock_ns);
    ss_measure measure = {};
    ss_interval_fill(this, &measure, 3, now_ns, next_tgid, cause);
    ss_interval_next(this, now_ns);
    return measure;
  }
};

TEST(Interval, EachBeginsWhereTheLastEnds) {
  Interval interval;
  interval.tgid = 7;
  interval.rmid = 2;
  interval.flags = SS_MEASURE_KTHREAD;
  const ss_measure one = interval.Measure(6 * kMs, 8);
  EXPECT_EQ(one.hdr.type, SS_MEASURE);
  EXPECT_EQ(one.hdr.size, sizeof(one));
  EXPECT_EQ(one.hdr.cpu, 3u);
  EXPECT_EQ(one.start_ns, 5 * kMs);
  EXPECT_EQ(one.hdr.ts_ns, 6 * kMs);
  EXPECT_EQ(one.tgid, 7);
  EXPECT_EQ(one.next_tgid, 8);
  EXPECT_EQ(one.rmid, 2u);
  EXPECT_EQ(one.flags, SS_MEASURE_KTHREAD | SS_INTERVAL_HAS);
  // A clock that steps back takes no time away.
  const ss_measure two = interval.Measure(6 * kMs - 40, 7, SS_MEASURE_TICK);
  EXPECT_EQ(two.start_ns, 6 * kMs);
  EXPECT_EQ(two.hdr.ts_ns, 6 * kMs);
  EXPECT_EQ(two.flags, SS_MEASURE_KTHREAD | SS_MEASURE_TICK | SS_INTERVAL_HAS);
  EXPECT_EQ(two.seq, one.seq + 1);
}

TEST(Interval, CountsAreOfOneMeasure) {
  Interval interval;
  interval.run_delay = 100;
  interval.wait_ns += ss_interval_take_wait(&interval, 130);
  ss_interval_count_switch(&interval, 1, 1, 10);  // preempted
  ss_interval_count_switch(&interval, 0, 0, 10);  // it yields while it can run
  ss_interval_count_switch(&interval, 0, 1, 10);  // it sleeps
  ss_interval_count_switch(&interval, 1, 0, 0);   // the idle task is never preempted
  interval.wait_ns += ss_interval_take_wait(&interval, 150);
  const ss_measure one = interval.Measure(6 * kMs);
  EXPECT_EQ(one.wait_ns, 50u);
  EXPECT_EQ(one.switches, 4u);
  EXPECT_EQ(one.preemptions, 2u);
  EXPECT_EQ(ss_interval_take_wait(&interval, 150), 0u);
  const ss_measure two = interval.Measure(7 * kMs);
  EXPECT_EQ(two.wait_ns, 0u);
  EXPECT_EQ(two.switches, 0u);
  EXPECT_EQ(two.preemptions, 0u);
}

// Another thread than the one that was looked at has waited less.
// By the kernel's task states, of which several bits may be set.
TEST(Interval, HowAThreadLeavesTheCpu) {
  const struct {
    int preempt;
    unsigned state;
    int in_iowait;
    ss_left left;
  } cases[] = {
      {0, 0, 0, SS_LEFT_RUNNABLE},      // it yields
      {1, 0x1, 0, SS_LEFT_RUNNABLE},    // on its way to sleep
      {0, 0x1, 0, SS_LEFT_ASLEEP},      //
      {0, 0x2001, 0, SS_LEFT_ASLEEP},   // TASK_FREEZABLE
      {0, 0x402, 0, SS_LEFT_ASLEEP},    // TASK_IDLE
      {0, 0x40, 0, SS_LEFT_ASLEEP},     // TASK_PARKED
      {0, 0x2, 1, SS_LEFT_DISK},        //
      {0, 0x102, 1, SS_LEFT_DISK},      // TASK_KILLABLE
      {0, 0x2, 0, SS_LEFT_BLOCKED},     //
      {0, 0x2102, 0, SS_LEFT_BLOCKED},  // vfork
      {0, 0x1000, 0, SS_LEFT_BLOCKED},  // TASK_RTLOCK_WAIT
      {0, 0x104, 0, SS_LEFT_STOPPED},   // TASK_STOPPED
      {0, 0x8000, 0, SS_LEFT_STOPPED},  // TASK_FROZEN
      {0, 0x108, 0, SS_LEFT_TRACED},    // TASK_TRACED
      {0, 0x80, 0, SS_LEFT_ENDED},      // TASK_DEAD
  };
  for (const auto& c : cases)
    EXPECT_EQ(ss_measure_left(c.preempt, c.state, c.in_iowait) >> SS_MEASURE_LEFT_SHIFT, c.left)
        << c.state;
}

TEST(Interval, AWaitNeverGoesBack) {
  Interval interval;
  interval.run_delay = 1000;
  EXPECT_EQ(ss_interval_take_wait(&interval, 400), 0u);
  EXPECT_EQ(ss_interval_take_wait(&interval, 500), 100u);
}

TEST(Interval, TimeOfNobodyHasNoName) {
  Interval interval;
  interval.tgid = 7;
  interval.start_time_ns = 9;
  interval.rmid = interval.generation = 3;
  ss_interval_set_nobody(&interval, SS_MEASURE_UNKNOWN);
  const ss_measure measure = interval.Measure(6 * kMs);
  EXPECT_EQ(measure.tgid, 0);
  EXPECT_EQ(measure.start_time_ns, 0u);
  EXPECT_EQ(measure.rmid, 0u);
  EXPECT_EQ(measure.generation, 0u);
  EXPECT_EQ(measure.flags, SS_MEASURE_UNKNOWN | SS_INTERVAL_HAS);
}

TEST(Interval, TicksThatDidNotComeAreCounted) {
  Interval interval;
  EXPECT_EQ(ss_interval_missed_ticks(&interval, 10 * kMs), 0u) << "the first";
  EXPECT_EQ(ss_interval_missed_ticks(&interval, 11 * kMs), 0u);
  EXPECT_EQ(ss_interval_missed_ticks(&interval, 14 * kMs), 2u);
  // A timer that is not aligned: to the nearest.
  EXPECT_EQ(ss_interval_missed_ticks(&interval, 15 * kMs + 400'000), 0u);
  EXPECT_EQ(ss_interval_missed_ticks(&interval, 17 * kMs + 300'000), 1u);
  ss_interval_begin(&interval, 20 * kMs);
  EXPECT_EQ(ss_interval_missed_ticks(&interval, 30 * kMs), 0u) << "it began anew";
}

}  // namespace
