// SPDX-License-Identifier: MIT
// From RDT samples to rows, by hand-made measures and samples. Slots are 1 ms long, as ticks are, and
// the window is 10 ms; the first slot starts at 10 ms. Times here are in microseconds, slots are named
// by the millisecond in which they start.
#include "slots/rdt_attribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "items.h"
#include "slots/slot_builder.h"

namespace slotscope {
namespace {

constexpr uint64_t kUs = 1000;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kFirstUs = 10'000;
constexpr uint32_t kNear = 3, kFar = 5;  // ids of L3 domains, which need not begin at 0

struct Who {
  int32_t tgid;
  uint32_t rmid;
  uint32_t generation = 1;
  uint64_t start_time_ns = 1;
};
constexpr Who kSeven = {107, 7}, kEight = {108, 8};

// CPU 0 is near, CPU 1 is far, CPU 2 is in no domain.
RdtShape Shape(bool occupancy, bool total, bool local) {
  return {{{kNear, {0}}, {kFar, {1}}}, occupancy, total, local};
}
const RdtShape kOnlyTotal = Shape(false, true, false);
const RdtShape kOnlyOccupancy = Shape(true, false, false);
const RdtShape kAllCounted = Shape(true, true, true);

ss_rdt_sample Sample(ss_rdt_event event, const Who& who, uint64_t since_us, uint64_t ts_us,
                     uint64_t value, uint32_t domain, uint16_t status) {
  auto sample = MakeMessage<ss_rdt_sample>(SS_RDT_SAMPLE, 0, ts_us * kUs);
  sample.since_ns = since_us * kUs;
  sample.value = value;
  sample.rmid = who.rmid;
  sample.generation = who.generation;
  sample.domain = domain;
  sample.event = event;
  sample.status = status;
  return sample;
}
ss_rdt_sample Total(const Who& who, uint64_t since_us, uint64_t ts_us, uint64_t bytes,
                    uint32_t domain = kNear, uint16_t status = SS_RDT_OK) {
  return Sample(SS_RDT_MBM_TOTAL, who, since_us, ts_us, bytes, domain, status);
}
ss_rdt_sample Local(const Who& who, uint64_t since_us, uint64_t ts_us, uint64_t bytes,
                    uint32_t domain = kNear, uint16_t status = SS_RDT_OK) {
  return Sample(SS_RDT_MBM_LOCAL, who, since_us, ts_us, bytes, domain, status);
}
ss_rdt_sample Occupancy(const Who& who, uint64_t ts_us, uint64_t bytes, uint32_t domain = kNear,
                        uint16_t status = SS_RDT_OK) {
  return Sample(SS_RDT_LLC_OCCUPANCY, who, ts_us, ts_us, bytes, domain, status);
}

class Recorder final : public SlotSink {
 public:
  void OnSlot(Slot* slot) override { slots.push_back(*slot); }
  std::vector<Slot> slots;
};

// As it is shown: memory traffic (total, local), occupancy and status; "-" is an empty column.
std::string Text(const RdtRow& rdt) {
  std::string text;
  for (size_t i = 0; i < kNrRdtValues; i++)
    text += (rdt.unmeasured & 1u << i ? "-" : std::to_string(rdt.values[i])) + " ";
  return text + kRdtStatusNames[rdt.status];
}

class Feed {
 public:
  explicit Feed(const RdtShape& shape = kOnlyTotal, bool knows_first = true, uint64_t slot_ns = kMs)
      : builder({slot_ns, 10 * kMs, {0, 1, 2}, false, 0, shape}, &sink) {
    for (uint32_t cpu : {0, 1, 2}) Watch(cpu, kFirstUs);
    if (knows_first) builder.OnWatermark(kFirstUs * kUs);
    for (const Who& who : {kSeven, kEight}) Alloc(who, 5'000);
  }
  // Whatever was fed, nothing is lost.
  ~Feed() {
    EXPECT_TRUE(ended_);
    EXPECT_TRUE(builder.accounting().Holds());
    MbmSums shown = {};
    for (const Slot& slot : sink.slots)
      for (const RdtRow& rdt : slot.rdt)
        for (size_t i = 0; i < kNrMbm; i++) shown[i] += rdt.values[i];
    EXPECT_EQ(shown, mbm().written);
  }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  void Alloc(const Who& who, uint64_t ts_us) { SendRmid(SS_RMID_ALLOC, who, ts_us); }
  void Free(const Who& who, uint64_t ts_us) { SendRmid(SS_RMID_FREE, who, ts_us); }
  // The CPU was idle before.
  void Ran(uint32_t cpu, const Who& who, uint64_t from_us, uint64_t to_us, uint32_t flags = 0) {
    IdleUntil(cpu, from_us);
    RanAfterLostTime(cpu, who, from_us, to_us, flags);
  }
  void RanAfterLostTime(uint32_t cpu, const Who& who, uint64_t from_us, uint64_t to_us,
                        uint32_t flags = 0) {
    measured_us_[cpu] = std::max(measured_us_[cpu], to_us);
    ss_measure measure = MakeMeasure(cpu, from_us * kUs, to_us * kUs, seq_[cpu]++);
    measure.tgid = who.tgid;
    measure.start_time_ns = who.start_time_ns;
    measure.rmid = who.rmid;
    measure.generation = who.rmid ? who.generation : 0;
    measure.flags = flags;
    builder.OnMeasure(measure);
  }
  void Send(const ss_rdt_sample& sample) { SendAny(sample); }
  void Watermark(uint64_t ts_us) {
    for (uint32_t cpu : {0, 1, 2}) IdleUntil(cpu, ts_us - std::min<uint64_t>(ts_us, 10'000));
    builder.OnWatermark(ts_us * kUs);
  }
  // Every CPU has got there.
  void End(uint64_t ts_us) {
    for (uint32_t cpu : {0, 1, 2}) {
      IdleUntil(cpu, ts_us);
      Watch(cpu, ts_us);
    }
    builder.Finish();
    ended_ = true;
  }

  const Slot* SlotAt(uint64_t ms) const {
    for (const Slot& slot : sink.slots)
      if (slot.start_ns == ms * kMs) return &slot;
    return nullptr;
  }
  const Row* RowOf(uint64_t ms, const Who& who) const {
    const Slot* slot = SlotAt(ms);
    if (!slot) return nullptr;
    for (const Row& row : slot->rows)
      if (row.kind != RowKind::kLost && row.kind != RowKind::kOffline && row.key.tgid == who.tgid)
        return &row;
    return nullptr;
  }
  const RdtRow* RdtOf(uint64_t ms, const Who& who) const {
    const Row* row = RowOf(ms, who);
    return row ? SlotAt(ms)->RdtOf(*row) : nullptr;
  }
  std::string Shown(uint64_t ms, const Who& who) const {
    if (!SlotAt(ms)) return "no slot";
    const RdtRow* rdt = RdtOf(ms, who);
    return rdt ? Text(*rdt) : "no row";
  }
  // Even if it is not shown.
  uint64_t BytesOf(uint64_t ms, const Who& who) const {
    const RdtRow* rdt = RdtOf(ms, who);
    return rdt ? rdt->values[kMbmTotal] : 0;
  }
  const MbmAccounting& mbm() const { return builder.accounting().mbm; }

  Recorder sink;
  SlotBuilder builder;

 private:
  template <typename Message>
  void SendAny(const Message& message) {
    ss_any_message any = {};
    std::memcpy(static_cast<void*>(&any), &message, sizeof(message));
    builder.OnMessage(any, false);
  }
  void SendRmid(uint16_t type, const Who& who, uint64_t ts_us) {
    ss_rmid_event event = MakeRmidEvent(type, 0, ts_us * kUs);
    event.rmid = who.rmid;
    event.generation = who.generation;
    event.tgid = who.tgid;
    event.start_time_ns = who.start_time_ns;
    SendAny(event);
  }
  void Watch(uint32_t cpu, uint64_t ts_us) { builder.OnCpuState(MakeCpuState(cpu, ts_us * kUs, true)); }

  void IdleUntil(uint32_t cpu, uint64_t ts_us) {
    const uint64_t from_us = std::max(measured_us_[cpu], kFirstUs);
    if (from_us < ts_us) RanAfterLostTime(cpu, {0, 0, 0, 0}, from_us, ts_us, SS_MEASURE_IDLE);
  }

  std::map<uint32_t, uint32_t> seq_;
  std::map<uint32_t, uint64_t> measured_us_;  // to there
  bool ended_ = false;
};

struct Span {
  uint64_t from_us, to_us;
};

TEST(RdtAttribution, ADeltaIsCutOverItsSlotsByWhatTheOwnerRan) {
  constexpr uint64_t kNoRow = UINT64_MAX;
  const struct {
    std::vector<Span> ran;
    Span read;
    uint64_t bytes;
    std::array<uint64_t, 3> shown;  // in slots 10, 11, 12
  } cases[] = {
      {{{10'100, 10'900}}, {10'100, 10'950}, 1000, {1000, kNoRow, kNoRow}},
      // 1001 x 1/4 is 250.25.
      {{{10'100, 10'200}, {11'100, 11'400}}, {10'000, 12'000}, 1001, {250, 751, kNoRow}},
      {{{10'100, 10'200}, {12'100, 12'200}}, {10'000, 13'000}, 999, {499, kNoRow, 500}},
      // The ends weigh 500 us x 500 / 1000 and 250 us x 250 / 1000: 250 + 1000 + 62.5.
      {{{10'500, 12'250}}, {10'500, 12'250}, 1000, {190, 762, 48}},
      // A byte goes to the piece in which the rounded-down share grows.
      {{{10'000, 13'000}}, {10'000, 13'000}, 1, {0, 0, 1}},
      {{{10'000, 13'000}}, {10'000, 13'000}, 2, {0, 1, 1}},
      {{{10'000, 11'000}}, {10'000, 11'000}, 0, {0, kNoRow, kNoRow}},
  };
  for (const auto& c : cases) {
    Feed feed;
    for (Span span : c.ran) feed.Ran(0, kSeven, span.from_us, span.to_us);
    feed.Send(Total(kSeven, c.read.from_us, c.read.to_us, c.bytes));
    feed.End(13'000);
    for (size_t i = 0; i < c.shown.size(); i++)
      EXPECT_EQ(feed.Shown(10 + i, kSeven),
                c.shown[i] == kNoRow ? "no row" : std::to_string(c.shown[i]) + " - - ok")
          << c.bytes << " bytes, slot " << 10 + i;
    EXPECT_EQ(feed.mbm().written[kMbmTotal], c.bytes);
  }
}

TEST(RdtAttribution, OfASlotThatIsPartlyCoveredThePartOfItsTimeCounts) {
  const struct {
    Span ran;
    std::array<std::string, 2> shown;  // of slots 10, 11
  } cases[] = {
      // 980 us x 980 / 1000, and 20 us x 20 / 1000.
      {{10'020, 11'020}, {"999 - - ok", "1 - - ok"}},
      {{10'500, 11'000}, {"1000 - - ok", "no row"}},
      {{11'000, 11'010}, {"no row", "1000 - - ok"}},
      // 490 us and 0.2 us.
      {{10'500, 11'010}, {"999 - - ok", "1 - - ok"}},
      // 0.98 us and 0.4 us.
      {{10'999, 11'020}, {"710 - - ok", "290 - - ok"}},
  };
  for (const auto& c : cases) {
    Feed feed;
    feed.Ran(0, kSeven, c.ran.from_us, c.ran.to_us);
    feed.Send(Total(kSeven, 10'020, 11'020, 1000));
    feed.End(12'000);
    EXPECT_EQ(feed.Shown(10, kSeven), c.shown[0]) << c.ran.from_us;
    EXPECT_EQ(feed.Shown(11, kSeven), c.shown[1]) << c.ran.from_us;
  }
}

TEST(RdtAttribution, TicksALittleBehindTheirBordersGiveEachSlotItsTraffic) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 13'100);
  feed.Send(Total(kSeven, 10'000, 10'020, 2));
  feed.Send(Total(kSeven, 10'020, 11'020, 1000));  // 980 + 20
  feed.Send(Total(kSeven, 11'020, 12'020, 500));   // 490 + 10
  // Of the 100 us in slot 13 the overlap is 2, of 982: 9979.6, and the rest is after.
  feed.Send(Total(kSeven, 12'020, 13'020, 10'000));
  feed.End(13'100);
  EXPECT_EQ(feed.Shown(10, kSeven), "982 - - ok");
  EXPECT_EQ(feed.Shown(11, kSeven), "510 - - ok");
  EXPECT_EQ(feed.mbm().after[kMbmTotal], 21u);
  EXPECT_EQ(feed.Shown(12, kSeven), "9989 - - ok");
}

TEST(RdtAttribution, AnOwnerThatDidNotRunIsGivenEqualTimeWhichIsAGuess) {
  Feed feed;
  feed.Send(Total(kSeven, 10'500, 12'250, 1751));
  feed.Ran(1, kEight, 10'500, 10'600);  // not in the domain of its sample
  feed.Send(Total(kEight, 10'500, 11'500, 10));
  feed.End(13'000);
  for (uint64_t ms : {10, 11, 12}) EXPECT_EQ(feed.Shown(ms, kSeven), "- - - partial") << ms;
  EXPECT_EQ(feed.BytesOf(10, kSeven), 500u);
  EXPECT_EQ(feed.BytesOf(11, kSeven), 1000u);
  EXPECT_EQ(feed.BytesOf(12, kSeven), 251u);
  EXPECT_EQ(feed.BytesOf(10, kEight), 5u);
  EXPECT_EQ(feed.BytesOf(11, kEight), 5u);
}

TEST(RdtAttribution, BytesWithoutTimeOnAnyCpuAreAGuessAlsoWithinASlot) {
  Feed feed;
  feed.Send(Total(kSeven, 10'100, 10'900, 64));
  feed.Ran(0, kEight, 10'000, 10'500);
  feed.Send(Total(kEight, 10'000, 10'600, 640));
  feed.Send(Total(kEight, 10'200, 10'700, 6, kFar));  // late writes there; it ran elsewhere
  feed.End(12'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - partial");
  EXPECT_EQ(feed.BytesOf(10, kSeven), 64u);
  EXPECT_EQ(feed.Shown(10, kEight), "646 - - ok");
}

// Nobody knows who ran in it; a delta that covers it says nothing of its slots, but others do.
TEST(RdtAttribution, ADeltaOverLostTimeIsAGuess) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 11'020);
  feed.Send(Total(kSeven, 10'000, 11'020, 1020));
  feed.RanAfterLostTime(0, kSeven, 12'500, 13'020);
  feed.Send(Total(kSeven, 11'020, 13'020, 2000));
  feed.Ran(0, kSeven, 13'020, 14'020);
  feed.Send(Total(kSeven, 13'020, 14'020, 1000));
  feed.Ran(0, kSeven, 14'020, 15'000);
  feed.Send(Total(kSeven, 14'020, 15'020, 980));
  feed.End(16'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "1019 - - ok");
  for (uint64_t ms : {11, 12, 13}) EXPECT_EQ(feed.Shown(ms, kSeven), "- - - partial") << ms;
  EXPECT_EQ(feed.Shown(14, kSeven), "1000 - - ok");
}

// Where the recording ends, some measures are missing: what its owner ran behind that is not known.
TEST(RdtAttribution, ADeltaOverTheEndOfTheRecordingIsAGuess) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 10'500);
  feed.Ran(0, kEight, 10'500, 11'000);
  feed.Send(Total(kSeven, 10'000, 14'000, 4000));  // most of it was caused behind the end
  feed.Send(Total(kEight, 10'000, 12'000, 500));
  feed.End(12'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - partial");
  EXPECT_EQ(feed.Shown(10, kEight), "500 - - ok");
}

TEST(RdtAttribution, ARowThatTrafficAloneMadeIsOfAProcess) {
  Feed feed;
  feed.Send(Total(kSeven, 10'100, 10'200, 9));
  feed.End(11'000);
  const Row* row = feed.RowOf(10, kSeven);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->kind, RowKind::kUser);
  EXPECT_EQ(row->rmid, 7u);
  EXPECT_EQ(row->key, (ProcessKey{107, 1}));
  EXPECT_EQ(row->sums, Sums{});
}

TEST(RdtAttribution, NothingThatHasNoBytesMakesARow) {
  Feed feed(kAllCounted);
  feed.Send(Total(kSeven, 10'100, 10'200, 0));
  feed.Send(Total(kSeven, 10'200, 10'300, 5, kNear, SS_RDT_ERROR));
  feed.Send(Occupancy(kSeven, 11'020, 4096));
  feed.End(11'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "no row");
}

TEST(RdtAttribution, WeightsArePerDomainAndValuesAreSummed) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 11'000);
  feed.Ran(1, kSeven, 10'000, 10'500);
  feed.Ran(1, kSeven, 11'000, 12'000);
  feed.Send(Total(kSeven, 10'000, 12'000, 600));       // all in slot 10
  feed.Send(Total(kSeven, 10'000, 12'000, 90, kFar));  // 30 + 60
  feed.End(12'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "630 - - ok");
  EXPECT_EQ(feed.Shown(11, kSeven), "60 - - ok");
}

TEST(RdtAttribution, CpusOfADomainWeighTogether) {
  RdtShape shape = kOnlyTotal;
  shape.domains = {{kNear, {0, 1}}};
  Feed feed(shape);
  feed.Ran(0, kSeven, 10'000, 12'000);
  feed.Ran(1, kSeven, 10'000, 11'000);
  feed.Send(Total(kSeven, 10'000, 12'000, 300));
  feed.End(12'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "200 - - ok");
  EXPECT_EQ(feed.Shown(11, kSeven), "100 - - ok");
}

TEST(RdtAttribution, EventsDoNotTouchEachOther) {
  Feed feed(Shape(false, true, true));
  feed.Ran(0, kSeven, 10'000, 12'000);
  feed.Send(Total(kSeven, 10'000, 12'000, 100));
  feed.Send(Local(kSeven, 10'000, 11'000, 7));
  feed.End(12'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "50 7 - ok");
  EXPECT_EQ(feed.Shown(11, kSeven), "50 - - skipped");
  EXPECT_EQ(feed.mbm().received, (MbmSums{100, 7}));
}

TEST(RdtAttribution, WhatWasMeasuredAfterTheSampleCameCountsAsWell) {
  Feed feed;
  feed.Send(Total(kSeven, 10'000, 12'000, 400));
  feed.Ran(0, kSeven, 10'100, 10'200);
  feed.Watermark(20'000);  // nothing retires yet
  feed.Ran(0, kSeven, 11'100, 11'400);
  feed.End(12'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "100 - - ok");
  EXPECT_EQ(feed.Shown(11, kSeven), "300 - - ok");
}

TEST(RdtAttribution, ADeadOwnersLastReadIsNotTheNextOnes) {
  const Who born = {109, 7, 2, 10'850'000};
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 10'800);
  feed.Free(kSeven, 10'800);
  feed.Alloc(born, 10'900);
  feed.Ran(0, born, 10'900, 12'000);
  feed.Send(Total(born, 10'900, 12'000, 40));         // 10 us and 1000 us: 0.4
  feed.Send(Total(kSeven, 10'000, 11'020, 500));      // in limbo
  feed.Send(Total(kSeven, 11'020, 12'020, 3, kFar));  // another domain that it has dirtied: 2.94 + 0.06
  feed.End(13'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "500 - - ok");
  EXPECT_EQ(feed.BytesOf(11, kSeven), 2u);
  EXPECT_EQ(feed.BytesOf(12, kSeven), 1u);
  EXPECT_EQ(feed.Shown(11, kSeven), "- - - partial");
  EXPECT_EQ(feed.Shown(10, born), "0 - - ok");
  EXPECT_EQ(feed.Shown(11, born), "40 - - ok");
}

TEST(RdtAttribution, TheDeadAreForgottenAfterTwoWindows) {
  for (bool forgotten : {false, true}) {
    Feed feed;
    feed.Send(Total(kSeven, 10'100, 10'200, 1));  // its row holds it, until the slot retires
    feed.Free(kSeven, 10'500);
    // 2 x (window + longer slot) behind its death is 50.5 ms; the slot of the sample ends at 50 or 51.
    const uint64_t since_us = forgotten ? 50'100 : 49'100;
    feed.Send(Total(kSeven, since_us, since_us + 100, 9));
    feed.End(60'000);
    EXPECT_EQ(feed.mbm().unowned[kMbmTotal], forgotten ? 9u : 0u);
    EXPECT_EQ(feed.mbm().written[kMbmTotal], forgotten ? 1u : 10u);
  }
}

TEST(RdtAttribution, AnOwnerIsKnownFromItsMeasuresAlone) {
  const Who lost = {109, 9, 4};  // its allocation was
  Feed feed;
  feed.Ran(0, lost, 10'100, 10'200);
  feed.Send(Total(lost, 10'100, 10'300, 9));
  feed.Send(Total({109, 9, 3}, 10'100, 10'300, 2));
  feed.End(11'000);
  EXPECT_EQ(feed.Shown(10, lost), "9 - - ok");
  EXPECT_EQ(feed.mbm().unowned[kMbmTotal], 2u);
}

TEST(RdtAttribution, WhatNobodyIsKnownToOwnIsUnowned) {
  const Who later = {107, 7, 2}, unknown = {109, 9};
  const struct {
    const char* what;
    RdtShape shape;
    ss_rdt_sample sample;
    MbmSums unowned;
  } cases[] = {
      {"rmid", kAllCounted, Total(unknown, 10'000, 10'900, 5), {5, 0}},
      {"rmid", kAllCounted, Local(unknown, 10'000, 10'900, 5), {0, 5}},
      {"rmid of a gauge", kAllCounted, Occupancy(unknown, 11'020, 5), {0, 0}},
      {"generation", kAllCounted, Total(later, 10'000, 10'900, 5), {5, 0}},
      {"domain", kAllCounted, Total(kSeven, 10'000, 10'900, 5, 4), {5, 0}},
      {"domain of a gauge", kAllCounted, Occupancy(kSeven, 11'020, 5, 4), {0, 0}},
      {"event", Shape(true, false, true), Total(kSeven, 10'000, 10'900, 5), {5, 0}},
      {"event", Shape(true, true, false), Local(kSeven, 10'000, 10'900, 5), {0, 5}},
      {"event", Shape(false, true, true), Occupancy(kSeven, 11'020, 5), {0, 0}},
      {"failed", kAllCounted, Total(unknown, 10'000, 10'900, 5, kNear, SS_RDT_ERROR), {0, 0}},
  };
  for (const auto& c : cases) {
    Feed feed(c.shape);
    feed.Send(c.sample);
    feed.End(12'000);
    EXPECT_EQ(feed.mbm().unowned, c.unowned) << c.what;
    EXPECT_EQ(feed.mbm().received, c.unowned) << c.what;
    EXPECT_EQ(feed.builder.rdt().nr_unowned, 1u) << c.what;
    EXPECT_EQ(feed.builder.rdt().nr_samples, 1u) << c.what;
    EXPECT_EQ(feed.Shown(10, kSeven), "no row") << c.what;
  }
}

TEST(RdtAttribution, ThePartInFrontOfTheFirstSlotIsBefore) {
  const struct {
    const char* what;
    Span read;
    uint64_t before;
    const char* shown;  // in slot 10
  } cases[] = {
      {"none", {10'000, 10'500}, 0, "1000 - - ok"},
      {"half", {9'500, 10'500}, 500, "500 - - ok"},
      {"a slot, two thirds", {9'000, 10'500}, 666, "334 - - ok"},
      {"two slots long, three quarters", {8'500, 10'500}, 750, "250 - - ok"},
      {"longer than that", {8'499, 10'500}, 750, "- - - partial"},
      {"20 of 21", {0, 10'500}, 952, "- - - partial"},
      {"all, far", {9'000, 9'900}, 1000, "- - - skipped"},
      {"all", {9'000, 10'000}, 1000, "- - - skipped"},
  };
  for (const auto& c : cases)
    for (bool knows_first : {true, false}) {
      Feed feed(kOnlyTotal, knows_first);
      feed.Ran(0, kSeven, 10'000, 10'500);
      feed.Send(Total(kSeven, c.read.from_us, c.read.to_us, 1000));
      feed.End(12'000);
      EXPECT_EQ(feed.mbm().before[kMbmTotal], c.before) << c.what << " " << knows_first;
      EXPECT_EQ(feed.Shown(10, kSeven), c.shown) << c.what << " " << knows_first;
      EXPECT_EQ(feed.BytesOf(10, kSeven), 1000 - c.before) << c.what << " " << knows_first;
      EXPECT_EQ(feed.builder.rdt().nr_late, 0u);
    }
}

TEST(RdtAttribution, AReadingInFrontOfTheFirstSlotIsNobodys) {
  for (bool knows_first : {true, false}) {
    Feed feed(kOnlyOccupancy, knows_first);
    feed.Ran(0, kSeven, 10'000, 10'500);
    feed.Send(Occupancy(kSeven, 10'020, 4096));
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, kSeven), "- - - skipped");
    EXPECT_EQ(feed.builder.rdt().nr_late, 0u);
  }
}

TEST(RdtAttribution, ASampleWhoseSlotsHaveRetiredIsLate) {
  const struct {
    ss_rdt_sample sample;
    uint64_t nr_late, late;
  } cases[] = {
      {Total(kSeven, 10'000, 10'900, 1000), 1, 1000},
      {Total(kSeven, 10'000, 11'000, 1000), 1, 1000},
      {Total(kSeven, 11'000, 11'001, 1000), 0, 0},
      {Total(kSeven, 10'000, 11'000, 1000, kNear, SS_RDT_ERROR), 1, 0},
      {Occupancy(kSeven, 11'020, 1000), 1, 0},
      {Occupancy(kSeven, 12'000, 1000), 0, 0},
  };
  for (const auto& c : cases) {
    Feed feed(kAllCounted);
    feed.Ran(0, kSeven, 10'000, 12'000);
    feed.Watermark(21'000);
    ASSERT_EQ(feed.sink.slots.size(), 1u);
    feed.Send(c.sample);
    feed.End(22'000);
    EXPECT_EQ(feed.builder.rdt().nr_late, c.nr_late) << c.sample.hdr.ts_ns;
    EXPECT_EQ(feed.mbm().late[kMbmTotal], c.late) << c.sample.hdr.ts_ns;
    EXPECT_EQ(feed.Shown(10, kSeven), "- - - skipped");
  }
}

TEST(RdtAttribution, ASampleTooFarAwayToBeTrueIsLate) {
  Feed feed(kAllCounted);
  feed.Ran(0, kSeven, 10'000, 10'100);
  feed.Send(Total(kSeven, 90'000'000, 90'000'500, 9));
  feed.Send(Occupancy(kSeven, 90'000'000, 9));
  feed.End(11'000);
  EXPECT_EQ(feed.mbm().late[kMbmTotal], 9u);
  EXPECT_EQ(feed.builder.rdt().nr_late, 2u);
}

TEST(RdtAttribution, WhoSleptGetsTheWholeDeltaWhereItRan) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 10'700);
  feed.Send(Total(kSeven, 10'000, 10'700, 7));
  feed.Watermark(41'000);
  feed.Ran(0, kSeven, 40'100, 40'300);
  feed.Send(Total(kSeven, 10'700, 41'020, 777));
  feed.End(42'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "7 - - ok");
  for (uint64_t ms = 11; ms < 40; ms++) EXPECT_EQ(feed.Shown(ms, kSeven), "no row") << ms;
  EXPECT_EQ(feed.Shown(40, kSeven), "777 - - ok");
  EXPECT_EQ(feed.Shown(41, kSeven), "no row");
  EXPECT_EQ(feed.builder.rdt().nr_late, 0u);
}

// It was late itself, and most of the lost time had retired: its owner may have run there, too.
TEST(RdtAttribution, ADeltaOverLostTimeThatHasRetiredIsAGuess) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 10'500);
  feed.Send(Total(kSeven, 10'000, 10'500, 500));
  feed.RanAfterLostTime(0, kEight, 12'000, 13'000);
  for (uint64_t ms = 13; ms < 40; ms++) feed.Watermark(ms * 1000);
  feed.Ran(0, kSeven, 40'000, 41'000);
  feed.Ran(0, kEight, 41'000, 42'000);
  feed.Send(Total(kSeven, 11'500, 41'000, 20'000));
  feed.Send(Total(kEight, 13'000, 42'000, 1000));
  feed.End(43'000);
  EXPECT_EQ(feed.Shown(40, kSeven), "- - - partial");
  EXPECT_EQ(feed.BytesOf(40, kSeven), 20'000u);
  EXPECT_EQ(feed.Shown(41, kEight), "1000 - - ok");  // all of it is behind that
}

TEST(RdtAttribution, ADeltaLongerThanHalfAWindowIsLateByTimeWhereItsOwnerRan) {
  Feed feed;
  feed.Ran(0, kSeven, 15'000, 15'100);
  feed.Ran(1, kEight, 15'000, 15'100);  // in another domain
  feed.Watermark(41'000);
  feed.Ran(0, kSeven, 40'100, 40'300);
  feed.Ran(0, kEight, 40'300, 40'400);
  // What it covers of slots before 36 retires without it: 25 of 30 ms.
  feed.Send(Total(kSeven, 11'000, 41'000, 3000));
  feed.Send(Total(kEight, 11'000, 41'000, 50));
  feed.End(42'000);
  EXPECT_EQ(feed.mbm().late[kMbmTotal], 2500u);
  EXPECT_EQ(feed.builder.rdt().nr_late, 1u);
  EXPECT_EQ(feed.Shown(15, kSeven), "- - - skipped");
  EXPECT_EQ(feed.Shown(40, kSeven), "- - - partial");
  EXPECT_EQ(feed.BytesOf(40, kSeven), 500u);
  EXPECT_EQ(feed.Shown(40, kEight), "50 - - ok");
}

TEST(RdtAttribution, WhereAnotherProcessOfThatIdRanIsForgottenWithIt) {
  const Who dead = {109, 9}, found = {110, 10};  // the second is heard of when it wakes up
  Feed feed;
  feed.Ran(0, dead, 30'000, 30'900);
  feed.Alloc(dead, 29'000);
  feed.Free(dead, 30'950);
  for (uint64_t ms = 12; ms < 90; ms++) feed.Watermark(ms * 1000);
  feed.Ran(0, found, 90'000, 90'100);
  feed.Send(Total(found, 20'000, 90'100, 701));
  feed.End(92'000);
  ASSERT_NE(feed.RowOf(30, dead), nullptr);
  ASSERT_NE(feed.RowOf(90, found), nullptr);
  ASSERT_EQ(feed.RowOf(30, dead)->process, feed.RowOf(90, found)->process);
  EXPECT_EQ(feed.Shown(90, found), "701 - - ok");
  EXPECT_EQ(feed.mbm().late[kMbmTotal], 0u);
}

TEST(RdtAttribution, ADeltaWaitsNoLongerThanHalfAWindowBehindItsEnd) {
  const struct {
    Span read;
    uint64_t bytes, late, first, last;  // in slots 11 and 15
    const char* shown;                  // in slot 15
  } cases[] = {
      {{11'000, 16'000}, 150, 0, 125, 25, "25 - - ok"},  // 500 us and 100 us
      // What has retired by then, with slot 11, is a slot in which it did not run...
      {{10'000, 16'000}, 150, 0, 125, 25, "25 - - ok"},
      // ...and, with slot 12, one in which it did: by time, 2000 us of 7020 are late.
      {{10'000, 17'020}, 7020, 2000, 0, 5020, "- - - partial"},
  };
  for (const auto& c : cases) {
    Feed feed;
    feed.Ran(0, kSeven, 11'500, 12'000);
    feed.Ran(0, kSeven, 15'000, 15'100);
    feed.Send(Total(kSeven, c.read.from_us, c.read.to_us, c.bytes));
    for (uint64_t ms = 17; ms < 30; ms++) feed.Watermark(ms * 1000);
    feed.End(30'000);
    EXPECT_EQ(feed.mbm().late[kMbmTotal], c.late);
    EXPECT_EQ(feed.BytesOf(11, kSeven), c.first);
    EXPECT_EQ(feed.BytesOf(15, kSeven), c.last);
    EXPECT_EQ(feed.Shown(15, kSeven), c.shown);
  }
}

TEST(RdtAttribution, WhatIsBeforeAndWhatIsLateAreCountedApart) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 10'100);  // in the first slot, which the delta does not begin in
  feed.Watermark(30'000);
  feed.Send(Total(kSeven, 5'000, 30'000, 2500));  // 5 ms before, 15 ms late, 5 ms from slot 25 on
  feed.End(31'000);
  EXPECT_EQ(feed.mbm().before[kMbmTotal], 500u);
  EXPECT_EQ(feed.mbm().late[kMbmTotal], 1500u);
  for (uint64_t ms = 25; ms < 30; ms++) {
    EXPECT_EQ(feed.BytesOf(ms, kSeven), 100u) << ms;
    EXPECT_EQ(feed.Shown(ms, kSeven), "- - - partial") << ms;
  }
}

TEST(RdtAttribution, BehindTheLastSlotIsAfter) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 11'000);
  feed.Send(Total(kSeven, 10'000, 11'020, 100));   // nobody knows whether it ran after the border
  feed.Send(Total(kEight, 10'020, 11'020, 1000));  // 980 + 20
  feed.Send(Total(kSeven, 11'020, 12'020, 5));
  feed.Send(Total({109, 9}, 11'020, 12'020, 3));  // nobody has asked whose
  feed.End(11'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - partial");
  EXPECT_EQ(feed.BytesOf(10, kSeven), 100u);
  EXPECT_EQ(feed.BytesOf(10, kEight), 980u);
  EXPECT_EQ(feed.Shown(11, kSeven), "no slot");
  EXPECT_EQ(feed.mbm().after[kMbmTotal], 28u);
}

TEST(RdtAttribution, WithoutASlotEverythingIsAfter) {
  for (bool knows_first : {true, false}) {
    Feed feed(kOnlyTotal, knows_first);
    feed.Send(Total(kSeven, 10'000, 11'020, 100));
    feed.Send(Total({109, 9}, 10'500, 10'600, 3));  // nobody has asked whose
    feed.End(10'900);
    EXPECT_TRUE(feed.sink.slots.empty());
    EXPECT_EQ(feed.mbm().after[kMbmTotal], 103u);
  }
}

TEST(RdtAttribution, AValueThatWasNotReadWellDoesNotCountAndItsStatusIsShown) {
  for (uint16_t status = SS_RDT_BASELINE; status < SS_RDT_NR_STATUS; status++) {
    Feed feed;
    feed.Ran(0, kSeven, 10'000, 12'000);
    feed.Send(Total(kSeven, 10'000, 10'020, 5));
    feed.Send(Total(kSeven, 10'020, 11'020, 1'000'000, kNear, status));
    feed.Send(Total(kSeven, 11'020, 12'020, 70));
    feed.Send(Total(kSeven, 12'020, 13'020, 50));  // 49 + 1
    feed.End(13'000);
    const std::string empty = std::string("- - - ") + kRdtStatusNames[status];
    EXPECT_EQ(feed.Shown(10, kSeven), empty);
    EXPECT_EQ(feed.Shown(11, kSeven), empty) << "its first 20 us";
    EXPECT_EQ(feed.BytesOf(10, kSeven), 5u);
    EXPECT_EQ(feed.BytesOf(11, kSeven), 70u);
    EXPECT_EQ(feed.BytesOf(12, kSeven), 49u);
    EXPECT_EQ(feed.mbm().received[kMbmTotal], 125u);
  }
}

TEST(RdtAttribution, TheWorstStatusWins) {
  const uint16_t ok = SS_RDT_OK, baseline = SS_RDT_BASELINE, tainted = SS_RDT_TAINTED;
  const uint16_t error = SS_RDT_ERROR, unsupported = SS_RDT_UNSUPPORTED;
  const struct {
    uint16_t near, far, local, occupancy;
    const char* shown;
  } cases[] = {
      {ok, ok, ok, ok, "3 14 5 ok"},
      {tainted, ok, ok, ok, "- 14 5 tainted"},
      {ok, tainted, ok, ok, "- 14 5 tainted"},
      {error, baseline, ok, ok, "- 14 5 error"},
      {baseline, error, ok, ok, "- 14 5 error"},
      {ok, ok, tainted, ok, "3 - 5 tainted"},
      {ok, ok, ok, error, "3 14 - error"},
      {baseline, ok, error, tainted, "- - - error"},
      {unsupported, error, tainted, baseline, "- - - unsupported"},
  };
  for (const auto& c : cases) {
    Feed feed(kAllCounted);
    feed.Ran(0, kSeven, 10'000, 11'000);
    feed.Ran(1, kSeven, 10'000, 11'000);
    feed.Send(Total(kSeven, 10'000, 11'000, 1, kNear, c.near));
    feed.Send(Total(kSeven, 10'000, 11'000, 2, kFar, c.far));
    feed.Send(Local(kSeven, 10'000, 11'000, 7, kNear, c.local));
    feed.Send(Local(kSeven, 10'000, 11'000, 7, kFar));
    feed.Send(Occupancy(kSeven, 11'010, 1, kNear));
    feed.Send(Occupancy(kSeven, 11'020, 4, kFar, c.occupancy));
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, kSeven), c.shown);
  }
}

TEST(RdtAttribution, ATrafficColumnIsEmptyUnlessAllOfTheTimeThatItRanIsCovered) {
  const struct {
    std::vector<Span> read;
    const char* shown;
  } cases[] = {
      {{}, "- - - skipped"},
      {{{10'000, 11'000}}, "10 - - ok"},
      {{{10'100, 10'900}}, "10 - - ok"},
      {{{10'101, 10'900}}, "- - - partial"},
      {{{10'100, 10'899}}, "- - - partial"},
      {{{10'500, 10'900}}, "- - - partial"},
      {{{10'100, 10'500}}, "- - - partial"},
      {{{10'000, 10'400}, {10'400, 11'000}}, "20 - - ok"},
      {{{10'400, 11'000}, {10'000, 10'400}}, "20 - - ok"},
      {{{10'000, 10'400}, {10'401, 11'000}}, "- - - partial"},  // one between was lost
  };
  for (const auto& c : cases) {
    Feed feed;
    feed.Ran(0, kSeven, 10'100, 10'300);
    feed.Ran(0, kSeven, 10'700, 10'900);
    for (Span span : c.read) feed.Send(Total(kSeven, span.from_us, span.to_us, 10));
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, kSeven), c.shown);
    EXPECT_EQ(feed.BytesOf(10, kSeven), 10 * c.read.size());
  }
}

TEST(RdtAttribution, EveryDomainInWhichItRanMustBeCovered) {
  const struct {
    std::vector<uint32_t> ran;  // CPUs
    std::vector<uint32_t> read;
    const char* shown;
  } cases[] = {
      {{0, 1}, {kNear, kFar}, "20 - - ok"}, {{0, 1}, {kNear}, "- - - partial"},
      {{0, 1}, {kFar}, "- - - partial"},    {{0, 1}, {}, "- - - skipped"},
      {{0}, {kNear}, "10 - - ok"},          {{0}, {kNear, kFar}, "20 - - ok"},
      {{2}, {}, "- - - skipped"},  // in a domain that is not known
      {{0, 2}, {kNear}, "- - - partial"},
  };
  for (const auto& c : cases) {
    Feed feed;
    for (uint32_t cpu : c.ran) feed.Ran(cpu, kSeven, 10'000, 11'000);
    for (uint32_t domain : c.read) feed.Send(Total(kSeven, 10'000, 11'000, 10, domain));
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, kSeven), c.shown);
  }
}

TEST(RdtAttribution, ACpuBetweenDomainsIsInNone) {
  RdtShape shape = kOnlyTotal;
  shape.domains = {{kNear, {0}}, {kFar, {2}}};
  Feed feed(shape);
  for (uint32_t cpu : {0, 1}) feed.Ran(cpu, kSeven, 10'000, 10'500);
  for (uint32_t cpu : {0, 2}) feed.Ran(cpu, kEight, 10'500, 10'900);
  for (const Who& who : {kSeven, kEight})
    for (uint32_t domain : {kNear, kFar}) feed.Send(Total(who, 10'000, 11'000, 10, domain));
  feed.End(11'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - partial");
  EXPECT_EQ(feed.Shown(10, kEight), "20 - - ok");
}

// Times of measures may be sums, right to the slot only: it may seem to run before it had the RMID.
TEST(RdtAttribution, NoTrafficIsMissedBeforeTheRmidWasGiven) {
  const struct {
    uint64_t alloc_us;  // 0: it is not known when
    Span read;
    const char* shown;
  } cases[] = {
      {10'200, {10'200, 11'000}, "10 - - ok"},
      {10'300, {10'200, 11'000}, "10 - - ok"},
      {10'199, {10'200, 11'000}, "- - - partial"},  // a delta is missing
      {10'050, {10'100, 11'000}, "10 - - ok"},
      {10'050, {10'101, 11'000}, "- - - partial"},
      {0, {10'200, 11'000}, "- - - partial"},
      {10'200, {10'200, 10'899}, "- - - partial"},  // its end must be known all the same
  };
  for (const auto& c : cases) {
    const Who born = {109, 9, 1, 10'050'000};
    Feed feed;
    if (c.alloc_us) feed.Alloc(born, c.alloc_us);
    feed.Ran(0, born, 10'100, 10'900);
    feed.Send(Total(born, c.read.from_us, c.read.to_us, 10));
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, born), c.shown) << c.alloc_us << " " << c.read.from_us;
  }
}

// A sample that comes when its first slot has retired, in which the owner ran on behind its beginning.
TEST(RdtAttribution, WhatWasRunInARetiredSlotBehindTheBeginningIsLate) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 11'010);
  feed.Watermark(21'000);
  feed.Send(Total(kSeven, 10'020, 11'020, 1000));
  feed.Watermark(40'000);
  feed.End(40'000);
  EXPECT_EQ(feed.mbm().late[kMbmTotal], 980u);
  EXPECT_EQ(feed.BytesOf(11, kSeven), 20u);
}

TEST(RdtAttribution, ADeltaLongerThanHalfAWindowOfWhoRanIsNotShown) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 11'000);
  feed.Ran(0, kSeven, 15'500, 15'501);
  feed.Send(Total(kSeven, 10'010, 16'020, 1000));
  feed.Watermark(40'000);
  feed.End(40'000);
  EXPECT_GT(feed.mbm().late[kMbmTotal], 0u);
  EXPECT_EQ(feed.Shown(15, kSeven), "- - - partial");
}

TEST(RdtAttribution, WhatIsNotPlacedDoesNotHideAStatusOrAZero) {
  const struct {
    ss_rdt_sample sample;
    const char* shown;
  } cases[] = {
      {Total(kSeven, 0, 10'500, 7, kNear, SS_RDT_BASELINE), "- - - baseline"},
      {Total(kSeven, 0, 10'500, 0), "0 - - ok"},
      {Total(kSeven, 0, 10'500, 1'000'000), "- - - partial"},
  };
  for (const auto& c : cases) {
    Feed feed;
    feed.Ran(0, kSeven, 10'100, 10'400);
    feed.Send(c.sample);
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, kSeven), c.shown);
  }
}

TEST(RdtAttribution, ADeltaOfNoLengthCoversNothing) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 11'000);
  feed.Send(Total(kSeven, 10'000, 10'500, 10));
  feed.Send(Total(kSeven, 10'500, 10'500, 1));
  feed.Send(Total(kSeven, 10'500, 11'000, 10));
  feed.End(11'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "21 - - ok");
}

TEST(RdtAttribution, ADomainInWhichItDidNotRunDoesNotCount) {
  Feed feed;
  feed.Ran(0, kSeven, 10'000, 10'500);
  feed.Send(Total(kSeven, 10'000, 11'000, 10, kFar));
  feed.End(11'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - skipped");
}

TEST(RdtAttribution, WhoRanWithoutAnRmidIsUnassigned) {
  const Who bare = {107, 0};
  Feed feed;
  feed.Ran(0, bare, 10'000, 10'200);
  feed.Ran(0, kSeven, 10'200, 12'000);
  feed.Send(Total(kSeven, 10'200, 11'000, 100));
  feed.Send(Total(kSeven, 11'000, 12'000, 30));
  feed.Ran(0, bare, 12'000, 12'100);
  feed.Ran(0, kSeven, 12'100, 13'000);
  feed.Send(Total(kSeven, 12'100, 13'000, 1, kNear, SS_RDT_UNSUPPORTED));
  feed.End(13'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - unassigned");
  EXPECT_EQ(feed.BytesOf(10, kSeven), 100u);
  ASSERT_NE(feed.RowOf(10, kSeven), nullptr);
  EXPECT_EQ(feed.RowOf(10, kSeven)->rmid, 7u);
  EXPECT_EQ(feed.Shown(11, kSeven), "30 - - ok");
  EXPECT_EQ(feed.Shown(12, kSeven), "- - - unsupported");
}

TEST(RdtAttribution, RowsThatHaveNoRmidAreUnassigned) {
  const Who idle = {0, 0, 0, 0}, kernel = {2, 0}, bare = {109, 0};
  Feed feed(kAllCounted);
  feed.Ran(0, idle, 10'000, 10'100, SS_MEASURE_IDLE);
  feed.Ran(0, kernel, 10'100, 10'200, SS_MEASURE_KTHREAD);
  feed.Ran(0, bare, 10'200, 10'300);
  feed.Ran(0, kSeven, 10'300, 10'400);
  feed.End(11'000);
  for (const Who& who : {idle, kernel, bare})
    EXPECT_EQ(feed.Shown(10, who), "- - - unassigned") << who.tgid;
  EXPECT_EQ(feed.Shown(10, kSeven), "- - - skipped");
}

TEST(RdtAttribution, AReadingBelongsToTheSlotThatEndedAtItsTicksBorder) {
  const struct {
    uint64_t ts_us;
    std::array<const char*, 3> shown;  // of slots 10, 11, 12
  } cases[] = {
      {10'999, {"- - - skipped", "- - - skipped", "- - - skipped"}},
      {11'000, {"- - 64 ok", "- - - skipped", "- - - skipped"}},
      {11'020, {"- - 64 ok", "- - - skipped", "- - - skipped"}},
      {11'999, {"- - 64 ok", "- - - skipped", "- - - skipped"}},
      {12'000, {"- - - skipped", "- - 64 ok", "- - - skipped"}},
      {13'500, {"- - - skipped", "- - - skipped", "- - 64 ok"}},
      {14'000, {"- - - skipped", "- - - skipped", "- - - skipped"}},
  };
  for (const auto& c : cases)
    for (bool knows_first : {true, false}) {
      Feed feed(kOnlyOccupancy, knows_first);
      feed.Ran(0, kSeven, 10'000, 13'000);
      feed.Send(Occupancy(kSeven, c.ts_us, 64));
      feed.End(13'000);
      for (size_t i = 0; i < c.shown.size(); i++)
        EXPECT_EQ(feed.Shown(10 + i, kSeven), c.shown[i]) << c.ts_us << " slot " << 10 + i;
    }
}

TEST(RdtAttribution, TheLastReadingOfASlotCounts) {
  const struct {
    uint16_t first, second;
    const char* shown;
  } cases[] = {
      {SS_RDT_OK, SS_RDT_OK, "- - 30 ok"},
      {SS_RDT_ERROR, SS_RDT_OK, "- - 30 ok"},
      {SS_RDT_OK, SS_RDT_TAINTED, "- - - tainted"},
  };
  for (const auto& c : cases)
    for (bool turned : {false, true}) {
      std::array samples = {Occupancy(kSeven, 11'020, 40, kNear, c.first),
                            Occupancy(kSeven, 11'600, 30, kNear, c.second)};
      if (turned) std::swap(samples[0], samples[1]);
      Feed feed(kOnlyOccupancy);
      feed.Ran(0, kSeven, 10'000, 11'000);
      for (const ss_rdt_sample& sample : samples) feed.Send(sample);
      feed.End(11'000);
      EXPECT_EQ(feed.Shown(10, kSeven), c.shown) << turned;
    }
}

TEST(RdtAttribution, TheLastReadingOfACoarserSlotIsThatOfItsLastTick) {
  Feed feed(kOnlyOccupancy, true, 2 * kMs);
  feed.Ran(0, kSeven, 10'000, 14'000);
  for (uint64_t ms : {11, 12, 13}) feed.Send(Occupancy(kSeven, ms * 1000 + 20, ms));
  feed.End(14'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - 12 ok");
  EXPECT_EQ(feed.Shown(12, kSeven), "- - 13 ok");
}

TEST(RdtAttribution, OccupancyIsTheSumOverDomainsIfAllInWhichItRanWereRead) {
  const struct {
    std::vector<uint32_t> ran;  // CPUs
    std::vector<uint32_t> read;
    const char* shown;
  } cases[] = {
      {{0, 1}, {kNear, kFar}, "- - 20 ok"},
      {{0, 1}, {kNear}, "- - - partial"},
      {{0, 1}, {}, "- - - skipped"},
      {{0}, {kNear}, "- - 10 ok"},
      // Its lines stay where it ran before.
      {{0}, {kNear, kFar}, "- - 20 ok"},
      {{2}, {}, "- - - skipped"},
      {{0, 2}, {kNear}, "- - - partial"},
  };
  for (const auto& c : cases) {
    Feed feed(kOnlyOccupancy);
    for (uint32_t cpu : c.ran) feed.Ran(cpu, kSeven, 10'000, 11'000);
    for (uint32_t domain : c.read) feed.Send(Occupancy(kSeven, 11'020, 10, domain));
    feed.End(11'000);
    EXPECT_EQ(feed.Shown(10, kSeven), c.shown);
  }
}

TEST(RdtAttribution, OccupancyIsNotCarriedForward) {
  Feed feed(kOnlyOccupancy);
  feed.Ran(0, kSeven, 10'000, 13'000);
  feed.Send(Occupancy(kSeven, 11'020, 64));
  feed.Send(Occupancy(kSeven, 13'020, 32));
  feed.End(13'000);
  EXPECT_EQ(feed.Shown(10, kSeven), "- - 64 ok");
  EXPECT_EQ(feed.Shown(11, kSeven), "- - - skipped");
  EXPECT_EQ(feed.Shown(12, kSeven), "- - 32 ok");
}

TEST(RdtAttribution, OccupancyIsNotAccountedFor) {
  Feed feed(kAllCounted);
  feed.Ran(0, kSeven, 10'000, 11'000);
  feed.Send(Occupancy(kSeven, 11'020, 64));
  feed.End(11'000);
  EXPECT_EQ(feed.mbm().received, MbmSums{});
  EXPECT_EQ(feed.Shown(10, kSeven), "- - 64 skipped");
}

TEST(RdtAttribution, AMachineWithoutRdtHasNoneInItsRows) {
  Feed feed(RdtShape{});
  feed.Ran(0, kSeven, 10'000, 11'000);
  feed.Send(Total(kSeven, 10'000, 11'000, 5));
  feed.Send(Occupancy(kSeven, 11'020, 5));
  feed.End(11'000);
  ASSERT_NE(feed.RowOf(10, kSeven), nullptr);
  EXPECT_EQ(feed.RowOf(10, kSeven)->beside, 0u);
  EXPECT_TRUE(feed.SlotAt(10)->rdt.empty());
  EXPECT_EQ(feed.mbm().unowned[kMbmTotal], 5u);
  EXPECT_EQ(feed.builder.rdt().nr_samples, 2u);
  EXPECT_EQ(feed.builder.rdt().nr_unowned, 2u);
}

TEST(RdtAttribution, ADeltaOfNoLengthIsInTheSlotOfTheNanosecondBefore) {
  const struct {
    uint64_t ts_us, ms, before;
  } cases[] = {{10'500, 10, 0}, {11'000, 10, 0}, {11'001, 11, 0}, {10'000, 10, 9}};
  for (const auto& c : cases) {
    Feed feed;
    feed.Send(Total(kSeven, c.ts_us, c.ts_us, 9));
    feed.End(12'000);
    EXPECT_EQ(feed.BytesOf(c.ms, kSeven), 9 - c.before) << c.ts_us;
    EXPECT_EQ(feed.mbm().before[kMbmTotal], c.before) << c.ts_us;
  }
}

TEST(RdtAttribution, HugeValuesLoseNoBit) {
  Feed feed;
  feed.Ran(0, kSeven, 10'500, 12'250);
  feed.Send(Total(kSeven, 10'500, 12'250, UINT64_MAX));
  feed.Send(Total(kEight, 8'000, 12'000, UINT64_MAX));  // half of it before
  feed.Watermark(22'500);
  feed.Send(Total(kSeven, 12'500, 12'600, UINT64_MAX));  // sums go round
  feed.Send(Total(kEight, 10'000, 12'000, UINT64_MAX));
  feed.Send(Total({109, 9}, 12'500, 12'600, UINT64_MAX));
  feed.End(22'000);
  // Weights are 250, 1000 and 62.5 us: 4, 16 and 1 of 21.
  constexpr auto kWhole = static_cast<unsigned __int128>(UINT64_MAX);
  EXPECT_EQ(feed.BytesOf(10, kSeven), static_cast<uint64_t>(kWhole * 4 / 21));
  EXPECT_EQ(feed.BytesOf(11, kSeven), static_cast<uint64_t>(kWhole * 20 / 21 - kWhole * 4 / 21));
  EXPECT_EQ(feed.BytesOf(10, kSeven) + feed.BytesOf(11, kSeven) + feed.BytesOf(12, kSeven),
            UINT64_MAX - 1);
  EXPECT_EQ(feed.mbm().before[kMbmTotal], UINT64_MAX / 2);
  EXPECT_EQ(feed.mbm().late[kMbmTotal], UINT64_MAX);
  EXPECT_EQ(feed.mbm().unowned[kMbmTotal], UINT64_MAX);
}

// Everything there is to see of a feed.
std::string Everything(const Feed& feed) {
  std::string text;
  auto add = [&](uint64_t number) { text += std::to_string(number) + " "; };
  for (const Slot& slot : feed.sink.slots)
    for (const Row& row : slot.rows) {
      add(slot.start_ns);
      add(static_cast<uint64_t>(row.kind));
      add(static_cast<uint64_t>(row.key.tgid));
      add(row.rmid);
      add(row.sums[kCpuNs]);
      if (slot.RdtOf(row)) {
        const RdtRow& rdt = *slot.RdtOf(row);
        for (uint64_t value : rdt.values) add(value);
        text += Text(rdt);
      }
      text += "\n";
    }
  const MbmAccounting& mbm = feed.mbm();
  for (const MbmSums* sums :
       {&mbm.received, &mbm.written, &mbm.late, &mbm.before, &mbm.after, &mbm.unowned})
    for (uint64_t sum : *sums) add(sum);
  add(feed.builder.rdt().nr_samples);
  add(feed.builder.rdt().nr_late);
  add(feed.builder.rdt().nr_unowned);
  return text;
}

TEST(RdtAttribution, TheOrderInWhichSamplesArriveDoesNotMatter) {
  constexpr std::array kinds = {&MbmAccounting::written, &MbmAccounting::late, &MbmAccounting::before,
                                &MbmAccounting::after, &MbmAccounting::unowned};
  std::array<int, kinds.size()> nr_seen = {};
  for (uint32_t seed = 0; seed < 30; seed++) {
    std::mt19937 random(seed);
    auto below = [&](uint32_t n) { return random() % n; };
    std::vector<ss_rdt_sample> samples;
    for (int i = 0; i < 200; i++) {
      const uint64_t since_us = 7'000 + below(25'000);
      const Who who = std::array{kSeven, kEight, Who{109, 9}, Who{107, 7, 2}}[below(8) * below(8) % 4];
      const auto event = static_cast<ss_rdt_event>(SS_RDT_LLC_OCCUPANCY + below(3));
      const uint32_t domain = std::array{kNear, kFar, 4u}[below(5) % 3];
      // Few fail: one that does empties the columns of all the slots that it covers.
      const auto status = static_cast<uint16_t>(below(16) ? 0 : below(SS_RDT_NR_STATUS));
      const uint64_t ts_us = since_us + below(i % 2 ? 1'000 : 12'000);
      samples.push_back(Sample(event, who, since_us, ts_us, below(1'000'000), domain, status));
    }
    auto outcome = [&](bool knows_first) {
      Feed feed(kAllCounted, knows_first);
      std::mt19937 steps(seed);
      for (uint32_t cpu : {0, 1, 2})
        for (uint64_t at_us = kFirstUs; at_us < 27'000;) {
          const uint64_t length_us = 1 + steps() % 1'500;
          if (uint32_t who = steps() % 4; who < 2)
            feed.Ran(cpu, who ? kSeven : kEight, at_us, at_us + length_us);
          at_us += length_us;
        }
      for (const ss_rdt_sample& sample : samples) feed.Send(sample);
      for (uint64_t at_us = 20'000; at_us < 36'000; at_us += 250) feed.Watermark(at_us);
      feed.End(30'000);
      for (size_t i = 0; i < kinds.size(); i++) nr_seen[i] += (feed.mbm().*kinds[i])[kMbmTotal] > 0;
      return Everything(feed);
    };
    const std::string expected = outcome(true);
    EXPECT_EQ(outcome(false), expected) << "nor when the first slot is known, seed " << seed;
    for (int i = 0; i < 4; i++) {
      std::shuffle(samples.begin(), samples.end(), random);
      ASSERT_EQ(outcome(i % 2), expected) << seed;
    }
  }
  for (int nr : nr_seen) EXPECT_GT(nr, 100) << "of 180 runs: or there was little to get wrong";
}

}  // namespace
}  // namespace slotscope
