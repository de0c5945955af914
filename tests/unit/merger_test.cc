// SPDX-License-Identifier: MIT
// The merge, through a sink that writes down what it gets. Times are literal nanoseconds.
#include "merge/merger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kWindowNs = 64 * kMs;

struct Got {
  uint64_t ts_ns;
  uint64_t id;
  uint32_t cpu;
  uint16_t type;
  bool late;
};

class Recorder final : public MergeSink {
 public:
  void OnMessage(const ss_any_message& message, bool late) override {
    uint64_t id = message.hdr.type == SS_TICK ? message.tick.due_ns : 0;
    got.push_back({message.hdr.ts_ns, id, message.hdr.cpu, message.hdr.type, late});
  }
  void OnExpected(int cpu) override { expected.push_back(cpu); }
  void OnDumpEnd(uint64_t begin_ns) override {
    dumps.push_back(begin_ns);
    nr_before_dump.push_back(got.size());
  }
  void OnWatermark(uint64_t ts_ns) override { watermarks.push_back(ts_ns); }

  std::vector<uint64_t> Times() const {
    std::vector<uint64_t> times;
    for (const Got& one : got) times.push_back(one.ts_ns);
    return times;
  }

  std::vector<Got> got;
  std::vector<int> expected;
  std::vector<uint64_t> dumps, watermarks;
  std::vector<size_t> nr_before_dump;
};

using Times = std::vector<uint64_t>;

class Merge {
 public:
  explicit Merge(size_t nr_cpus, uint64_t window_ns = kWindowNs)
      : nr_cpus_(nr_cpus), merger_(nr_cpus, window_ns, &sink) {}

  void Note(size_t stream, FrameKind kind, uint64_t value) {
    FrameBuffer frame = {};
    frame.header = {kind, 0, 0, value};
    merger_.OnFrame(stream, frame);
  }
  void Online(uint64_t ts_ns) {
    for (size_t cpu = 0; cpu < nr_cpus_; cpu++) Note(cpu, FrameKind::kOnline, ts_ns);
  }
  // The clock before a drain: the CPU has passed `passed_ns`.
  void Passed(size_t cpu, uint64_t passed_ns) { Note(cpu, FrameKind::kRound, passed_ns + kGraceNs); }
  void AllPassed(uint64_t passed_ns) {
    for (size_t cpu = 0; cpu < nr_cpus_; cpu++) Passed(cpu, passed_ns);
  }
  void Bytes(size_t stream, const void* bytes, uint16_t size) {
    FrameBuffer frame = {};
    frame.header = {FrameKind::kMessage, size, 0, 0};
    std::memcpy(frame.payload.data(), bytes, size);
    merger_.OnFrame(stream, frame);
  }
  void Message(size_t stream, uint32_t cpu, uint64_t ts_ns, uint64_t id = 0) {
    ss_tick tick = {};
    tick.hdr = {ts_ns, SS_TICK, sizeof(tick), cpu};
    tick.due_ns = id;
    Bytes(stream, &tick, sizeof(tick));
  }
  void Message(uint32_t cpu, uint64_t ts_ns) { Message(cpu, cpu, ts_ns); }
  void Advance() { merger_.Advance(); }
  void Flush() { merger_.Flush(); }
  const MergeStats& stats() const { return merger_.stats(); }
  uint64_t watermark_ns() const { return merger_.watermark_ns(); }
  size_t dump_stream() const { return nr_cpus_; }

  Recorder sink;

 private:
  size_t nr_cpus_;
  Merger merger_;
};

TEST(Merger, EmitsNothingBeforeWatermark) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Message(0, 10 * kMs);
  merge.Message(1, 12 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({}));
  merge.Passed(0, 20 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({})) << "CPU 1 has not said where it is";
  merge.Passed(1, 11 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({10 * kMs}));
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs);
  merge.Passed(1, 20 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({10 * kMs, 12 * kMs}));
}

