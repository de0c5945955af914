// SPDX-License-Identifier: MIT
// The merge, through a sink that writes down what it gets. Times are literal nanoseconds.
#include "merge/merger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "heap.h"
#include "items.h"
#include "ring/item_router.h"

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

using Times = std::vector<uint64_t>;

class Recorder final : public MergeSink, public GpuItemSink, public RemoteItemSink {
 public:
  void OnMeasure(const ss_measure& measure) override {
    Put(measure.hdr, measure.seq, IsLate(measure.hdr));
  }
  void OnCpuState(const ss_cpu_state& state) override {
    Put(state.hdr, state.online, IsLate(state.hdr));
  }
  void OnTick(const ss_tick& tick) override { Put(tick.hdr, tick.due_ns, IsLate(tick.hdr)); }
  void OnMessage(const ss_any_message& message, bool late) override {
    Put(message.hdr, message.hdr.type == SS_TASK_META ? message.task_meta.start_time_ns : 0, late);
  }
  void OnText(const ss_text& text, bool late) override { Put(text.hdr, text.cgroup_id, late); }
  void OnPods(uint64_t, std::string_view lines) override { pods = lines; }
  void OnExpected(int cpu) override { expected.push_back(cpu); }
  void OnDumpEnd(uint64_t begin_ns, uint64_t end_ns) override { dumps.emplace_back(begin_ns, end_ns); }
  void OnClock(uint64_t from_ns, int64_t unix_offset_ns) override {
    clocks.emplace_back(from_ns, unix_offset_ns);
  }
  void OnNote(uint64_t from_ns, std::string_view text) override { notes.emplace_back(from_ns, text); }
  void OnView(int32_t tgid, std::span<const int32_t> gpus, uint64_t ts_ns) override {
    views.emplace_back(tgid, std::vector<int32_t>(gpus.begin(), gpus.end()), ts_ns);
  }
  void OnSample(const GpuSample& sample, uint64_t ts_ns) override {
    samples.emplace_back(sample.used_bytes, ts_ns);
  }
  void OnLostCalls(uint64_t, uint64_t) override { nr_lost_calls++; }
  void OnMalformedCall(uint64_t, uint64_t) override { nr_lost_calls++; }
  void OnLostCalls(const LostCalls& lost, uint64_t from_ns, uint64_t to_ns) override {
    losers.emplace_back(lost.tgid, lost.start_time_ns, from_ns, to_ns);
  }
  void OnMemory(const RemoteMemory&) override {}
  void OnStraggle(const RemoteStraggle&) override {}
  void OnGone(uint64_t) override {}
  void OnWatermark(uint64_t ts_ns) override { watermarks.push_back(ts_ns); }

  uint64_t nr_lost_calls = 0;
  std::vector<std::tuple<int32_t, uint64_t, uint64_t, uint64_t>> losers;
  std::vector<std::tuple<int32_t, std::vector<int32_t>, uint64_t>> views;
  std::vector<std::pair<uint64_t, uint64_t>> samples;

  Times AllTimes() const {
    Times times;
    for (const Got& one : got) times.push_back(one.ts_ns);
    return times;
  }

  std::vector<Got> got;
  std::string pods;
  std::vector<int> expected;
  std::vector<std::pair<uint64_t, uint64_t>> dumps;
  std::vector<std::pair<uint64_t, int64_t>> clocks;
  std::vector<std::pair<uint64_t, std::string>> notes;
  Times watermarks;
  // The merge gives measures no flag: behind it when they arrived, not when they had waited for it.
  uint64_t arrival_watermark_ns = 0;

 private:
  bool IsLate(const ss_hdr& hdr) const { return hdr.ts_ns < arrival_watermark_ns; }
  void Put(const ss_hdr& hdr, uint64_t id, bool late) {
    got.push_back({hdr.ts_ns, id, hdr.cpu, hdr.type, late});
  }
};

class Merge {
 public:
  explicit Merge(size_t nr_cpus, uint64_t window_ns = kWindowNs)
      : nr_cpus_(nr_cpus), merger_(nr_cpus, window_ns, &sink, &router_) {}

  bool Try(const Items& items) { return merger_.OnItems(items.bytes()); }
  void Item(ItemKind kind, size_t stream, uint64_t begin_ns, uint64_t end_ns = 0,
            std::span<const std::byte> payload = {}, uint16_t flags = 0) {
    EXPECT_TRUE(Try(Items().Add(kind, stream, begin_ns, end_ns, payload, flags)));
  }
  void Online(uint64_t ts_ns) {
    for (size_t cpu = 0; cpu < nr_cpus_; cpu++) Item(ItemKind::kOnline, cpu, ts_ns);
  }
  // The clock before a drain that finds nothing: the CPU has passed `passed_ns`.
  void Passed(size_t cpu, uint64_t passed_ns) {
    Item(ItemKind::kRecords, cpu, passed_ns + kGraceNs, passed_ns + kGraceNs);
  }
  void AllPassed(uint64_t passed_ns) {
    for (size_t cpu = 0; cpu < nr_cpus_; cpu++) Passed(cpu, passed_ns);
  }
  // What a drain of `cpu` brings, without saying how far the CPU is.
  void Drained(size_t cpu, const Records& records, uint64_t end_ns) {
    sink.arrival_watermark_ns = merger_.watermark_ns();
    Item(ItemKind::kRecords, cpu, 0, end_ns, records.bytes(), kItemMore);
    sink.arrival_watermark_ns = 0;
  }
  template <typename Message>
  void Put(const Message& message) {
    Drained(message.hdr.cpu, Records().Message(message), message.hdr.ts_ns);
  }
  void Measure(uint32_t cpu, uint64_t start_ns, uint64_t end_ns, uint32_t seq = 0) {
    Put(MakeMeasure(cpu, start_ns, end_ns, seq));
  }
  void RoundEnd() { Item(ItemKind::kRoundEnd, 0, 0); }
  // Everybody's watermark at `ns`.
  void Advance(uint64_t ns) {
    AllPassed(ns);
    RoundEnd();
  }
  void Flush() { merger_.Flush(); }

  Times AllTimes() const { return sink.AllTimes(); }
  const MergeStats& stats() const { return merger_.stats(); }
  const SourceLosses& losses() const { return router_.losses(); }
  uint64_t watermark_ns() const { return merger_.watermark_ns(); }
  size_t dump_stream() const { return nr_cpus_; }

  Recorder sink;

 private:
  size_t nr_cpus_;
  ItemRouter router_{&sink, &sink};
  Merger merger_;
};

// ---- measures

TEST(Merger, HandsOutAtOnceWhatContinuesItsCpu) {
  Merge merge(2);
  merge.Online(1);
  merge.Measure(0, 5, 10);
  EXPECT_EQ(merge.AllTimes(), Times({})) << "nothing is known of the time before the first";
  merge.Advance(11);
  EXPECT_EQ(merge.AllTimes(), Times({10}));
  merge.Measure(0, 10, 1000);
  merge.Measure(0, 1000, 90 * kMs);
  EXPECT_EQ(merge.AllTimes(), Times({10, 1000, 90 * kMs})) << "no watermark has passed these";
  merge.Measure(1, 90 * kMs, 91 * kMs);
  EXPECT_EQ(merge.sink.got.size(), 3u) << "where another CPU is says nothing";
  EXPECT_EQ(merge.stats().nr_reordered, 0u);
  EXPECT_EQ(merge.stats().nr_late, 0u);
  EXPECT_EQ(merge.stats().nr_messages, 4u);
}