TEST(Merger, KeepsAMessageThatIsAtTheWatermark) {
  Merge merge(1);
  merge.Online(1);
  merge.Message(0, 5 * kMs - 1);
  merge.Message(0, 5 * kMs);
  merge.Passed(0, 5 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({5 * kMs - 1}));
  merge.Message(0, 5 * kMs);  // its company
  merge.Passed(0, 5 * kMs + 1);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({5 * kMs - 1, 5 * kMs, 5 * kMs}));
  EXPECT_EQ(merge.stats().nr_late, 0u);
}

TEST(Merger, TakesAGraceOffTheDrainClock) {
  Merge merge(1);
  merge.Online(1);
  merge.Note(0, FrameKind::kRound, 10 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 10 * kMs - kGraceNs);
}

TEST(Merger, HandsOutAllCpusInTheOrderOfTime) {
  Merge merge(3);
  merge.Online(1);
  for (uint64_t ts_ns : {10, 40, 70}) merge.Message(0, ts_ns);
  for (uint64_t ts_ns : {20, 30, 90}) merge.Message(1, ts_ns);
  for (uint64_t ts_ns : {50, 60, 80}) merge.Message(2, ts_ns);
  merge.AllPassed(100);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({10, 20, 30, 40, 50, 60, 70, 80, 90}));
}

TEST(Merger, RepairsInversionsInsideAStream) {
  Merge merge(2);
  merge.Online(1);
  for (uint64_t ts_ns : {10, 40, 30, 20, 50}) merge.Message(0, ts_ns);
  for (uint64_t ts_ns : {35, 15}) merge.Message(1, ts_ns);
  merge.AllPassed(100);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({10, 15, 20, 30, 35, 40, 50}));
  EXPECT_EQ(merge.stats().nr_reordered, 3u);
  EXPECT_EQ(merge.stats().nr_late, 0u);
}

TEST(Merger, EqualTimesOfOneStreamKeepTheirOrder) {
  Merge merge(1);
  merge.Online(1);
  for (uint64_t id : {1, 2, 3}) merge.Message(0, 0, 10, id);
  merge.AllPassed(100);
  merge.Advance();
  ASSERT_EQ(merge.sink.got.size(), 3u);
  for (size_t i = 0; i < 3; i++) EXPECT_EQ(merge.sink.got[i].id, i + 1);
}

TEST(Merger, IdleCpuPassesByItsDrainClock) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Message(0, 30 * kMs);
  merge.AllPassed(40 * kMs);  // CPU 1 has said nothing at all
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({30 * kMs}));
  EXPECT_EQ(merge.stats().nr_stalls, 0u);
}

TEST(Merger, StalledCpuDoesNotHoldTheWatermarkAndIsLateUntilItCatchesUp) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.AllPassed(10 * kMs);
  merge.Advance();
  merge.Passed(0, 10 * kMs + kWindowNs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 10 * kMs) << "a window behind is not yet stalled";
  EXPECT_EQ(merge.stats().nr_stalls, 0u);
  merge.Passed(0, 11 * kMs + kWindowNs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs + kWindowNs);
  merge.Passed(0, 12 * kMs + kWindowNs);
  merge.Advance();
  EXPECT_EQ(merge.stats().nr_stalls, 1u) << "one stall is counted once";

  merge.Message(1, 20 * kMs);
  ASSERT_EQ(merge.sink.got.size(), 1u);
  EXPECT_TRUE(merge.sink.got[0].late);
  EXPECT_EQ(merge.stats().nr_late, 1u);

  merge.Message(1, 90 * kMs);
  merge.AllPassed(95 * kMs);
  merge.Advance();
  ASSERT_EQ(merge.sink.got.size(), 2u);
  EXPECT_FALSE(merge.sink.got[1].late) << "it has caught up";
  EXPECT_EQ(merge.stats().nr_late, 1u);
  merge.Passed(0, 100 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 95 * kMs) << "and is waited for again";
}

TEST(Merger, OfflineCpuEndsAtItsState) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.AllPassed(10 * kMs);
  merge.Advance();
  merge.Message(1, 12 * kMs);
  merge.Note(1, FrameKind::kOffline, 15 * kMs);
  merge.Message(0, 14 * kMs);
  merge.Message(0, 16 * kMs);
  merge.Passed(0, 20 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({12 * kMs, 14 * kMs, 15 * kMs, 16 * kMs}));
  EXPECT_EQ(merge.sink.got[2].type, SS_CPU_STATE);
  EXPECT_EQ(merge.sink.got[2].cpu, 1u);
  EXPECT_EQ(merge.watermark_ns(), 20 * kMs) << "CPU 1 holds nothing back";
}