TEST(Merger, WhatABurstHeldGoesBack) {
  Merge merge(1);
  merge.Online(1);
  merge.Advance(2);
  const size_t usual = HeapBytesInUse();
  if (usual == 0) GTEST_SKIP() << "another allocator";
  for (uint64_t i = 1; i <= 50'000; i++) merge.Measure(0, i * 100, i * 100 + 50);  // with gaps
  ASSERT_EQ(merge.sink.got.size(), 0u) << "they are held";
  EXPECT_GT(HeapBytesInUse(), usual + (4u << 20));
  for (uint64_t ms = 10; ms < 2100; ms++) merge.Advance(ms * kMs);
  EXPECT_EQ(merge.sink.got.size(), 50'000u);
  std::vector<Got>().swap(merge.sink.got);
  EXPECT_LT(HeapBytesInUse(), usual + (300u << 10));
}

TEST(Merger, HandsOutAMeasureAsItWasWritten) {
  class Copy final : public MergeSink {
   public:
    void OnMeasure(const ss_measure& measure) override { copy = measure; }
    void OnCpuState(const ss_cpu_state&) override {}
    void OnTick(const ss_tick&) override {}
    void OnMessage(const ss_any_message&, bool) override {}
    void OnExpected(int) override {}
    void OnDumpEnd(uint64_t, uint64_t) override {}
    void OnClock(uint64_t, int64_t) override {}
    void OnNote(uint64_t, std::string_view) override {}
    void OnWatermark(uint64_t) override {}
    ss_measure copy;
  };
  ss_measure measure;
  std::memset(static_cast<void*>(&measure), 0x11, sizeof(measure));
  measure.hdr = {2000, SS_MEASURE, sizeof(measure), 0};
  for (uint64_t start_ns : {0, 1000}) {  // at once, and held first
    measure.start_ns = start_ns;
    Copy sink;
    Merger merger(1, kWindowNs, &sink);
    ASSERT_TRUE(merger.OnItems(
        Items().Add(ItemKind::kRecords, 0, 0, 3000, Records().Message(measure).bytes()).bytes()));
    merger.Flush();
    EXPECT_EQ(std::memcmp(&sink.copy, &measure, sizeof(measure)), 0) << start_ns;
  }
}

// The measures as they come: with counters behind them, or how many without.
class LongCopies final : public MergeSink {
 public:
  void OnMeasure(const ss_measure& measure) override {
    nr_short++;
    last_short = measure;
  }
  void OnLongMeasure(const ss_long_measure& measure) override { copies.push_back(measure); }
  void OnCpuState(const ss_cpu_state&) override {}
  void OnTick(const ss_tick&) override {}
  void OnMessage(const ss_any_message&, bool) override {}
  void OnExpected(int) override {}
  void OnDumpEnd(uint64_t, uint64_t) override {}
  void OnClock(uint64_t, int64_t) override {}
  void OnNote(uint64_t, std::string_view) override {}
  void OnWatermark(uint64_t) override {}
  std::vector<ss_long_measure> copies;
  size_t nr_short = 0;
  ss_measure last_short = {};
};

TEST(Merger, HandsOutTheCountersBehindAMeasure) {
  struct {
    ss_long_measure known;
    ss_counter newer[2];
  } written;
  std::memset(static_cast<void*>(&written), 0x11, sizeof(written));
  for (size_t size = sizeof(ss_measure); size <= sizeof(written); size += 8) {
    written.known.measure.hdr = {2000, SS_MEASURE, static_cast<uint16_t>(size), 0};
    // What is not whole, or is not known, is left out.
    const size_t nr_more =
        std::min<size_t>((size - sizeof(ss_measure)) / sizeof(ss_counter), SS_MAX_MORE);
    for (uint64_t start_ns : {0, 1000}) {  // at once, and held first
      written.known.measure.start_ns = start_ns;
      LongCopies sink;
      Merger merger(1, kWindowNs, &sink);
      ASSERT_TRUE(merger.OnItems(
          Items()
              .Add(ItemKind::kRecords, 0, 0, 3000, Records().Message(written, size).bytes())
              .bytes()));
      merger.Flush();
      EXPECT_EQ(merger.stats().nr_messages, 1u) << size;
      EXPECT_EQ(sink.nr_short, nr_more == 0) << size;
      ASSERT_EQ(sink.copies.size(), nr_more > 0) << size;
      if (nr_more == 0) continue;
      ss_long_measure expected = written.known;
      for (size_t i = nr_more; i < SS_MAX_MORE; i++) expected.more[i] = {};
      EXPECT_EQ(std::memcmp(sink.copies.data(), &expected, sizeof(expected)), 0) << size;
    }
  }
}

// As if ss_measure had got its last field with this version: the counters come 8 bytes earlier.
TEST(Merger, AnOlderMeasureGetsWhatItLacks) {
  constexpr size_t kOld = sizeof(ss_measure) - sizeof(uint64_t);
  ss_long_measure written;
  std::memset(static_cast<void*>(&written), 0x11, sizeof(written));
  for (size_t nr_more = 0; nr_more <= SS_MAX_MORE; nr_more++) {
    const size_t size = kOld + nr_more * sizeof(ss_counter);
    written.measure.hdr = {2000, SS_MEASURE, static_cast<uint16_t>(size), 0};
    std::vector<std::byte> bytes(size);
    std::memcpy(bytes.data(), &written, kOld);
    std::memcpy(bytes.data() + kOld, written.more, size - kOld);
    for (uint64_t start_ns : {0, 1000}) {  // at once, and held first
      std::memcpy(bytes.data() + offsetof(ss_measure, start_ns), &start_ns, sizeof(start_ns));
      LongCopies sink;
      Merger merger(1, kWindowNs, &sink, nullptr, kOld);
      ASSERT_TRUE(merger.OnItems(
          Items().Add(ItemKind::kRecords, 0, 0, 3000, Records().Sample(bytes).bytes()).bytes()));
      merger.Flush();
      ss_long_measure expected = written;
      expected.measure.hdr.size = static_cast<uint16_t>(size + sizeof(ss_measure) - kOld);
      expected.measure.start_ns = start_ns;
      std::memset(reinterpret_cast<std::byte*>(&expected.measure) + kOld, 0, sizeof(ss_measure) - kOld);
      for (size_t i = nr_more; i < SS_MAX_MORE; i++) expected.more[i] = {};
      // What has no counters behind it may come either way.
      ASSERT_EQ(sink.copies.size() + sink.nr_short, 1u) << nr_more;
      if (sink.copies.empty()) sink.copies.push_back({sink.last_short, {}});
      EXPECT_EQ(std::memcmp(sink.copies.data(), &expected, sizeof(expected)), 0) << nr_more;
    }
  }
}

TEST(Merger, CountersBehindAMeasureMustBePossible) {
  for (size_t i = 0; i < SS_MAX_MORE; i++) {
    ss_long_measure measure = {MakeMeasure(0, 0, 10), {}};
    measure.measure.hdr.size = sizeof(measure);
    measure.more[i] = {5, 7, 8};  // ran for longer than it was enabled
    Merge merge(1);
    merge.Drained(0, Records().Message(measure), 20);
    EXPECT_EQ(merge.stats().nr_malformed, 1u) << i;
    measure.more[i] = {5, 8, 8};
    merge.Drained(0, Records().Message(measure), 20);
    EXPECT_EQ(merge.stats().nr_malformed, 1u) << i;
    EXPECT_EQ(merge.stats().nr_messages, 1u) << i;
  }
}

TEST(Merger, HoldsAMeasureUntilTheOneBeforeItComes) {
  Merge merge(1);
  merge.Online(1);
  merge.Measure(0, 0, 10);
  merge.Measure(0, 20, 30);
  merge.Measure(0, 30, 40);
  EXPECT_EQ(merge.AllTimes(), Times({10}));
  merge.Measure(0, 10, 20);
  EXPECT_EQ(merge.AllTimes(), Times({10, 20, 30, 40})) << "no watermark was needed";
  EXPECT_EQ(merge.stats().nr_late, 0u);
}

TEST(Merger, HoldsAMeasureBehindAGapUntilTheWatermarkHasPassedIt) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Measure(0, 0, 2 * kMs);
  merge.Measure(0, 10 * kMs, 11 * kMs);  // what was between is lost
  merge.Measure(0, 11 * kMs, 12 * kMs);
  merge.Passed(0, 20 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.AllTimes(), Times({2 * kMs})) << "CPU 1 has not said where it is";
  merge.Passed(1, 11 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs);
  EXPECT_EQ(merge.AllTimes(), Times({2 * kMs})) << "one at the watermark may get company";
  merge.Passed(1, 11 * kMs + 1);
  merge.RoundEnd();
  EXPECT_EQ(merge.AllTimes(), Times({2 * kMs, 11 * kMs, 12 * kMs})) << "the second continues the first";
  EXPECT_EQ(merge.stats().nr_late, 0u);
}

TEST(Merger, KeepsAMeasureThatIsAtTheWatermark) {
  Merge merge(1);
  merge.Online(1);
  merge.Measure(0, 5 * kMs - 2, 5 * kMs - 1);
  merge.Measure(0, 5 * kMs, 5 * kMs, 1);
  merge.Advance(5 * kMs);
  EXPECT_EQ(merge.AllTimes(), Times({5 * kMs - 1}));
  merge.Measure(0, 5 * kMs, 5 * kMs, 2);  // its company
  merge.Advance(5 * kMs + 1);
  EXPECT_EQ(merge.AllTimes(), Times({5 * kMs - 1, 5 * kMs, 5 * kMs}));
  EXPECT_EQ(merge.stats().nr_late, 0u);
}

TEST(Merger, EqualTimesKeepTheOrderInWhichTheyWereWritten) {
  // At once, and behind a gap.
  for (uint64_t begin_ns : {0, 10}) {
    Merge merge(1);
    merge.Online(1);
    for (uint32_t id : {1, 2, 3}) merge.Measure(0, begin_ns, begin_ns, id);
    merge.Advance(100);
    ASSERT_EQ(merge.sink.got.size(), 3u);
    for (size_t i = 0; i < 3; i++) EXPECT_EQ(merge.sink.got[i].id, i + 1);
    EXPECT_EQ(merge.stats().nr_reordered, 0u);
  }
}

// Behind a gap, so that they are sorted and do not just continue each other.
TEST(Merger, OneOfNoLengthAndAStateFollowTheMeasureThatEndsThere) {
  Merge merge(2);
  merge.Online(1);
  merge.Measure(0, 20, 20, 2);
  merge.Measure(0, 15, 20, 1);
  merge.Put(MakeCpuState(1, 20, false));
  merge.Measure(1, 15, 20, 3);
  merge.Advance(100);
  ASSERT_EQ(merge.AllTimes(), Times({20, 20, 20, 20}));
  EXPECT_EQ(merge.sink.got[0].id, 1u);
  EXPECT_EQ(merge.sink.got[1].id, 2u);
  EXPECT_EQ(merge.sink.got[2].type, SS_MEASURE);
  EXPECT_EQ(merge.sink.got[3].type, SS_CPU_STATE);
}

// In whatever order the measures of a CPU are written, they come out in the order of time, and none
// waits for the watermark once what is before it is there.
TEST(Merger, RepairsEveryOrderOfAHandful) {
  std::vector<uint32_t> order = {1, 2, 3, 4, 5};
  do {
    Merge merge(2);
    merge.Online(1);
    merge.Measure(1, 7, 777);  // another CPU's must not matter
    merge.Measure(0, 0, 10);
    for (uint32_t i : order) merge.Measure(0, 10 * i, 10 * i + 10);
    ASSERT_EQ(merge.AllTimes(), Times({10, 20, 30, 40, 50, 60})) << testing::PrintToString(order);
    ASSERT_EQ(merge.stats().nr_late, 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Merger, CountsTheInversionsThatItRepairs) {
  const struct {
    const char* what;
    std::vector<std::pair<uint64_t, uint64_t>> written;
    uint64_t expected;
  } cases[] = {
      {"in order", {{10, 20}, {20, 30}, {30, 40}}, 0},
      {"in order behind a gap", {{15, 20}, {20, 30}, {35, 40}}, 0},
      {"two swapped", {{20, 30}, {10, 20}}, 1},
      {"two swapped, twice", {{20, 30}, {10, 20}, {40, 50}, {30, 40}}, 2},
      {"one behind three later ones", {{20, 30}, {30, 40}, {40, 50}, {10, 20}}, 1},
      {"two swapped behind a gap", {{25, 30}, {15, 20}}, 1},
      {"backwards", {{40, 50}, {30, 40}, {20, 30}, {10, 20}}, 3},
  };
  for (const auto& c : cases) {
    Merge merge(1);
    merge.Online(1);
    merge.Measure(0, 0, 10);
    for (auto [start_ns, end_ns] : c.written) merge.Measure(0, start_ns, end_ns);
    merge.Flush();
    Times times = merge.AllTimes();
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end())) << c.what;
    EXPECT_EQ(merge.stats().nr_reordered, c.expected) << c.what;
  }
}

TEST(Merger, ALateMeasureIsHandedOutAtOnceAndTheOthersGoOn) {
  Merge merge(1);
  merge.Online(1);
  merge.Measure(0, 0, 10);
  merge.Advance(100);
  merge.Measure(0, 50, 99, 1);
  merge.Measure(0, 10, 50, 2);
  merge.Measure(0, 99, 120, 3);
  ASSERT_EQ(merge.AllTimes(), Times({10, 99, 50, 120})) << "the last continues the latest of them";
  EXPECT_TRUE(merge.sink.got[1].late);
  EXPECT_TRUE(merge.sink.got[2].late);
  EXPECT_EQ(merge.stats().nr_late, 2u);
  EXPECT_EQ(merge.stats().nr_messages, 4u);
}

// ---- CPU states

TEST(Merger, CpuStatesKeepTheirPlaceAmongTheMeasures) {
  enum Step { kBefore, kDown, kUp, kAfter };
  std::vector<Step> order = {kBefore, kDown, kUp, kAfter};
  do {
    Merge merge(1);
    merge.Online(1);
    merge.Measure(0, 0, 10);
    for (Step step : order) {
      if (step == kBefore) merge.Measure(0, 10, 20);
      if (step == kDown) merge.Put(MakeCpuState(0, 20, false));
      if (step == kUp) merge.Put(MakeCpuState(0, 30, true));
      if (step == kAfter) merge.Measure(0, 30, 40);
    }
    merge.Advance(100);
    SCOPED_TRACE(testing::PrintToString(order));
    ASSERT_EQ(merge.AllTimes(), Times({10, 20, 20, 30, 40}));
    const uint16_t types[] = {SS_MEASURE, SS_MEASURE, SS_CPU_STATE, SS_CPU_STATE, SS_MEASURE};
    for (size_t i = 0; i < std::size(types); i++) ASSERT_EQ(merge.sink.got[i].type, types[i]) << i;
    ASSERT_EQ(merge.stats().nr_late, 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Merger, ACpuStateThatContinuesIsHandedOutAtOnceAndALateOneToo) {
  Merge merge(1);
  merge.Online(1);
  merge.Measure(0, 0, 10);
  merge.Put(MakeCpuState(0, 10, false));
  EXPECT_EQ(merge.AllTimes(), Times({10, 10}));
  merge.Put(MakeCpuState(0, 50, true));
  EXPECT_EQ(merge.sink.got.size(), 2u);
  merge.Advance(100);
  EXPECT_EQ(merge.AllTimes(), Times({10, 10, 50}));
  merge.Put(MakeCpuState(0, 99, false));
  ASSERT_EQ(merge.AllTimes(), Times({10, 10, 50, 99}));
  EXPECT_TRUE(merge.sink.got[3].late);
  EXPECT_EQ(merge.stats().nr_late, 1u);
}

// ---- ticks and state

TEST(Merger, TicksAndStateAreHandedOutAtOnce) {
  Merge merge(2);
  merge.Online(1);
  merge.Put(MakeMeta(1, 90));
  merge.Put(MakeTick(0, 80));
  merge.Put(MakeRmidEvent(SS_RMID_ALLOC, 0, 70));
  EXPECT_EQ(merge.AllTimes(), Times({90, 80, 70})) << "in any order";
  EXPECT_EQ(merge.stats().nr_reordered, 0u);
}

TEST(Merger, FlagsAndCountsWhatIsLate) {
  const auto put = [](Merge* merge, uint16_t type, uint64_t ts_ns) {
    switch (type) {
      case SS_MEASURE:
        return merge->Measure(0, ts_ns - 1, ts_ns);
      case SS_TICK:
        return merge->Put(MakeTick(0, ts_ns));
      case SS_CPU_STATE:
        return merge->Put(MakeCpuState(0, ts_ns, true));
      case SS_TASK_META:
        return merge->Put(MakeMeta(0, ts_ns));
      case SS_RDT_SAMPLE: {
        auto sample = MakeMessage<ss_rdt_sample>(type, 0, ts_ns);
        sample.rmid = 1;
        sample.event = SS_RDT_MBM_TOTAL;
        return merge->Put(sample);
      }
      default:
        return merge->Put(MakeRmidEvent(type, 0, ts_ns));
    }
  };
  for (uint16_t type = SS_MEASURE; type <= SS_CPU_STATE; type++) {
    SCOPED_TRACE(type);
    Merge merge(1);
    merge.Online(1);
    merge.Advance(10 * kMs);
    put(&merge, type, 10 * kMs - 1);
    ASSERT_EQ(merge.sink.got.size(), 1u) << "late ones are handed out at once";
    EXPECT_TRUE(merge.sink.got[0].late);
    EXPECT_EQ(merge.sink.got[0].type, type);
    put(&merge, type, 10 * kMs);
    merge.Advance(11 * kMs);
    ASSERT_EQ(merge.sink.got.size(), 2u);
    EXPECT_FALSE(merge.sink.got[1].late) << "at the watermark is in time";
    EXPECT_EQ(merge.stats().nr_late, 1u);
    EXPECT_EQ(merge.stats().nr_messages, 2u);
  }
}

// ---- the watermark

TEST(Merger, TakesAGraceOffTheDrainClock) {
  Merge merge(1);
  merge.Online(1);
  merge.Item(ItemKind::kRecords, 0, 10 * kMs, 12 * kMs);
  EXPECT_EQ(merge.watermark_ns(), 0u) << "it moves at a round's end";
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 10 * kMs - kGraceNs)
      << "the clock before the drain, not that after it";
  EXPECT_EQ(merge.sink.watermarks, Times({10 * kMs - kGraceNs}));
}

TEST(Merger, ADrainBeforeTheGraceHasPassedNothing) {
  Merge merge(1);
  merge.Online(0);
  for (uint64_t begin_ns : {uint64_t{0}, uint64_t{1}, kGraceNs - 1, kGraceNs}) {
    merge.Item(ItemKind::kRecords, 0, begin_ns, begin_ns);
    merge.RoundEnd();
    EXPECT_EQ(merge.watermark_ns(), 0u) << begin_ns;
  }
  EXPECT_TRUE(merge.sink.watermarks.empty());
}

TEST(Merger, ADrainThatLeftSomethingInTheRingHasPassedNothing) {
  Merge merge(1);
  merge.Online(1 * kMs);
  const Records records = Records().Message(MakeMeasure(0, 0, 5 * kMs));
  merge.Item(ItemKind::kRecords, 0, 10 * kMs, 10 * kMs, records.bytes(), kItemMore);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 1 * kMs);
  merge.Item(ItemKind::kRecords, 0, 11 * kMs, 11 * kMs, records.bytes());
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs - kGraceNs);
}

TEST(Merger, AnIdleCpuPassesByItsDrainClock) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Measure(0, 29 * kMs, 30 * kMs);
  merge.Advance(40 * kMs);  // CPU 1 has said nothing at all
  EXPECT_EQ(merge.AllTimes(), Times({30 * kMs}));
  EXPECT_EQ(merge.stats().nr_stalls, 0u);
}

TEST(Merger, WatermarkNeverGoesBack) {
  Merge merge(2);
  merge.Item(ItemKind::kOnline, 0, 1);
  merge.Passed(0, 50 * kMs);
  merge.RoundEnd();
  merge.Item(ItemKind::kOnline, 1, 20 * kMs);
  merge.Passed(0, 60 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 50 * kMs);
  merge.Passed(1, 40 * kMs);
  merge.Passed(0, 10 * kMs);  // a clock that is broken
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 50 * kMs);
  merge.AllPassed(70 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.sink.watermarks, Times({50 * kMs, 70 * kMs})) << "told when it moves, and only then";
  EXPECT_EQ(merge.stats().nr_rounds, 4u);
}

TEST(Merger, AStalledCpuDoesNotHoldTheWatermarkAndIsLateUntilItCatchesUp) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Advance(10 * kMs);
  merge.Passed(0, 10 * kMs + kWindowNs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 10 * kMs) << "a window behind is not yet stalled";
  EXPECT_EQ(merge.stats().nr_stalls, 0u);
  merge.Passed(0, 11 * kMs + kWindowNs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs + kWindowNs);
  merge.Passed(0, 12 * kMs + kWindowNs);
  merge.RoundEnd();
  EXPECT_EQ(merge.stats().nr_stalls, 1u) << "one stall is counted once";

  merge.Measure(1, 19 * kMs, 20 * kMs);
  ASSERT_EQ(merge.sink.got.size(), 1u);
  EXPECT_TRUE(merge.sink.got[0].late);
  EXPECT_EQ(merge.stats().nr_late, 1u);

  merge.Measure(1, 89 * kMs, 90 * kMs);
  merge.Advance(95 * kMs);
  ASSERT_EQ(merge.sink.got.size(), 2u);
  EXPECT_FALSE(merge.sink.got[1].late) << "it has caught up";
  EXPECT_EQ(merge.stats().nr_late, 1u);
  merge.Passed(0, 100 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 95 * kMs) << "and is waited for again";
  merge.Passed(0, 100 * kMs + 2 * kWindowNs);
  merge.RoundEnd();
  EXPECT_EQ(merge.stats().nr_stalls, 2u) << "another stall is another one";
}