TEST(Merger, CpuThatComesOnlineIsWaitedFor) {
  Merge merge(2);
  merge.Note(0, FrameKind::kOnline, 1 * kMs);
  merge.Passed(0, 10 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 10 * kMs);
  merge.Note(1, FrameKind::kOnline, 11 * kMs);
  merge.Passed(0, 20 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs);
}

TEST(Merger, TellsAtOnceWhichCpusAreExpectedToMeasure) {
  Merge merge(3);
  merge.Online(1);
  EXPECT_TRUE(merge.sink.expected.empty()) << "a CPU may be online and not watched";
  merge.Note(2, FrameKind::kExpected, 5);
  merge.Note(0, FrameKind::kExpected, 5);
  EXPECT_EQ(merge.sink.expected, std::vector<int>({2, 0}));
}

// The reader noticed the end of a CPU that had long been stalled.
TEST(Merger, OfflineBehindTheWatermarkDoesNotGoBackInTime) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.AllPassed(10 * kMs);
  merge.Passed(0, 100 * kMs);
  merge.Message(0, 90 * kMs);
  merge.Advance();
  ASSERT_EQ(merge.sink.Times(), Times({90 * kMs}));
  merge.Note(1, FrameKind::kOffline, 80 * kMs);
  merge.Passed(0, 101 * kMs);
  merge.Advance();
  ASSERT_EQ(merge.sink.got.size(), 2u);
  EXPECT_TRUE(merge.sink.got[1].late || merge.sink.got[1].ts_ns >= 100 * kMs);
}

TEST(Merger, FlagsAndCountsWhatIsLate) {
  Merge merge(1);
  merge.Online(1);
  merge.Passed(0, 10 * kMs);
  merge.Advance();
  merge.Message(0, 10 * kMs - 1);
  merge.Message(0, 10 * kMs);
  ASSERT_EQ(merge.sink.got.size(), 1u) << "late ones are handed out at once";
  EXPECT_TRUE(merge.sink.got[0].late);
  merge.Passed(0, 11 * kMs);
  merge.Advance();
  ASSERT_EQ(merge.sink.got.size(), 2u);
  EXPECT_FALSE(merge.sink.got[1].late);
  EXPECT_EQ(merge.stats().nr_late, 1u);
  EXPECT_EQ(merge.stats().nr_messages, 2u);
}

TEST(Merger, CountsWhatItCannotUse) {
  Merge merge(2);
  merge.Online(1);
  ss_tick tick = {};
  tick.hdr = {10, SS_TICK, sizeof(tick), 0};
  merge.Bytes(0, &tick, 15);                // shorter than a header
  merge.Bytes(0, &tick, 0);                 // empty
  merge.Bytes(0, &tick, sizeof(tick) - 1);  // its size says otherwise
  EXPECT_EQ(merge.stats().nr_malformed, 3u);
  tick.hdr.type = 31;
  merge.Bytes(0, &tick, sizeof(tick));
  tick.hdr.type = 0xffff;
  merge.Bytes(0, &tick, sizeof(tick));
  EXPECT_EQ(merge.stats().nr_unknown, 2u);
  merge.Note(0, FrameKind::kMalformed, 5);
  merge.Note(1, FrameKind::kLost, 7);
  merge.Note(0, FrameKind::kLost, 1);
  merge.Note(1, FrameKind::kDropped, 9);
  EXPECT_EQ(merge.stats().nr_malformed, 8u);
  EXPECT_EQ(merge.stats().nr_lost, 8u);
  EXPECT_EQ(merge.stats().nr_dropped, 9u);
  merge.AllPassed(100);
  merge.Advance();
  EXPECT_EQ(merge.stats().nr_messages, 0u);
  EXPECT_TRUE(merge.sink.got.empty());
}