TEST(Merger, AnOfflineCpuEndsAtItsStateAndHoldsNothingBack) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Advance(10 * kMs);
  merge.Measure(1, 11 * kMs, 12 * kMs);
  merge.Item(ItemKind::kOffline, 1, 15 * kMs);
  EXPECT_TRUE(merge.sink.got.empty()) << "there may be more from before";
  merge.Passed(0, 20 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 20 * kMs);
  ASSERT_EQ(merge.AllTimes(), Times({12 * kMs, 12 * kMs})) << "where it was heard of last";
  EXPECT_EQ(merge.sink.got[1].type, SS_CPU_STATE);
  EXPECT_EQ(merge.sink.got[1].id, 0u) << "offline";
  EXPECT_EQ(merge.sink.got[1].cpu, 1u);
  EXPECT_EQ(merge.stats().nr_messages, 1u) << "nobody sent that";
}

// The reader noticed the end of a CPU that had long been stalled.
TEST(Merger, MeasuresInAnyOrderAreSortedWhenTheyAreDueAndHeldInBounds) {
  Merge merge(1);
  merge.Online(1);
  constexpr uint64_t kMany = 20'000;  // would take minutes if each found its place by itself
  for (uint64_t i = kMany; i > 0; i--) merge.Measure(0, 2 * i, 2 * i + 1);
  EXPECT_TRUE(merge.sink.got.empty());
  merge.Advance(10 * kMs);
  Times times = merge.AllTimes();
  ASSERT_EQ(times.size(), kMany);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(merge.stats().nr_reordered, kMany - 1);
}

TEST(Merger, NotesAreEscaped) {
  Merge merge(1);
  merge.Item(ItemKind::kNote, 0, 5, 0, PaddedText("a\x1b[2J\nb"));
  ASSERT_EQ(merge.sink.notes.size(), 1u);
  EXPECT_EQ(merge.sink.notes[0].second, "a\\x1b[2J\\x0ab");
}

TEST(Merger, OfflineBehindTheWatermarkDoesNotGoBackInTime) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Advance(10 * kMs);
  merge.Passed(0, 100 * kMs);
  merge.RoundEnd();
  ASSERT_EQ(merge.watermark_ns(), 100 * kMs);
  merge.Item(ItemKind::kOffline, 1, 80 * kMs);
  merge.Passed(0, 101 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.AllTimes(), Times({100 * kMs}));
}

TEST(Merger, ACpuThatComesBackIsWaitedForFromThen) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Advance(10 * kMs);
  merge.Measure(1, 0, 10 * kMs);
  merge.Item(ItemKind::kOffline, 1, 11 * kMs);
  merge.Passed(0, 20 * kMs);
  merge.RoundEnd();
  merge.Item(ItemKind::kOnline, 1, 25 * kMs);
  merge.Put(MakeCpuState(1, 25 * kMs, true));
  merge.Measure(1, 25 * kMs, 26 * kMs);
  merge.Passed(0, 200 * kMs);
  merge.Passed(1, 190 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 190 * kMs);
  EXPECT_EQ(merge.AllTimes(), Times({10 * kMs, 10 * kMs, 25 * kMs, 26 * kMs}));
  EXPECT_EQ(merge.stats().nr_stalls, 0u) << "it was away, not stalled";
}

TEST(Merger, ACpuThatComesOnlineIsWaitedForBeforeItsFirstDrain) {
  Merge merge(2);
  merge.Item(ItemKind::kOnline, 0, 1 * kMs);
  merge.Passed(0, 10 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 10 * kMs);
  merge.Item(ItemKind::kOnline, 1, 11 * kMs);
  merge.Passed(0, 20 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 11 * kMs);
}

// A CPU that is told online with a clock from before its last drain: it does not have to pass that
// again.
TEST(Merger, ComingOnlineDoesNotTakeACpuBack) {
  Merge merge(2);
  merge.Online(1 * kMs);
  merge.Advance(100 * kMs);
  merge.Item(ItemKind::kOnline, 1, 20 * kMs);
  merge.Passed(0, 120 * kMs);
  merge.RoundEnd();
  EXPECT_EQ(merge.watermark_ns(), 100 * kMs);
  EXPECT_EQ(merge.stats().nr_stalls, 0u);
}

TEST(Merger, WithoutAnOnlineCpuNothingMoves) {
  Merge merge(2);
  merge.Advance(10 * kMs);
  EXPECT_EQ(merge.watermark_ns(), 0u);
  merge.Flush();
  EXPECT_TRUE(merge.sink.watermarks.empty());
}

// ---- what is told as it comes

TEST(Merger, TellsAtOnceWhichCpusAreExpectedToMeasure) {
  Merge merge(3);
  merge.Online(1);
  EXPECT_TRUE(merge.sink.expected.empty()) << "a CPU may be online and not watched";
  merge.Item(ItemKind::kExpected, 2, 5);
  merge.Item(ItemKind::kExpected, 0, 5);
  EXPECT_EQ(merge.sink.expected, std::vector<int>({2, 0}));
}

TEST(Merger, TellsClockStepsNotesAndLosses) {
  Merge merge(1);
  merge.Item(ItemKind::kClock, 0, 5, static_cast<uint64_t>(int64_t{-7}));
  merge.Item(ItemKind::kClock, 0, 6, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(merge.sink.clocks, (std::vector<std::pair<uint64_t, int64_t>>({{5, -7}, {6, INT64_MAX}})));

  merge.Item(ItemKind::kNote, 0, 7, 0, PaddedText("Something."));
  merge.Item(ItemKind::kNote, 0, 8, 0, PaddedText("12345678"));  // no zero behind it
  merge.Item(ItemKind::kNote, 0, 9);
  EXPECT_EQ(
      merge.sink.notes,
      (std::vector<std::pair<uint64_t, std::string>>({{7, "Something."}, {8, "12345678"}, {9, ""}})));

  Records view;
  const int32_t gpus[] = {3, -7};
  view.Bytes(ObjectBytes(GpuViewItem{7, 2})).Bytes(std::as_bytes(std::span(gpus)));
  merge.Item(ItemKind::kGpuView, 0, 9, 0, view.bytes());
  merge.Item(ItemKind::kGpuView, 0, 9, 0, ObjectBytes(GpuViewItem{8, 0}));
  ASSERT_EQ(merge.sink.views.size(), 2u);
  EXPECT_EQ(merge.sink.views[0], std::tuple(7, std::vector<int32_t>({3, -7}), uint64_t{9}));
  EXPECT_TRUE(std::get<1>(merge.sink.views[1]).empty());
  merge.Item(ItemKind::kGpuSample, 0, 9, 0, ObjectBytes(GpuSample{1, 1, 4096, 0, 0}));
  EXPECT_EQ(merge.sink.samples, (std::vector<std::pair<uint64_t, uint64_t>>({{4096, 9}})));

  EXPECT_EQ(merge.losses(), SourceLosses());
  SourceLosses losses = {1, 2, 3, 4};
  merge.Item(ItemKind::kLosses, 0, 10, 0, ObjectBytes(losses));
  EXPECT_EQ(merge.losses(), losses);
  losses.nr_untracked = 300;  // sums: the last is what counts
  Records newer;
  newer.Bytes(ObjectBytes(losses)).Bytes(ObjectBytes(uint64_t{5}));
  merge.Item(ItemKind::kLosses, 0, 11, 0, newer.bytes());
  EXPECT_EQ(merge.losses(), losses);
}

// Each call that finds no room is counted by who would have written it.
TEST(Merger, OnlyALostCallIsALostCall) {
  const struct {
    const char* what;
    SourceLosses losses;
    bool expected;
  } kCases[] = {
      {"an output error", {.nr_output_errors = 1}, false},
      {"a skipped run", {.nr_skipped_runs = 1}, false},
      {"no room in the process table", {.nr_untracked = 1}, false},
      {"a call of a process that is named", {.nr_lost_calls = 1}, false},
      {"a call of whoever", {.nr_lost_calls = 1, .nr_unnamed_calls = 1}, true},
      {"a call nobody looked at", {.nr_bypassed_calls = 1}, true},
  };
  for (const auto& c : kCases) {
    Merge merge(1);
    merge.Item(ItemKind::kLosses, 0, 10, 0, ObjectBytes(c.losses));
    EXPECT_EQ(merge.sink.nr_lost_calls, c.expected) << c.what;
    merge.Item(ItemKind::kLosses, 0, 11, 0, ObjectBytes(c.losses));
    EXPECT_EQ(merge.sink.nr_lost_calls, c.expected) << c.what << ", as before";
    merge.Drained(0, Records().Lost(7).Message(MakeTick(0, 20)), 30);
    EXPECT_EQ(merge.sink.nr_lost_calls, c.expected) << c.what << ", and records";
  }
}

// It knew of none whose it was.
TEST(Merger, ALostCallOfAnOlderRecorderIsAnybodys) {
  Merge merge(1);
  const SourceLosses losses = {.nr_lost_calls = 1};
  merge.Item(ItemKind::kLosses, 0, 10, 0,
             ObjectBytes(losses).first(offsetof(SourceLosses, nr_unnamed_calls)));
  EXPECT_EQ(merge.sink.nr_lost_calls, 1u);
  EXPECT_EQ(merge.losses().nr_unnamed_calls, 1u);
}

TEST(Merger, LostCallsNameTheirProcess) {
  Merge merge(1);
  merge.Item(ItemKind::kLostCalls, 0, 20, 10, ObjectBytes(LostCalls{7, 0, 5, 3}));
  merge.Item(ItemKind::kLostCalls, 0, 20, 30, ObjectBytes(LostCalls{8, 0, 5, 3}));  // clocks
  EXPECT_EQ(merge.sink.losers, (std::vector<std::tuple<int32_t, uint64_t, uint64_t, uint64_t>>{
                                   {7, 5, 10, 20}, {8, 5, 20, 20}}));
  EXPECT_EQ(merge.sink.nr_lost_calls, 0u);
}

// ---- dumps

TEST(Merger, ADumpHoldsNothingBackAndCarriesAnyCpusNumber) {
  Merge merge(2);
  merge.Online(1);
  merge.Item(ItemKind::kDumpBegin, merge.dump_stream(), 2);
  Records messages;
  messages.Bytes(ObjectBytes(MakeMeta(0, 3)))
      .Bytes(ObjectBytes(MakeRmidEvent(SS_RMID_EXISTING, 1, 4)))
      .Bytes(ObjectBytes(MakeMeta(77, 5)));
  merge.Item(ItemKind::kDump, merge.dump_stream(), 2, 6, messages.bytes());
  EXPECT_EQ(merge.AllTimes(), Times({3, 4, 5})) << "at once";
  EXPECT_EQ(merge.stats().nr_messages, 3u);
  merge.Advance(50 * kMs);
  EXPECT_EQ(merge.watermark_ns(), 50 * kMs);
  merge.Item(ItemKind::kDump, merge.dump_stream(), 2, 6, ObjectBytes(MakeMeta(0, 7)));
  ASSERT_EQ(merge.sink.got.size(), 4u);
  EXPECT_FALSE(merge.sink.got[2].late);
  EXPECT_TRUE(merge.sink.got[3].late);
}

TEST(Merger, TellsADumpsEndWhenTheWatermarkHasPassedIt) {
  using Dumps = std::vector<std::pair<uint64_t, uint64_t>>;
  Merge merge(1);
  merge.Online(1);
  merge.Item(ItemKind::kDumpBegin, 1, 10);
  merge.Item(ItemKind::kDumpEnd, 1, 30);
  merge.Item(ItemKind::kDumpBegin, 1, 35);
  merge.Item(ItemKind::kDumpEnd, 1, 40);
  merge.Item(ItemKind::kDumpBegin, 1, 100);
  merge.Advance(30);
  EXPECT_EQ(merge.sink.dumps, Dumps({})) << "at the watermark it may still get company";
  merge.Advance(31);
  EXPECT_EQ(merge.sink.dumps, Dumps({{10, 30}}));
  merge.Advance(1000);
  EXPECT_EQ(merge.sink.dumps, Dumps({{10, 30}, {35, 40}})) << "the third has not ended";
  merge.Item(ItemKind::kDumpEnd, 1, 2000);
  merge.Flush();
  EXPECT_EQ(merge.sink.dumps, Dumps({{10, 30}, {35, 40}, {100, 2000}}));
  merge.Flush();
  EXPECT_EQ(merge.sink.dumps.size(), 3u) << "once each";
}

TEST(Merger, CountsWhatADumpCannotHold) {
  auto cut = [](auto message, size_t size) {
    auto bytes = ObjectBytes(message);
    return std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
  };
  auto sized = [](uint16_t size) {
    ss_task_meta meta = MakeMeta(0, 5);
    meta.hdr.size = size;
    return meta;
  };
  const struct {
    const char* what;
    std::vector<std::byte> bytes;
  } cases[] = {
      {"a measure", cut(MakeMeasure(0, 4, 5), sizeof(ss_measure))},
      {"a CPU state", cut(MakeCpuState(0, 5, true), sizeof(ss_cpu_state))},
      {"half a header", cut(MakeMeta(0, 5), 8)},
      {"a header without its message", cut(MakeMeta(0, 5), 16)},
      {"without size", cut(sized(0), sizeof(ss_task_meta))},
      {"shorter than a header", cut(sized(15), sizeof(ss_task_meta))},
      {"longer than the item", cut(sized(sizeof(ss_task_meta) + 1), sizeof(ss_task_meta))},
      {"from the future", cut(MakeMeta(0, 6 + kGraceNs + 1), sizeof(ss_task_meta))},
  };
  for (const auto& c : cases) {
    Merge merge(1);
    Records messages;
    messages.Bytes(ObjectBytes(MakeMeta(0, 4))).Bytes(c.bytes);
    merge.Item(ItemKind::kDump, 1, 3, 6, messages.bytes());
    EXPECT_EQ(merge.stats().nr_malformed, 1u) << c.what;
    EXPECT_EQ(merge.AllTimes(), Times({4})) << c.what;
    EXPECT_EQ(merge.stats().nr_messages, 1u) << c.what;
  }
}

// ---- what cannot be used

TEST(Merger, AMessageFromTheFutureIsMalformed) {
  constexpr uint64_t kEndNs = 10 * kMs;
  const auto all = [](uint64_t ts_ns) {
    Records records;
    records.Message(MakeMeasure(0, ts_ns - 1, ts_ns)).Message(MakeTick(0, ts_ns));
    records.Message(MakeCpuState(0, ts_ns, true)).Message(MakeMeta(0, ts_ns));
    return records;
  };
  for (uint64_t ts_ns : {uint64_t{1}, kEndNs, kEndNs + kGraceNs}) {
    Merge merge(1);
    merge.Drained(0, all(ts_ns), kEndNs);
    EXPECT_EQ(merge.stats().nr_messages, 4u) << ts_ns;
    EXPECT_EQ(merge.stats().nr_malformed, 0u) << ts_ns;
  }
  for (uint64_t ts_ns : {kEndNs + kGraceNs + 1, 1'000'000 * kMs, UINT64_MAX}) {
    Merge merge(1);
    merge.Drained(0, all(ts_ns), kEndNs);
    EXPECT_EQ(merge.stats().nr_malformed, 4u) << ts_ns;
    EXPECT_EQ(merge.stats().nr_messages, 0u) << ts_ns;
    merge.Flush();
    EXPECT_TRUE(merge.sink.got.empty()) << ts_ns;
  }
}

TEST(Merger, AMessageThatIsMuchTooOldIsMalformed) {
  constexpr uint64_t kBeginNs = 2 * kMaxJumpNs;
  for (uint64_t too_old : {0, 1}) {
    const uint64_t ts_ns = kBeginNs - kMaxJumpNs - too_old;
    Records records;
    records.Message(MakeMeasure(0, ts_ns, ts_ns))
        .Message(MakeTick(0, ts_ns))
        .Message(MakeMeta(0, ts_ns));
    Merge merge(1);
    merge.Item(ItemKind::kRecords, 0, kBeginNs, kBeginNs, records.bytes());
    EXPECT_EQ(merge.stats().nr_malformed, too_old ? 3u : 0u);
    EXPECT_EQ(merge.stats().nr_messages, too_old ? 0u : 3u);
  }
}

// Else a broken clock would make slots without an end.
TEST(Merger, SaysNoToAClockThatCannotBe) {
  constexpr uint64_t kNow = 1'000'000 * kMs, kLast = UINT64_MAX / 2;
  const struct {
    const char* what;
    uint64_t first_ns;  // of the item before
    ItemKind kind;
    uint64_t begin_ns, end_ns;
    bool ok;
  } cases[] = {
      {"the first clock may be any", 0, ItemKind::kOnline, kLast, 0, true},
      {"so that sums can wrap", 0, ItemKind::kOnline, kLast + 1, 0, false},
      {"the end of time", kLast, ItemKind::kNote, UINT64_MAX, 0, false},
      {"a long pause", kNow, ItemKind::kOnline, kNow + kMaxJumpNs, 0, true},
      {"too long a pause", kNow, ItemKind::kOnline, kNow + kMaxJumpNs + 1, 0, false},
      {"a step far ahead", kNow, ItemKind::kClock, kNow + kMaxJumpNs + 1, 0, false},
      {"a little back", kNow, ItemKind::kOnline, kNow - kMaxJumpNs, 0, true},
      {"far back", kNow, ItemKind::kOnline, kNow - kMaxJumpNs - 1, 0, false},
      {"a round's end has no clock", kNow, ItemKind::kRoundEnd, UINT64_MAX, 0, true},
      {"a drain that takes no time", kNow, ItemKind::kRecords, kNow, kNow, true},
      {"a drain that ends before it begins", kNow, ItemKind::kRecords, kNow, kNow - 1, false},
      {"a long drain", kNow, ItemKind::kRecords, kNow, kNow + kMaxJumpNs, true},
      {"too long a drain", kNow, ItemKind::kRecords, kNow, kNow + kMaxJumpNs + 1, false},
      {"a long dump", kNow, ItemKind::kDump, kNow, kNow + kMaxJumpNs, true},
      {"too long a dump", kNow, ItemKind::kDump, kNow, kNow + kMaxJumpNs + 1, false},
      {"a dump that ends before it begins", kNow, ItemKind::kDump, kNow, kNow - 1, false},
  };
  for (const auto& c : cases) {
    Merge merge(1);
    merge.Item(ItemKind::kOnline, 0, c.first_ns);
    EXPECT_EQ(merge.Try(Items().Add(c.kind, 0, c.begin_ns, c.end_ns)), c.ok) << c.what;
  }
}

// Each pause may be, but not all of them: 40 bytes would make 600,000 slots, again and again.
TEST(Merger, SaysNoToAClockThatPausesMoreThanItRuns) {
  const auto nr_pauses = [](uint64_t step_ns, uint64_t nr_steps_between) {
    Merge merge(1);
    uint64_t at_ns = kMs;
    merge.Item(ItemKind::kOnline, 0, at_ns);
    for (size_t nr = 0; nr < 1000; nr++) {
      for (uint64_t i = 0; i < nr_steps_between; i++)
        if (!merge.Try(Items().Add(ItemKind::kOnline, 0, at_ns += step_ns, 0))) return nr;
      if (!merge.Try(Items().Add(ItemKind::kOnline, 0, at_ns += kMaxJumpNs, 0))) return nr;
    }
    return size_t{1000};
  };
  constexpr size_t kMost = kMaxPausesNs / kMaxJumpNs;
  EXPECT_EQ(nr_pauses(0, 0), kMost);
  EXPECT_EQ(nr_pauses(kPauseNs, 1), kMost) << "whoever is made to run for a moment in between";
  EXPECT_EQ(nr_pauses(kPauseNs + 1, 1), kMost - 1) << "a short pause is one";
  EXPECT_EQ(nr_pauses(kPauseNs, kMaxJumpNs / kPauseNs), 1000u)
      << "a machine that stands still half of its time";
}

TEST(Merger, OneFromTheFutureHoldsNothingUp) {
  Merge merge(1);
  merge.Online(1);
  Records records;
  records.Message(MakeMeasure(0, 0, 10))
      .Message(MakeMeasure(0, 10, 1'000'000 * kMs))
      .Message(MakeMeasure(0, 10, 20));
  merge.Drained(0, records, 30);
  EXPECT_EQ(merge.AllTimes(), Times({10, 20}));
  EXPECT_EQ(merge.stats().nr_malformed, 1u);
}

// Who knows what it allocated.
TEST(Merger, AMalformedCudaCallIsOneThatWasLost) {
  ss_cuda_call call = {};
  call.hdr = {15, SS_CUDA_CALL, sizeof(call), 0};
  call.start_ns = 12;
  call.tgid = call.tid = 1;
  call.op = SS_CUDA_FREE;
  ss_cuda_call backwards = call, future = call;
  backwards.start_ns = 16;
  future.hdr.ts_ns = 1'000'000 * kMs;
  Merge merge(1);
  merge.Online(1);
  Records records;
  records.Message(call).Message(backwards).Message(future).Message(MakeMeasure(0, 20, 10));
  merge.Drained(0, records, 30);
  EXPECT_EQ(merge.stats().nr_malformed, 3u);
  EXPECT_EQ(merge.stats().nr_malformed_calls, 2u);
  EXPECT_EQ(merge.sink.nr_lost_calls, 2u);
  EXPECT_EQ(merge.stats().nr_messages, 1u);
}

TEST(Merger, CudaCallsMayComeTogether) {
  struct Batch {
    ss_hdr hdr;
    ss_cuda_call calls[3];
  } batch = {};
  for (uint64_t i = 0; i < 3; i++) {
    ss_cuda_call& call = batch.calls[i];
    call.hdr = {15 + i, SS_CUDA_CALL, sizeof(call), 7};  // any CPU's: it went away
    call.start_ns = 12;
    call.tgid = call.tid = 1;
    call.op = SS_CUDA_FREE;
  }
  const struct {
    const char* what;
    std::function<void(Batch*)> change;
    uint64_t nr_messages, nr_malformed;
  } cases[] = {
      {"three", [](Batch*) {}, 3, 0},
      {"one", [](Batch* b) { b->hdr.size = sizeof(ss_hdr) + sizeof(ss_cuda_call); }, 1, 0},
      {"none", [](Batch* b) { b->hdr.size = sizeof(ss_hdr); }, 0, 0},
      {"half of the last", [](Batch* b) { b->hdr.size -= sizeof(ss_cuda_call) / 2; }, 2, 1},
      {"less than a header of the last", [](Batch* b) { b->hdr.size -= sizeof(ss_cuda_call) - 8; }, 2,
       1},
      {"the second is none", [](Batch* b) { b->calls[1].hdr.type = SS_TASK_META; }, 1, 1},
      {"the second has no size", [](Batch* b) { b->calls[1].hdr.size = 0; }, 1, 1},
      {"the second is too large", [](Batch* b) { b->calls[1].hdr.size = UINT16_MAX; }, 1, 1},
      {"the second makes no sense", [](Batch* b) { b->calls[1].tid = 0; }, 2, 1},
  };
  for (const auto& c : cases) {
    Batch changed = batch;
    changed.hdr = {20, SS_CUDA_CALLS, sizeof(changed), 0};
    c.change(&changed);
    Merge merge(1);
    merge.Online(1);
    Records records;
    records.Sample(ObjectBytes(changed).first(changed.hdr.size));
    merge.Drained(0, records, 30);
    EXPECT_EQ(merge.stats().nr_messages, c.nr_messages) << c.what;
    EXPECT_EQ(merge.stats().nr_malformed, c.nr_malformed) << c.what;
    EXPECT_EQ(merge.stats().nr_malformed_calls, c.nr_malformed) << c.what;
    EXPECT_EQ(merge.sink.nr_lost_calls, c.nr_malformed) << c.what;
  }
}

TEST(Merger, AnotherCpusNumberIsMalformed) {
  Merge merge(2);
  merge.Online(1);
  for (uint32_t cpu : {1u, 2u, UINT32_MAX}) {
    Records records;
    records.Message(MakeTick(cpu, 10)).Message(MakeMeasure(cpu, 0, 10)).Message(MakeMeta(cpu, 10));
    merge.Drained(0, records, 10);
  }
  EXPECT_EQ(merge.stats().nr_malformed, 9u);
  EXPECT_EQ(merge.stats().nr_messages, 0u);
}

TEST(Merger, CountsMalformedMessagesAndTakesTheOthers) {
  const auto with = [](auto message, const std::function<void(decltype(message)*)>& change) {
    change(&message);
    return Records().Message(message);
  };
  const auto measure = MakeMeasure(0, 0, 10);
  const auto tick = MakeTick(0, 10);
  const struct {
    const char* what;
    Records records;
    uint64_t nr_malformed, nr_unknown;
  } cases[] = {
      {"good", Records().Message(tick), 0, 0},
      {"a measure that ends before it starts", with(measure, [](ss_measure* m) { m->start_ns = 11; }), 1,
       0},
      {"a measure with nonsense", with(measure, [](ss_measure* m) { m->preemptions = 1; }), 1, 0},
      {"size 0", with(tick, [](ss_tick* t) { t->hdr.size = 0; }), 1, 0},
      {"size below the type's", with(tick, [](ss_tick* t) { t->hdr.size = sizeof(ss_tick) - 1; }), 1, 0},
      {"size above the record's", with(tick, [](ss_tick* t) { t->hdr.size = sizeof(ss_tick) + 5; }), 1,
       0},
      {"the largest size", with(tick, [](ss_tick* t) { t->hdr.size = UINT16_MAX; }), 1, 0},
      {"a measure's type on a tick", with(tick, [](ss_tick* t) { t->hdr.type = SS_MEASURE; }), 1, 0},
      {"type 0", with(tick, [](ss_tick* t) { t->hdr.type = 0; }), 0, 1},
      {"a newer type", with(tick, [](ss_tick* t) { t->hdr.type = SS_NR_TYPES; }), 0, 1},
      {"the last type", with(tick, [](ss_tick* t) { t->hdr.type = UINT16_MAX; }), 0, 1},
      {"a whole record more than the message needs",
       with(measure, [](ss_measure* m) { m->hdr = MakeTick(0, 10).hdr; }), 1, 0},
  };
  for (const auto& c : cases) {
    Merge merge(1);
    Records records;
    records.Message(MakeTick(0, 1)).Bytes(c.records.bytes()).Message(MakeTick(0, 2));
    merge.Drained(0, records, 10);
    EXPECT_EQ(merge.stats().nr_malformed, c.nr_malformed) << c.what;
    EXPECT_EQ(merge.stats().nr_unknown, c.nr_unknown) << c.what;
    EXPECT_EQ(merge.stats().nr_messages, 3 - c.nr_malformed - c.nr_unknown) << c.what;
    EXPECT_EQ(merge.sink.got.size(), merge.stats().nr_messages) << c.what;
  }
}

TEST(Merger, TextsComeFromRingsAndFromDumps) {
  ss_text text = {};
  text.hdr = {50, SS_EXEC, offsetof(ss_text, text) + 8, 0};
  text.tgid = 7;
  text.text_len = 4;
  const auto bytes = ObjectBytes(text).first(text.hdr.size);
  Merge merge(1);
  Records records;
  records.Sample(bytes);
  merge.Drained(0, records, 100);
  EXPECT_EQ(merge.sink.got.size(), 1u);
  Items dump;
  dump.Add(ItemKind::kDumpBegin, 1, 200).Add(ItemKind::kDump, 1, 200, 210, bytes);
  text.text_len = 9;  // more than there is
  dump.Add(ItemKind::kDump, 1, 200, 210, ObjectBytes(text).first(text.hdr.size));
  dump.Add(ItemKind::kPods, 0, 220, 0, PaddedText("uid ml/train-0\n"));
  EXPECT_TRUE(merge.Try(dump));
  EXPECT_EQ(merge.sink.got.size(), 2u);
  EXPECT_EQ(merge.sink.pods, "uid ml/train-0\n");
  EXPECT_EQ(merge.stats().nr_malformed, 1u);
  EXPECT_EQ(merge.stats().nr_messages, 2u);
}

TEST(Merger, TakesLongerMessagesOfNewerWriters) {
  struct Longer {
    ss_tick tick;
    uint64_t more;
  };
  for (uint16_t size = sizeof(ss_tick); size <= sizeof(Longer); size++) {
    Longer longer = {MakeTick(0, 10), UINT64_MAX};
    longer.tick.hdr.size = size;
    Merge merge(1);
    merge.Drained(0, Records().Sample(ObjectBytes(longer).first(size)), 10);
    EXPECT_EQ(merge.stats().nr_messages, 1u) << size;
    EXPECT_EQ(merge.stats().nr_malformed, 0u) << size;
  }
}

TEST(Merger, CountsRecordsThatItCannotUse) {
  const uint64_t body[] = {0, 7, 0, 0};
  const auto raw = [](uint32_t type, uint16_t size, size_t length) {
    std::vector<std::byte> bytes(length);
    perf_event_header header = {type, 0, size};
    std::memcpy(bytes.data(), &header, std::min(length, sizeof(header)));
    return Records().Bytes(bytes);
  };
  const struct {
    const char* what;
    Records records;
    bool goes_on;  // where the next record begins can be told
  } cases[] = {
      {"another record", Records().Record(PERF_RECORD_COMM, ObjectBytes(body)), true},
      {"a sample without a message", Records().Record(PERF_RECORD_SAMPLE, {}), true},
      {"a sample too short for a header",
       Records().Record(PERF_RECORD_SAMPLE, ObjectBytes(body).first(16)), true},
      {"a lost record that says nothing", Records().Record(PERF_RECORD_LOST, ObjectBytes(body).first(8)),
       true},
      {"no length", raw(PERF_RECORD_SAMPLE, 0, 8), false},
      {"shorter than its header", raw(PERF_RECORD_SAMPLE, 7, 8), false},
      {"no multiple of eight", raw(PERF_RECORD_SAMPLE, 36, 40), false},
      {"longer than the item", raw(PERF_RECORD_SAMPLE, 1024, 64), false},
      {"the longest", raw(PERF_RECORD_LOST, 65528, 64), false},
  };
  for (const auto& c : cases) {
    Merge merge(1);
    Records records;
    records.Message(MakeTick(0, 1)).Bytes(c.records.bytes()).Message(MakeTick(0, 2));
    merge.Drained(0, records, 10);
    EXPECT_EQ(merge.stats().nr_malformed, 1u) << c.what;
    EXPECT_EQ(merge.AllTimes(), c.goes_on ? Times({1, 2}) : Times({1})) << c.what;
    EXPECT_EQ(merge.stats().nr_lost, 0u) << c.what;
  }
}

TEST(Merger, ASamplesRawSizeMustFitItsRecordAndItsMessage) {
  const uint32_t real = sizeof(ss_tick) + 4;  // with the padding
  const struct {
    uint32_t raw_size;
    bool ok;
  } cases[] = {{0, false},
               {sizeof(ss_tick) - 1, false},
               {sizeof(ss_tick), true},
               {real, true},
               {real + 1, false},
               {1024, false},
               {UINT32_MAX, false}};
  for (const auto& c : cases) {
    Records whole = Records().Message(MakeTick(0, 1));
    std::vector<std::byte> bytes(whole.bytes().begin(), whole.bytes().end());
    std::memcpy(bytes.data() + sizeof(perf_event_header), &c.raw_size, sizeof(c.raw_size));
    Merge merge(1);
    merge.Drained(0, Records().Bytes(bytes), 10);
    EXPECT_EQ(merge.stats().nr_messages, c.ok) << c.raw_size;
    EXPECT_EQ(merge.stats().nr_malformed, !c.ok) << c.raw_size;
  }
}

TEST(Merger, SumsLostRecords) {
  Merge merge(2);
  Records records;
  records.Lost(7).Message(MakeTick(0, 1)).Lost(1);
  merge.Drained(0, records, 10);
  merge.Drained(1, Records().Lost(uint64_t{1} << 40), 10);
  EXPECT_EQ(merge.stats().nr_lost, (uint64_t{1} << 40) + 8);
  EXPECT_EQ(merge.stats().nr_malformed, 0u);
  EXPECT_EQ(merge.stats().nr_messages, 1u);
}

TEST(Merger, SaysNoToAnItemThatCannotBe) {
  const size_t kCpus = 2;
  const auto item = [](ItemKind kind, uint32_t stream, uint32_t size, size_t length) {
    ItemHeader header = {kind, 0, stream, size, 0, 5, 5};
    return Items().Bytes(ObjectBytes(header)).Bytes(std::vector<std::byte>(length));
  };
  const struct {
    const char* what;
    Items items;
    bool ok;
  } cases[] = {
      {"nothing", Items(), true},
      {"a good one", item(ItemKind::kRecords, 1, 0, 0), true},
      {"a dump", item(ItemKind::kDump, kCpus, 0, 0), true},
      {"one byte", Items().Bytes(std::vector<std::byte>(1)), false},
      {"half a header", Items().Bytes(std::vector<std::byte>(31)), false},
      {"kind 0", item(ItemKind{0}, 0, 0, 0), false},
      {"the kind behind the last", item(ItemKind{14}, 0, 0, 0), false},
      {"the largest kind", item(ItemKind{UINT16_MAX}, 0, 0, 0), false},
      {"longer than the bytes", item(ItemKind::kNote, 0, 16, 8), false},
      {"the largest size", item(ItemKind::kNote, 0, UINT32_MAX - 7, 8), false},
      {"no multiple of eight", item(ItemKind::kNote, 0, 7, 7), false},
      {"a stream that is not there", item(ItemKind::kRecords, kCpus + 1, 0, 0), false},
      {"a note of the stream behind the last", item(ItemKind::kNote, kCpus + 1, 0, 0), false},
      {"a note of a stream that is not there", item(ItemKind::kNote, UINT32_MAX, 0, 0), false},
      {"records of the dump", item(ItemKind::kRecords, kCpus, 0, 0), false},
      {"the dump comes online", item(ItemKind::kOnline, kCpus, 0, 0), false},
      {"the dump goes offline", item(ItemKind::kOffline, kCpus, 0, 0), false},
      {"the dump is expected", item(ItemKind::kExpected, kCpus, 0, 0), false},
      {"no view of GPUs", item(ItemKind::kGpuView, 0, 0, 0), false},
      {"a view of fewer GPUs than it says",
       Items().Add(ItemKind::kGpuView, 0, 1, 0, ObjectBytes(GpuViewItem{1, 1})), false},
      {"a view of more GPUs than there can be",
       Items().Add(ItemKind::kGpuView, 0, 1, 0, ObjectBytes(GpuViewItem{1, UINT32_MAX})), false},
      {"half a sample of a GPU", item(ItemKind::kGpuSample, 0, 24, 24), false},
      {"a sample of a GPU", item(ItemKind::kGpuSample, 0, sizeof(GpuSample), sizeof(GpuSample)), true},
      {"half of another's memory", item(ItemKind::kRemoteMemory, 0, 16, 16), false},
      {"another's memory", item(ItemKind::kRemoteMemory, 0, sizeof(RemoteMemory), sizeof(RemoteMemory)),
       true},
      {"another's memory to come",
       Items().Add(ItemKind::kRemoteMemory, 0, 1, 0, ObjectBytes(RemoteMemory{1, 0, 0, 2})), false},
      {"another's memory of an hour ago",
       Items().Add(ItemKind::kRemoteMemory, 0, 3'600'000'000'000, 0,
                   ObjectBytes(RemoteMemory{1, 0, 0, 2})),
       false},
      {"half of another's straggling", item(ItemKind::kRemoteStraggle, 0, 16, 16), false},
      {"another's straggling",
       item(ItemKind::kRemoteStraggle, 0, sizeof(RemoteStraggle), sizeof(RemoteStraggle)), true},
      {"another's straggling to come",
       Items().Add(ItemKind::kRemoteStraggle, 0, 1, 0, ObjectBytes(RemoteStraggle{1, 0, 0, 2})), false},
      {"another has gone", item(ItemKind::kRemoteGone, 0, 0, 0), true},
      {"half of what came from another", item(ItemKind::kRemoteCounts, 0, 48, 48), false},
      {"what came from another",
       item(ItemKind::kRemoteCounts, 0, sizeof(RemoteCounts), sizeof(RemoteCounts)), true},
      {"no losses", item(ItemKind::kLosses, 0, 0, 0), false},
      {"half the losses", item(ItemKind::kLosses, 0, 24, 24), false},
      {"the losses of a recorder that knew no GPUs", item(ItemKind::kLosses, 0, 32, 32), true},
      {"half of whose calls were lost", item(ItemKind::kLostCalls, 0, 16, 16), false},
      {"whose calls were lost", item(ItemKind::kLostCalls, 0, sizeof(LostCalls), sizeof(LostCalls)),
       true},
      {"all losses", item(ItemKind::kLosses, 0, sizeof(SourceLosses), sizeof(SourceLosses)), true},
  };
  for (const auto& c : cases) {
    Merge merge(kCpus);
    Items items;
    items.Add(ItemKind::kExpected, 0, 1);
    items.Bytes(c.items.bytes());
    if (c.ok) items.Add(ItemKind::kExpected, 1, 1);
    EXPECT_EQ(merge.Try(items), c.ok) << c.what;
    EXPECT_EQ(merge.sink.expected.size(), c.ok ? 2u : 1u) << c.what << ": what is before it counts";
    EXPECT_EQ(merge.losses(), SourceLosses()) << c.what;
  }
}

TEST(Merger, UsesNothingBehindAnItemThatCannotBe) {
  Merge merge(1);
  Items items;
  items.Add(ItemKind::kExpected, 0, 1).Add(ItemKind{0}, 0, 1).Add(ItemKind::kExpected, 0, 1);
  EXPECT_FALSE(merge.Try(items));
  EXPECT_EQ(merge.sink.expected.size(), 1u);
}

// ---- the end

TEST(Merger, FlushHandsOutWhatTheLastDrainsBrought) {
  Merge merge(2);
  merge.Online(1);
  merge.AllPassed(50 * kMs);
  merge.Measure(0, 51 * kMs, 51 * kMs + 2);
  merge.Measure(0, 51 * kMs + 3, 51 * kMs + 4);
  merge.Measure(1, 51 * kMs, 51 * kMs + 1);
  merge.Item(ItemKind::kOffline, 1, 52 * kMs);
  EXPECT_TRUE(merge.sink.got.empty());
  merge.Flush();
  EXPECT_EQ(merge.AllTimes(), Times({51 * kMs + 2, 51 * kMs + 4, 51 * kMs + 1, 51 * kMs + 1}));
  EXPECT_EQ(merge.watermark_ns(), 50 * kMs);
  EXPECT_EQ(merge.stats().nr_late, 0u);
  merge.Flush();
  EXPECT_EQ(merge.sink.got.size(), 4u) << "once each";
}

// ---- properties

struct Sent {
  uint64_t written_ns;  // when it was in the ring
  ss_any_message message;
};

// A CPU's time: measures one behind the other, now and then a gap, a time offline, a tick or a birth. In
// the order in which they are written.
std::vector<Sent> RandomStream(std::mt19937_64& random, uint32_t cpu, uint64_t end_ns,
                               uint64_t max_delay_ns, uint32_t* next_id) {
  std::vector<Sent> stream;
  auto send = [&](const auto& message) {
    Sent sent = {};
    sent.written_ns = message.hdr.ts_ns + (random() % 4 == 0 ? random() % max_delay_ns : 0);
    std::memcpy(static_cast<void*>(&sent.message), &message, sizeof(message));
    stream.push_back(sent);
  };
  const uint64_t mean_ns = 10'000 + random() % 200'000;
  for (uint64_t ts_ns = 2 * kMs; ts_ns < end_ns;) {
    const uint64_t start_ns = ts_ns;
    ts_ns += 1 + random() % mean_ns;
    send(MakeMeasure(cpu, start_ns, ts_ns, (*next_id)++));
    switch (random() % 64) {
      case 0:  // lost
        ts_ns += random() % (3 * mean_ns);
        break;
      case 1:
        send(MakeCpuState(cpu, ts_ns, false));
        ts_ns += 1 + random() % (3 * mean_ns);
        send(MakeCpuState(cpu, ts_ns, true));
        break;
      case 2:
        send(MakeTick(cpu, ts_ns));
        break;
      case 3:
        send(MakeMeta(cpu, ts_ns));
        break;
      default:
        break;
    }
  }
  std::stable_sort(stream.begin(), stream.end(),
                   [](const Sent& a, const Sent& b) { return a.written_ns < b.written_ns; });
  return stream;
}

// Each measure once; those of a CPU that are not late in the order of its time, with its states.
void CheckOrder(const std::vector<Got>& got, size_t nr_cpus, uint32_t nr_measures) {
  std::vector<bool> seen(nr_measures + 1);
  std::vector<uint64_t> at_ns(nr_cpus);
  for (const Got& one : got) {
    if (one.type == SS_MEASURE) {
      ASSERT_FALSE(seen[one.id]) << "handed out twice";
      seen[one.id] = true;
    }
    if (one.late || (one.type != SS_MEASURE && one.type != SS_CPU_STATE)) continue;
    ASSERT_GE(one.ts_ns, at_ns[one.cpu]) << "CPU " << one.cpu;
    at_ns[one.cpu] = one.ts_ns;
  }
}

void RunRandomMerge(uint64_t seed, size_t nr_cpus, uint64_t max_delay_ns, bool expect_late) {
  std::mt19937_64 random(seed);
  constexpr uint64_t kEndNs = 100 * kMs;
  uint32_t next_id = 1;
  size_t nr_to_send = 0;
  std::vector<std::vector<Sent>> streams;
  for (uint32_t cpu = 0; cpu < nr_cpus; cpu++) {
    streams.push_back(RandomStream(random, cpu, kEndNs, max_delay_ns, &next_id));
    nr_to_send += streams.back().size();
  }

  Merge merge(nr_cpus);
  merge.Online(1 * kMs);
  std::vector<size_t> at(nr_cpus);
  size_t nr_sent = 0;
  uint64_t clock_ns = 2 * kMs;
  while (nr_sent < nr_to_send) {
    clock_ns += random() % (5 * kMs);
    for (size_t cpu = 0; cpu < nr_cpus; cpu++) {
      uint64_t before_ns = clock_ns;
      clock_ns += random() % 20'000;  // the drain takes time
      Records records;
      while (at[cpu] < streams[cpu].size() && streams[cpu][at[cpu]].written_ns <= clock_ns) {
        const ss_any_message& message = streams[cpu][at[cpu]++].message;
        records.Sample(ObjectBytes(message).first(message.hdr.size));
        nr_sent++;
        if (random() % 16) continue;
        merge.Drained(cpu, records, clock_ns);  // the room ended here
        records.Clear();
      }
      merge.Drained(cpu, records, clock_ns);
      merge.Item(ItemKind::kRecords, cpu, before_ns, clock_ns);
    }
    if (random() % 4) merge.RoundEnd();
  }
  merge.Flush();

  const std::vector<Got>& got = merge.sink.got;
  ASSERT_EQ(got.size(), nr_sent) << "in = out";
  ASSERT_NO_FATAL_FAILURE(CheckOrder(got, nr_cpus, next_id - 1));
  const auto nr_late = std::count_if(got.begin(), got.end(), [](const Got& one) { return one.late; });
  ASSERT_EQ(merge.stats().nr_late, static_cast<uint64_t>(nr_late));
  ASSERT_EQ(merge.stats().nr_messages, nr_sent);
  ASSERT_EQ(merge.stats().nr_malformed, 0u);
  ASSERT_EQ(merge.stats().nr_stalls, 0u);
  ASSERT_GT(merge.stats().nr_reordered, 0u);
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

// Items out of a file that somebody has made: any bytes are survived, and the counts stay true.
TEST(Merger, DamagedItemsDoNoHarm) {
  constexpr size_t kCpus = 2;
  std::mt19937_64 random(1);
  uint32_t next_id = 1;
  Items good;
  for (uint32_t cpu = 0; cpu < kCpus; cpu++) good.Add(ItemKind::kOnline, cpu, 1 * kMs);
  for (uint64_t round = 1; round < 6; round++) {
    for (uint32_t cpu = 0; cpu < kCpus; cpu++) {
      Records records;
      for (const Sent& sent : RandomStream(random, cpu, 2 * kMs + 200'000, kGraceNs, &next_id))
        records.Sample(ObjectBytes(sent.message).first(sent.message.hdr.size));
      good.Add(ItemKind::kRecords, cpu, round * 5 * kMs, round * 5 * kMs + 10, records.Lost(3).bytes());
    }
    good.Add(ItemKind::kDumpBegin, kCpus, round * 5 * kMs);
    good.Add(ItemKind::kDump, kCpus, 0, round * 5 * kMs, ObjectBytes(MakeMeta(0, 3 * kMs)));
    good.Add(ItemKind::kDumpEnd, kCpus, round * 5 * kMs).Add(ItemKind::kRoundEnd, 0, 0);
    good.Add(ItemKind::kNote, 0, 1, 0, PaddedText("a note"));
    good.Add(ItemKind::kLosses, 0, 1, 0, ObjectBytes(SourceLosses{}));
  }
  size_t nr_refused = 0;
  for (int i = 0; i < 3000; i++) {
    Items items = good;
    for (uint64_t nr = 1 + random() % 8; nr > 0; nr--) {
      std::byte& byte = items.bytes()[random() % items.bytes().size()];
      byte = random() % 2 ? static_cast<std::byte>(random()) : byte ^ std::byte{0x80};
    }
    Merge merge(kCpus);
    nr_refused += !merge.Try(items);
    merge.Flush();
    const size_t nr_offline = merge.sink.got.size() - merge.stats().nr_messages;
    ASSERT_LE(nr_offline, 8u) << "only a damaged kind can make an offline that nobody sent";
  }
  EXPECT_GT(nr_refused, 100u) << "the damage is where it hurts";
}

}  // namespace
}  // namespace slotscope