TEST(Merger, AnotherCpusNumberIsMalformedExceptInADump) {
  Merge merge(2);
  merge.Online(1);
  merge.Message(0, 1, 10);
  merge.Message(1, 0, 10);
  merge.Message(1, 2, 10);
  EXPECT_EQ(merge.stats().nr_malformed, 3u);
  merge.Message(merge.dump_stream(), 0, 20);
  merge.Message(merge.dump_stream(), 1, 30);
  merge.AllPassed(100);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({20, 30}));
  EXPECT_EQ(merge.stats().nr_messages, 2u);
}

TEST(Merger, DumpsHoldNothingBack) {
  Merge merge(1);
  merge.Online(1);
  merge.Note(merge.dump_stream(), FrameKind::kDumpBegin, 2);
  merge.Message(merge.dump_stream(), 0, 3);
  merge.Passed(0, 50 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 50 * kMs);
  EXPECT_EQ(merge.sink.Times(), Times({3}));
}

TEST(Merger, DumpEndKeepsItsPlaceAmongTheMessages) {
  Merge merge(1);
  merge.Online(1);
  merge.Note(merge.dump_stream(), FrameKind::kDumpBegin, 10);
  merge.Message(merge.dump_stream(), 0, 20);
  merge.Note(merge.dump_stream(), FrameKind::kDumpEnd, 30);
  for (uint64_t ts_ns : {15, 25, 35, 45}) merge.Message(0, ts_ns);
  EXPECT_TRUE(merge.sink.dumps.empty());
  merge.Passed(0, 40);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({15, 20, 25, 35}));
  EXPECT_EQ(merge.sink.dumps, Times({10}));
  EXPECT_EQ(merge.sink.nr_before_dump, std::vector<size_t>({3}));
}

TEST(Merger, TimestampsFromTheFutureAreNotHandedOutAndCountedAtTheEnd) {
  Merge merge(1);
  merge.Online(1);
  merge.Message(0, 10 * kMs);
  merge.Message(0, UINT64_MAX);
  merge.Message(0, 1'000'000 * kMs);
  merge.Message(0, 11 * kMs);  // behind them in the ring, yet not held up
  merge.Passed(0, 50 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.sink.Times(), Times({10 * kMs, 11 * kMs}));
  EXPECT_EQ(merge.stats().nr_malformed, 0u);
  merge.Flush();
  EXPECT_EQ(merge.sink.Times(), Times({10 * kMs, 11 * kMs}));
  EXPECT_EQ(merge.stats().nr_malformed, 2u);
}

TEST(Merger, FlushHandsOutWhatTheLastDrainsBrought) {
  Merge merge(2);
  merge.Online(1);
  merge.AllPassed(50 * kMs);
  merge.Message(0, 51 * kMs + 2);
  merge.Message(1, 51 * kMs + 1);
  merge.Advance();
  EXPECT_TRUE(merge.sink.got.empty());
  merge.Flush();
  EXPECT_EQ(merge.sink.Times(), Times({51 * kMs + 1, 51 * kMs + 2}));
  EXPECT_EQ(merge.stats().nr_malformed, 0u);
}

TEST(Merger, WatermarkMovesInStepsOfAWindowAtMost) {
  Merge merge(1);
  merge.Online(1);
  merge.Passed(0, 10 * kMs);
  merge.Advance();
  for (uint64_t i = 1; i <= 10; i++) merge.Message(0, i * 50 * kMs);
  merge.Passed(0, 1000 * kMs);
  merge.Advance();
  ASSERT_GE(merge.sink.watermarks.size(), 2u);
  for (size_t i = 1; i < merge.sink.watermarks.size(); i++) {
    EXPECT_LT(merge.sink.watermarks[i - 1], merge.sink.watermarks[i]);
    EXPECT_LE(merge.sink.watermarks[i], merge.sink.watermarks[i - 1] + kWindowNs);
  }
  EXPECT_EQ(merge.sink.watermarks.back(), 1000 * kMs);
  EXPECT_EQ(merge.sink.got.size(), 10u);
}

TEST(Merger, WatermarkNeverGoesBack) {
  Merge merge(2);
  merge.Note(0, FrameKind::kOnline, 1);
  merge.Passed(0, 50 * kMs);
  merge.Advance();
  merge.Note(1, FrameKind::kOnline, 20 * kMs);
  merge.Passed(0, 60 * kMs);
  merge.Advance();
  EXPECT_EQ(merge.watermark_ns(), 50 * kMs);
}

struct Sent {
  uint64_t ts_ns;
  uint64_t written_ns;  // when it was in the ring
  uint64_t id;
};

// Messages of one CPU in the order in which they are written.
std::vector<Sent> RandomStream(std::mt19937_64& random, uint64_t end_ns, uint64_t max_delay_ns,
                               uint64_t* next_id) {
  std::vector<Sent> stream;
  uint64_t mean_ns = 10'000 + random() % 200'000;
  for (uint64_t ts_ns = 2 * kMs; ts_ns < end_ns; ts_ns += random() % mean_ns)
    stream.push_back({ts_ns, ts_ns + (random() % 4 == 0 ? random() % max_delay_ns : 0), (*next_id)++});
  std::stable_sort(stream.begin(), stream.end(),
                   [](const Sent& a, const Sent& b) { return a.written_ns < b.written_ns; });
  return stream;
}

void RunRandomMerge(uint64_t seed, size_t nr_cpus, uint64_t max_delay_ns, bool expect_late) {
  std::mt19937_64 random(seed);
  constexpr uint64_t kEndNs = 200 * kMs;
  uint64_t next_id = 1;
  std::vector<std::vector<Sent>> streams;
  for (size_t cpu = 0; cpu < nr_cpus; cpu++)
    streams.push_back(RandomStream(random, kEndNs, max_delay_ns, &next_id));

  Merge merge(nr_cpus);
  merge.Online(1 * kMs);
  std::vector<size_t> at(nr_cpus);
  size_t nr_sent = 0;
  uint64_t clock_ns = 2 * kMs;
  while (nr_sent < next_id - 1) {
    clock_ns += random() % (5 * kMs);
    for (size_t cpu = 0; cpu < nr_cpus; cpu++) {
      uint64_t before_ns = clock_ns;
      clock_ns += random() % 20'000;  // the drain takes time
      while (at[cpu] < streams[cpu].size() && streams[cpu][at[cpu]].written_ns <= clock_ns) {
        const Sent& sent = streams[cpu][at[cpu]++];
        merge.Message(cpu, static_cast<uint32_t>(cpu), sent.ts_ns, sent.id);
        nr_sent++;
      }
      merge.Note(cpu, FrameKind::kRound, before_ns);
    }
    if (random() % 4) merge.Advance();
  }
  merge.Flush();

  const std::vector<Got>& got = merge.sink.got;
  ASSERT_EQ(got.size(), nr_sent) << "in = out + late";
  std::vector<bool> seen(next_id);
  uint64_t previous_ns = 0;
  size_t nr_late = 0;
  for (const Got& one : got) {
    ASSERT_FALSE(seen[one.id]) << "handed out twice";
    seen[one.id] = true;
    nr_late += one.late;
    if (one.late) {
      ASSERT_LE(one.ts_ns, merge.watermark_ns());
      continue;
    }
    ASSERT_GE(one.ts_ns, previous_ns);
    previous_ns = one.ts_ns;
  }
  ASSERT_EQ(merge.stats().nr_late, nr_late);
  ASSERT_EQ(merge.stats().nr_messages, nr_sent);
  ASSERT_EQ(merge.stats().nr_malformed, 0u);
  ASSERT_EQ(nr_late > 0, expect_late);
}

TEST(Merger, SortsAnyDelayWithinTheGrace) {
  for (uint64_t seed = 0; seed < 42; seed++) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(RunRandomMerge(seed, 2 + seed % 7, kGraceNs - 1, false));
  }
}

TEST(Merger, WhatComesAfterTheGraceIsLateAndCountedAndNothingIsLost) {
  for (uint64_t seed = 0; seed < 42; seed++) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(RunRandomMerge(seed, 2 + seed % 7, 30 * kMs, true));
  }
}

}  // namespace
}  // namespace slotscope
