// SPDX-License-Identifier: MIT
// What a reading of an RDT counter means; the same C file as in the module.
#include <gtest/gtest.h>

extern "C" {
#include "kmod/rdt_domain.h"
}

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>

namespace slotscope {
namespace {

constexpr uint32_t kDomain = 3;
constexpr uint32_t kRmid = 5;
constexpr uint32_t kRan = SS_RDT_RAN;
constexpr uint32_t kQuiet = 0;
constexpr uint64_t kError = 1ull << 63;
constexpr uint64_t kUnavailable = 1ull << 62;
constexpr uint64_t kOverflow = 1ull << 61;

// Hardly any lines: a 256th of cache_bytes are 64 units.
ss_rdt_caps Caps() {
  ss_rdt_caps caps = {};
  caps.nr_clusters = 1;
  caps.nr_rmids = 64;
  caps.events = 1u << SS_RDT_LLC_OCCUPANCY | 1u << SS_RDT_MBM_TOTAL | 1u << SS_RDT_MBM_LOCAL;
  caps.unit_bytes = 64;
  caps.width = 24;
  caps.corrected_from = UINT32_MAX;
  caps.cache_bytes = 1u << 20;
  return caps;
}

// Who has an RMID, as kmod/rmid.c keeps it.
class Life {
 public:
  void Alloc(uint64_t now_ns) {
    generation_++;
    live_ = true;
    alloc_ns_ = now_ns;
    prev_freed_ns_ = freed_ns_;
  }
  void Free(uint64_t now_ns) {
    live_ = false;
    freed_ns_ = now_ns;
  }
  ss_rdt_owner owner() const {
    return {generation_, live_, alloc_ns_, live_ ? prev_freed_ns_ : freed_ns_,
            live_ ? 0 : prev_freed_ns_};
  }
  bool live() const { return live_; }
  uint32_t generation() const { return generation_; }
  uint64_t alloc_ns() const { return alloc_ns_; }
  uint64_t freed_ns() const { return freed_ns_; }

 private:
  uint32_t generation_ = 0;
  bool live_ = false;
  uint64_t alloc_ns_ = 0, freed_ns_ = 0, prev_freed_ns_ = 0;
};

using Sample = std::optional<ss_rdt_sample>;

std::string StatusOf(const Sample& sample) {
  static const char* const kNames[SS_RDT_NR_STATUS] = {"ok",          "baseline",   "tainted",
                                                       "partial",     "skipped",    "error",
                                                       "unavailable", "unassigned", "unsupported"};
  if (!sample) return "nothing";
  return sample->status < SS_RDT_NR_STATUS ? kNames[sample->status] : "?";
}

// "ok 640 [10,20)", "baseline [10,20)", "nothing"
std::string Said(const Sample& sample) {
  std::string said = StatusOf(sample);
  if (!sample) return said;
  if (sample->status == SS_RDT_OK) said += " " + std::to_string(sample->value);
  return said + " [" + std::to_string(sample->since_ns) + "," + std::to_string(sample->hdr.ts_ns) + ")";
}

class RdtDomain : public testing::Test {
 protected:
  RdtDomain() { Init(Caps()); }

  void Init(const ss_rdt_caps& caps) {
    ss_rdt_domain_init(&domain_, kDomain, 0, &caps);
    stats_ = {};
    lives_.clear();
  }
  void Alloc(uint64_t now_ns, uint32_t rmid = kRmid) { lives_[rmid].Alloc(now_ns); }
  void Free(uint64_t now_ns, uint32_t rmid = kRmid) { lives_[rmid].Free(now_ns); }

  // Whatever is emitted says whose it is.
  Sample Take(ss_rdt_event event, uint64_t now_ns, uint64_t value, uint32_t flags, uint32_t rmid) {
    const ss_rdt_owner owner = lives_[rmid].owner();
    ss_rdt_sample sample;
    memset(&sample, 0xff, sizeof(sample));
    if (!ss_rdt_domain_take(&domain_, rmid, event, value, flags, &owner, now_ns, &stats_, &sample))
      return std::nullopt;
    EXPECT_EQ(sample.hdr.type, SS_RDT_SAMPLE);
    EXPECT_EQ(sample.hdr.size, sizeof(ss_rdt_sample));
    EXPECT_EQ(sample.hdr.ts_ns, now_ns);
    EXPECT_EQ(sample.rmid, rmid);
    EXPECT_EQ(sample.generation, owner.generation);
    EXPECT_EQ(sample.domain, kDomain);
    EXPECT_EQ(sample.event, event);
    EXPECT_LE(sample.since_ns, sample.hdr.ts_ns);
    EXPECT_GE(sample.since_ns, owner.alloc_ns);
    return sample;
  }
  Sample Total(uint64_t now_ns, uint64_t value, uint32_t flags = kRan, uint32_t rmid = kRmid) {
    return Take(SS_RDT_MBM_TOTAL, now_ns, value, flags, rmid);
  }
  Sample Local(uint64_t now_ns, uint64_t value, uint32_t flags = kRan, uint32_t rmid = kRmid) {
    return Take(SS_RDT_MBM_LOCAL, now_ns, value, flags, rmid);
  }
  Sample Lines(uint64_t now_ns, uint64_t value, uint32_t flags = kRan, uint32_t rmid = kRmid) {
    return Take(SS_RDT_LLC_OCCUPANCY, now_ns, value, flags, rmid);
  }

  ss_rdt_domain domain_;
  ss_rdt_stats stats_ = {};
  std::map<uint32_t, Life> lives_;
};

// ---- Deltas.

TEST_F(RdtDomain, CountsInUnits) {
  for (uint32_t unit : {1u, 64u, 40960u, 65536u}) {
    ss_rdt_caps caps = Caps();
    caps.unit_bytes = unit;
    Init(caps);
    Total(5, 100, kQuiet);
    Alloc(10);
    EXPECT_EQ(Said(Total(20, 107)), "ok " + std::to_string(7 * unit) + " [10,20)");
    EXPECT_EQ(Said(Total(30, 107)), "ok 0 [20,30)");
    EXPECT_EQ(Said(Total(40, 108)), "ok " + std::to_string(unit) + " [30,40)");
    EXPECT_EQ(stats_.nr_unattributed, 0u);
  }
}

TEST_F(RdtDomain, GoesRoundAtItsWidth) {
  for (uint32_t width : {24u, 32u, 44u, 61u, 62u}) {
    SCOPED_TRACE(width);
    const uint64_t mask = (1ull << width) - 1;
    ss_rdt_caps caps = Caps();
    caps.unit_bytes = 1;
    caps.width = width;
    Init(caps);
    uint64_t now_ns = 100, last = 0;
    Total(now_ns, last, kQuiet);
    Alloc(now_ns);
    for (uint64_t count : {mask - 2, uint64_t{4}, uint64_t{3}, mask, uint64_t{0}, mask / 2 + 1}) {
      now_ns += 10;
      // Modulo a power of two, by shifts: an independent way to say it.
      const uint64_t bytes = ((count << (64 - width)) - (last << (64 - width))) >> (64 - width);
      EXPECT_EQ(Said(Total(now_ns, count)), "ok " + std::to_string(bytes) + " [" +
                                                std::to_string(now_ns - 10) + "," +
                                                std::to_string(now_ns) + ")");
      last = count;
    }
  }
}

TEST_F(RdtDomain, BitsAboveTheWidthAreNotCounted) {
  Total(5, 1 | 1ull << 24, kQuiet);
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 3 | 5ull << 30)), "ok 128 [10,20)");
  EXPECT_EQ(Said(Total(30, 4 | kOverflow)), "ok 64 [20,30)");  // not announced
}

TEST_F(RdtDomain, CorrectsRmidsFromAThreshold) {
  const uint64_t correction = 1153434;  // 1.1
  ss_rdt_caps caps = Caps();
  caps.width = 44;
  caps.corrected_from = 8;
  caps.correction = correction;
  Init(caps);
  const struct {
    uint32_t rmid;
    bool corrected;
  } cases[] = {{1, false}, {7, false}, {8, true}, {63, true}};
  for (const auto& c : cases) {
    for (uint64_t units : {0ull, 1ull, 1ull << 14, 123456789ull, (1ull << 44) - 1}) {
      Init(caps);
      Total(5, 9, kQuiet, c.rmid);
      Alloc(10, c.rmid);
      unsigned __int128 bytes = units * 64;
      if (c.corrected) bytes = bytes * correction >> 20;
      const Sample sample = Total(20, 9 + units, kRan, c.rmid);
      ASSERT_EQ(StatusOf(sample), "ok");
      EXPECT_EQ(sample->value, static_cast<uint64_t>(bytes)) << c.rmid << " " << units;
    }
  }
}

TEST_F(RdtDomain, LinesAreNotCorrected) {
  ss_rdt_caps caps = Caps();
  caps.corrected_from = 0;
  caps.correction = 2u << 20;
  Init(caps);
  Alloc(10);
  EXPECT_EQ(Said(Lines(20, 60)), "ok 3840 [20,20)");
}

TEST_F(RdtDomain, TotalAndLocalAreApart) {
  Total(5, 100, kQuiet);
  Alloc(10);
  EXPECT_EQ(Said(Local(20, 50)), "baseline [10,20)");
  EXPECT_EQ(Said(Total(20, 101)), "ok 64 [10,20)");
  EXPECT_EQ(Said(Local(30, 52)), "ok 128 [20,30)");
  EXPECT_EQ(StatusOf(Total(40, kError)), "error");
  EXPECT_EQ(Said(Local(40, 53)), "ok 64 [30,40)");
}

TEST_F(RdtDomain, RmidsAreApart) {
  Total(5, 100, kQuiet, 1);
  Total(5, 200, kQuiet, 2);
  Alloc(10, 1);
  Alloc(11, 2);
  EXPECT_EQ(Said(Total(20, 101, kRan, 1)), "ok 64 [10,20)");
  EXPECT_EQ(Said(Total(21, 202, kRan, 2)), "ok 128 [11,21)");
}

// ---- Values that are none.

TEST_F(RdtDomain, AValueThatIsNoneHasAStatusAndIsNoBase) {
  const struct {
    uint64_t value;
    uint32_t flags;
    const char* status;
  } cases[] = {
      {kError, 0, "error"},
      {kError | 77, 0, "error"},
      {kUnavailable, 0, "unavailable"},
      {kUnavailable | 77, 0, "unavailable"},
      {kUnavailable, SS_RDT_ASSIGNABLE, "unassigned"},
      {kError, SS_RDT_ASSIGNABLE, "error"},
      {kError | kUnavailable, 0, "error"},
      {kError | kUnavailable, SS_RDT_ASSIGNABLE, "error"},
      {0, SS_RDT_FAULT, "error"},
      {77, SS_RDT_FAULT, "error"},
      {kUnavailable, SS_RDT_FAULT | SS_RDT_ASSIGNABLE, "error"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << std::hex << c.value << " " << c.flags);
    Init(Caps());
    Total(5, 100, kQuiet);
    Alloc(10);
    EXPECT_EQ(Said(Total(20, 101)), "ok 64 [10,20)");
    EXPECT_EQ(Said(Total(30, c.value, c.flags | kRan)), std::string(c.status) + " [20,30)");
    EXPECT_EQ(StatusOf(Total(40, 1000)), "baseline");
    EXPECT_EQ(Said(Total(50, 1003)), "ok 192 [40,50)");
    // What was between two reads without a base is not known: it is not a number of bytes.
    EXPECT_EQ(stats_.nr_unattributed, 0u);
    EXPECT_EQ(stats_.unattributed_bytes[0], 0u);
  }
}

TEST_F(RdtDomain, AnAssignableCounterThatIsAssignedCounts) {
  Total(5, 100, SS_RDT_ASSIGNABLE);
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 101, SS_RDT_ASSIGNABLE | kRan)), "ok 64 [10,20)");
}

TEST_F(RdtDomain, ErrorsFollowEachOther) {
  Total(5, 100, kQuiet);
  Alloc(10);
  EXPECT_EQ(StatusOf(Total(20, kError)), "error");
  EXPECT_EQ(StatusOf(Total(30, kUnavailable)), "unavailable");
  EXPECT_EQ(StatusOf(Total(40, 5)), "baseline");
  EXPECT_EQ(Said(Total(50, 6)), "ok 64 [40,50)");
}

TEST_F(RdtDomain, WhatFollowsAnErrorBeginsThere) {
  Alloc(10);
  Total(15, 100);
  EXPECT_EQ(Said(Total(20, 105)), "ok " + std::to_string(5 * Caps().unit_bytes) + " [15,20)");
  EXPECT_EQ(Said(Total(25, kError)), "error [20,25)");
  EXPECT_EQ(Said(Total(26, kError)), "error [25,26)");
  EXPECT_EQ(Said(Total(28, 110)), "baseline [26,28)");
}

TEST_F(RdtDomain, ATimeWithoutReadsIsNoBase) {
  Alloc(10);
  Total(15, 100);
  domain_.epoch++;  // see ss_rdt_cpu_read()
  EXPECT_EQ(Said(Total(7200, 105)), "baseline [15,7200)");
  EXPECT_EQ(StatusOf(Total(7210, 106)), "ok");
}

TEST_F(RdtDomain, LinesThatNobodyLookedAtBetweenTwoOwnersAreTheFirstOnes) {
  Alloc(10);
  Lines(15, 0);
  EXPECT_EQ(StatusOf(Lines(20, 10'000)), "ok");
  Free(25);
  Alloc(40);
  EXPECT_EQ(StatusOf(Lines(45, 10'000)), "tainted");
}

TEST_F(RdtDomain, AnErrorWhileItIsFreeTakesTheBaseAway) {
  Total(5, 100, kQuiet);
  EXPECT_EQ(Said(Total(6, kError, kQuiet)), "nothing");
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 101)), "baseline [10,20)");
}

TEST_F(RdtDomain, AnOverflowIsFineIfTheCounterShowsIt) {
  ss_rdt_caps caps = Caps();
  caps.width = 61;
  caps.has_overflow_bit = 1;
  caps.unit_bytes = 1;
  const struct {
    uint64_t last, count;
    const char* said;
  } cases[] = {
      {100, 107, "ok 7 [10,20)"},
      {kOverflow - 3, kOverflow | 4, "ok 7 [10,20)"},
      {100, kOverflow | 99, "ok 2305843009213693951 [10,20)"},
      {100, kOverflow | 100, "error [10,20)"},
      {100, kOverflow | 107, "error [10,20)"},
      {0, kOverflow, "error [10,20)"},
  };
  for (const auto& c : cases) {
    Init(caps);
    Total(5, c.last, kQuiet);
    Alloc(10);
    const Sample sample = Total(20, c.count);
    EXPECT_EQ(Said(sample), c.said) << c.count;
    EXPECT_EQ(StatusOf(Total(30, 200)), sample->status == SS_RDT_OK ? "ok" : "baseline") << c.count;
  }
}

TEST_F(RdtDomain, AnOverflowBeforeThereIsABaseSaysNothing) {
  ss_rdt_caps caps = Caps();
  caps.width = 61;
  caps.has_overflow_bit = 1;
  Init(caps);
  Alloc(10);
  EXPECT_EQ(Said(Total(20, kOverflow | 100)), "baseline [10,20)");
  EXPECT_EQ(Said(Total(30, 101)), "ok 64 [20,30)");
}

// ---- Whose a delta is.

TEST_F(RdtDomain, WhatWasReadWhileItWasFreeIsTheBase) {
  Total(5, 100, kQuiet);
  Total(7, 102, kQuiet);
  EXPECT_EQ(stats_.unattributed_bytes[0], 128u);
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 105)), "ok 192 [10,20)");
  EXPECT_EQ(stats_.unattributed_bytes[0], 128u);
}

TEST_F(RdtDomain, WithoutABaseTheFirstReadIsDiscarded) {
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 105)), "baseline [10,20)");
  EXPECT_EQ(stats_.nr_unattributed, 0u);  // 105 is of no known time
  EXPECT_EQ(Said(Total(30, 106)), "ok 64 [20,30)");
}

TEST_F(RdtDomain, WhatStraddlesAReuseIsNobodys) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  Alloc(40);
  EXPECT_EQ(Said(Total(50, 103)), "baseline [40,50)");
  EXPECT_EQ(stats_.nr_unattributed, 1u);
  EXPECT_EQ(stats_.unattributed_bytes[0], 192u);
  EXPECT_EQ(stats_.unattributed_bytes[1], 0u);
  EXPECT_EQ(Said(Total(60, 104)), "ok 64 [50,60)");
  EXPECT_EQ(stats_.nr_unattributed, 1u);
}

TEST_F(RdtDomain, LocalBytesThatAreNobodysAreCountedAsLocal) {
  Alloc(10);
  Local(20, 100);
  Free(30);
  Alloc(40);
  EXPECT_EQ(Said(Local(50, 103)), "baseline [40,50)");
  EXPECT_EQ(stats_.unattributed_bytes[0], 0u);
  EXPECT_EQ(stats_.unattributed_bytes[1], 192u);
}

TEST_F(RdtDomain, TheDeadGetTheirLastDeltaOnce) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  EXPECT_EQ(Said(Total(35, 102)), "ok 128 [20,35)");
  EXPECT_EQ(stats_.nr_unattributed, 0u);
  EXPECT_EQ(Said(Total(36, 103)), "nothing");  // it ran on another CPU as well
  EXPECT_EQ(stats_.nr_unattributed, 1u);
  EXPECT_EQ(stats_.unattributed_bytes[0], 64u);
}

TEST_F(RdtDomain, ADeadOwnerThatWasReadWhileItWasFreeGetsAllItHad) {
  Total(5, 100, kQuiet);
  Alloc(10);
  Free(30);
  EXPECT_EQ(Said(Total(35, 102)), "ok 128 [10,35)");
}

TEST_F(RdtDomain, ADeadOwnerWithoutABaseLearnsIt) {
  Alloc(10);
  Free(30);
  EXPECT_EQ(Said(Total(35, 102)), "baseline [10,35)");
  EXPECT_EQ(Said(Total(36, 102)), "nothing");
}

TEST_F(RdtDomain, ADeadOwnerLearnsOfAnError) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  EXPECT_EQ(Said(Total(35, kUnavailable)), "unavailable [20,35)");
}

TEST_F(RdtDomain, ADeadOwnerThatHadItAfterALifeThatWasReadIsNotGivenThatLife) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  Alloc(40);
  Free(50);
  EXPECT_EQ(Said(Total(55, 103)), "baseline [40,55)");
  EXPECT_EQ(stats_.unattributed_bytes[0], 192u);
}

TEST_F(RdtDomain, TheLastReadForTheDeadIsTheBaseOfTheNext) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  Total(35, 102);
  Alloc(40);
  EXPECT_EQ(Said(Total(50, 103)), "ok 64 [40,50)");
}

TEST_F(RdtDomain, ResidueIsNobodys) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  Total(35, 102);
  EXPECT_EQ(Said(Total(36, 104, kQuiet)), "nothing");
  EXPECT_EQ(stats_.unattributed_bytes[0], 128u);
  EXPECT_EQ(Said(Total(37, 104, kQuiet)), "nothing");
  EXPECT_EQ(stats_.nr_unattributed, 1u);  // nothing is no delta
  Alloc(40);
  EXPECT_EQ(Said(Total(50, 105)), "ok 64 [40,50)");
}

TEST_F(RdtDomain, AnOwnerThatWasNeverReadIsBetween) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  Alloc(40);
  Free(50);
  Alloc(60);
  EXPECT_EQ(Said(Total(70, 103)), "baseline [60,70)");
  EXPECT_EQ(stats_.unattributed_bytes[0], 192u);
}

TEST_F(RdtDomain, TheMomentOfTheFreeIsFree) {
  const struct {
    uint64_t read_ns;
    const char* said;
  } cases[] = {{29, "baseline [40,50)"}, {30, "ok 64 [40,50)"}, {40, "ok 64 [40,50)"}};
  for (const auto& c : cases) {
    Init(Caps());
    Alloc(10);
    if (c.read_ns < 30) Total(c.read_ns, 100);
    Free(30);
    if (c.read_ns >= 30) Total(c.read_ns, 100);
    Alloc(40);
    EXPECT_EQ(Said(Total(50, 101)), c.said) << c.read_ns;
  }
}

TEST_F(RdtDomain, AnRmidThatNobodyEverHadHasNoSamples) {
  for (uint32_t flags : {kQuiet, kRan}) {
    Init(Caps());
    EXPECT_EQ(Said(Total(5, 100, flags)), "nothing");
    EXPECT_EQ(Said(Total(6, 101, flags)), "nothing");
    EXPECT_EQ(Said(Total(7, kError, flags)), "nothing");
    EXPECT_EQ(Said(Lines(8, 100, flags)), "nothing");
    EXPECT_EQ(stats_.unattributed_bytes[0], 64u);
  }
}

// ---- Reads that nobody waits for.

TEST_F(RdtDomain, AQuietReadOfTheDeadIsNobodys) {
  Alloc(10);
  Total(20, 100);
  Free(30);
  EXPECT_EQ(Said(Total(35, 102, kQuiet)), "nothing");
  EXPECT_EQ(stats_.unattributed_bytes[0], 128u);
  Alloc(40);
  EXPECT_EQ(Said(Total(50, 103)), "ok 64 [40,50)");
}

TEST_F(RdtDomain, AQuietReadOfNothingDoesNotCutADelta) {
  Total(5, 100, kQuiet);
  Alloc(10);
  EXPECT_EQ(Said(Total(12, 100, kQuiet)), "nothing");
  EXPECT_EQ(Said(Total(20, 101)), "ok 64 [10,20)");
  EXPECT_EQ(Said(Total(30, 101, kQuiet)), "nothing");
  EXPECT_EQ(Said(Total(40, 101, kQuiet)), "nothing");
  EXPECT_EQ(Said(Total(50, 103)), "ok 128 [20,50)");
  EXPECT_EQ(stats_.nr_unattributed, 0u);
}

TEST_F(RdtDomain, AQuietReadOfSomethingIsASample) {
  Total(5, 100, kQuiet);
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 101, kQuiet)), "ok 64 [10,20)");
  EXPECT_EQ(Said(Total(30, 101)), "ok 0 [20,30)");
}

TEST_F(RdtDomain, AQuietErrorIsNotToldButIsNoBase) {
  for (uint64_t value : {kError, kUnavailable}) {
    Init(Caps());
    Total(5, 100, kQuiet);
    Alloc(10);
    Total(20, 101);
    EXPECT_EQ(Said(Total(30, value, kQuiet)), "nothing");
    EXPECT_EQ(StatusOf(Total(40, 105)), "baseline");
    EXPECT_EQ(stats_.nr_unattributed, 0u);
  }
}

TEST_F(RdtDomain, AQuietReadWithoutABaseIsOne) {
  Alloc(10);
  EXPECT_EQ(Said(Total(20, 100, kQuiet)), "nothing");
  EXPECT_EQ(Said(Total(30, 101)), "ok 64 [20,30)");
}

TEST_F(RdtDomain, AQuietReadThatStraddlesAReuseIsNobodys) {
  for (uint64_t count : {100, 103}) {
    Init(Caps());
    Alloc(10);
    Total(20, 100);
    Free(30);
    Alloc(40);
    EXPECT_EQ(Said(Total(50, count, kQuiet)), "nothing");
    EXPECT_EQ(stats_.unattributed_bytes[0], (count - 100) * 64);
    EXPECT_EQ(Said(Total(60, count + 1)), "ok 64 [50,60)");
  }
}

// ---- Reset.

TEST_F(RdtDomain, AfterAResetNothingIsKnown) {
  Total(5, 100, kQuiet);
  Alloc(10);
  Total(20, 101);
  EXPECT_EQ(Said(Lines(21, 0)), "ok 0 [21,21)");
  ss_rdt_domain_reset(&domain_);
  EXPECT_EQ(Said(Total(30, 500)), "baseline [10,30)");
  EXPECT_EQ(Said(Lines(31, 1000)), "tainted [31,31)");
  EXPECT_EQ(Said(Total(40, 501)), "ok 64 [30,40)");
  EXPECT_EQ(stats_.nr_unattributed, 0u);
}

TEST_F(RdtDomain, WhoHasItFromTheStartHasItsOwnLines) {
  ss_rdt_domain_found(&domain_, kRmid, 3, 0, 5);
  Alloc(10);
  EXPECT_EQ(Said(Lines(60, 10'000)), "ok 640000 [60,60)") << "nobody looked before";
  // The next one's are its own only if somebody looked in between.
  Free(70);
  Alloc(80);
  EXPECT_EQ(StatusOf(Lines(90, 10'000)), "tainted");
}

TEST_F(RdtDomain, WhatWasThereAtTheStartIsNobodys) {
  ss_rdt_domain_found(&domain_, kRmid, 500, 0, 5);
  Alloc(10);
  EXPECT_EQ(StatusOf(Lines(60, 10'000)), "tainted");
  EXPECT_EQ(StatusOf(Lines(70, 60)), "ok") << "it is gone";
}

TEST_F(RdtDomain, AStartThatCannotBeReadSaysNothing) {
  ss_rdt_domain_found(&domain_, kRmid, kUnavailable, 0, 5);
  ss_rdt_domain_found(&domain_, kRmid, kError, 0, 5);
  ss_rdt_domain_found(&domain_, kRmid, 0, SS_RDT_FAULT, 5);
  Alloc(10);
  EXPECT_EQ(StatusOf(Lines(60, 10'000)), "tainted");
}

TEST_F(RdtDomain, AResetKeepsWhatTheDomainIs) {
  ss_rdt_domain_reset(&domain_);
  EXPECT_EQ(domain_.id, kDomain);
  EXPECT_EQ(domain_.caps.unit_bytes, 64u);
  EXPECT_EQ(domain_.caps.nr_rmids, 64u);
}

// ---- Occupancy.

TEST_F(RdtDomain, LinesAreBytesAtOneMoment) {
  Alloc(10);
  EXPECT_EQ(Said(Lines(20, 3)), "ok 192 [20,20)");
  EXPECT_EQ(Said(Lines(30, 1)), "ok 64 [30,30)");
  EXPECT_EQ(Said(Lines(40, 100000)), "ok 6400000 [40,40)");  // wider than a counter of bandwidth may be
  EXPECT_EQ(stats_.nr_unattributed, 0u);
}

TEST_F(RdtDomain, LinesOfAnRmidThatWasNeverReadAreTainted) {
  Alloc(10);
  EXPECT_EQ(Said(Lines(20, 5000)), "tainted [20,20)");
  EXPECT_EQ(Said(Lines(30, 65)), "tainted [30,30)");
  EXPECT_EQ(Said(Lines(40, 64)), "ok 4096 [40,40)");
  EXPECT_EQ(Said(Lines(50, 5000)), "ok 320000 [50,50)");  // they can only be its own
}

TEST_F(RdtDomain, LinesOfAnEarlierOwnerAreTainted) {
  Alloc(10);
  Lines(20, 0);
  EXPECT_EQ(Said(Lines(25, 5000)), "ok 320000 [25,25)");
  Free(30);
  EXPECT_EQ(Said(Lines(35, 4000)), "ok 256000 [35,35)");
  Alloc(40);
  EXPECT_EQ(Said(Lines(50, 4100)), "tainted [50,50)");
  EXPECT_EQ(Said(Lines(60, 60)), "ok 3840 [60,60)");
  EXPECT_EQ(Said(Lines(70, 4100)), "ok 262400 [70,70)");
}

TEST_F(RdtDomain, LinesThatWereFewWhenItWasFreeDoNotTaint) {
  Alloc(10);
  Lines(20, 0);
  Lines(25, 5000);
  Free(30);
  Lines(35, 4000);
  EXPECT_EQ(Said(Lines(37, 64, kQuiet)), "nothing");
  Alloc(40);
  EXPECT_EQ(Said(Lines(50, 4100)), "ok 262400 [50,50)");
}

TEST_F(RdtDomain, AQuietReadingLiftsTheTaintToo) {
  Alloc(10);
  EXPECT_EQ(Said(Lines(20, 10, kQuiet)), "nothing");
  EXPECT_EQ(Said(Lines(30, 5000)), "ok 320000 [30,30)");
}

// Lines that others use, and those in a partition of their own, survive any traffic.
TEST_F(RdtDomain, TrafficDoesNotLiftTheTaint) {
  Total(5, 100, kQuiet, 9);
  Alloc(6, 9);
  Alloc(10);
  EXPECT_EQ(Said(Lines(20, 5000)), "tainted [20,20)");
  Total(30, 100 + (1u << 20), kRan, 9);
  Total(30, 100 + (1u << 20));
  EXPECT_EQ(Said(Lines(40, 5000)), "tainted [40,40)");
}

TEST_F(RdtDomain, AUnitIsHardlyAnyLines) {
  ss_rdt_caps caps = Caps();
  caps.unit_bytes = 1u << 16;
  Init(caps);
  Alloc(10);
  EXPECT_EQ(Said(Lines(20, 2)), "tainted [20,20)");
  EXPECT_EQ(Said(Lines(30, 1)), "ok 65536 [30,30)");
}

TEST_F(RdtDomain, ACacheOfUnknownSizeIsCleanWhenItIsEmpty) {
  ss_rdt_caps caps = Caps();
  caps.cache_bytes = 0;
  Init(caps);
  Total(5, 100, kQuiet);
  Alloc(10);
  Total(15, 100 + (1u << 23));
  EXPECT_EQ(Said(Lines(20, 1)), "tainted [20,20)");
  EXPECT_EQ(Said(Lines(30, 0)), "ok 0 [30,30)");
  EXPECT_EQ(Said(Lines(40, 1000)), "ok 64000 [40,40)");
}

TEST_F(RdtDomain, LinesOfTheDeadAreReadOnce) {
  Alloc(10);
  Lines(20, 0);
  Free(30);
  EXPECT_EQ(Said(Lines(35, 100)), "ok 6400 [35,35)");
  EXPECT_EQ(Said(Lines(36, 100)), "nothing");
  EXPECT_EQ(Said(Lines(37, 100, kQuiet)), "nothing");
}

TEST_F(RdtDomain, LinesOfTheDeadMayBeTaintedToo) {
  Alloc(10);
  Free(30);
  EXPECT_EQ(Said(Lines(35, 5000)), "tainted [35,35)");
}

TEST_F(RdtDomain, LinesHaveTheSameStatuses) {
  const struct {
    uint64_t value;
    uint32_t flags;
    const char* said;
  } cases[] = {
      {kError, 0, "error [20,20)"},
      {kUnavailable, 0, "unavailable [20,20)"},
      {kUnavailable, SS_RDT_ASSIGNABLE, "unassigned [20,20)"},
      {0, SS_RDT_FAULT, "error [20,20)"},
  };
  for (const auto& c : cases) {
    Init(Caps());
    Alloc(10);
    EXPECT_EQ(Said(Lines(20, c.value, c.flags | kRan)), c.said);
    // It was no reading of 0: the taint is still there.
    EXPECT_EQ(Said(Lines(30, 5000)), "tainted [30,30)");
    EXPECT_EQ(Said(Lines(40, 0)), "ok 0 [40,40)");
    EXPECT_EQ(Said(Lines(50, c.value, c.flags | kQuiet)), "nothing");
    EXPECT_EQ(Said(Lines(60, 5000)), "ok 320000 [60,60)");
  }
}

// ---- Doubt: who ran by the clock, and under which RMID, was not the same for a while.

TEST_F(RdtDomain, WhatIsDoubtedIsNobodysButABase) {
  Alloc(10);
  Total(20, 100);
  EXPECT_EQ(Said(Total(30, 150, kRan | SS_RDT_DOUBTED)), "partial [20,30)");
  EXPECT_EQ(stats_.unattributed_bytes[0], 50u * 64);
  EXPECT_EQ(stats_.doubted_bytes[0], 50u * 64);
  EXPECT_EQ(Said(Total(40, 250)), "ok 6400 [30,40)");
}

TEST_F(RdtDomain, AValueThatIsNoneIsNotDoubted) {
  Alloc(10);
  Total(20, 100);
  EXPECT_EQ(Said(Total(30, kError, kRan | SS_RDT_DOUBTED)), "error [20,30)");
  EXPECT_EQ(Said(Total(40, 100, kRan | SS_RDT_DOUBTED)), "baseline [30,40)");
}

TEST_F(RdtDomain, LinesAreNotDoubted) {
  Alloc(10);
  Lines(20, 0);
  EXPECT_EQ(Said(Lines(30, 100, kRan | SS_RDT_DOUBTED)), "ok 6400 [30,30)");
}

// ---- Any life.

// What is known of one counter without clocks: who had the RMID when it was read last, and whose bytes
// have been counted since. Late writes are the dead owner's.
struct Counter {
  uint64_t units = 0;  // of the hardware, had it bits enough
  bool has_base = false;
  bool base_free = false;
  uint32_t base_generation = 0;
  uint64_t base_ns = 0;
  std::map<uint32_t, uint64_t> since;  // [generation]

  uint64_t since_units() const {
    uint64_t sum = 0;
    for (const auto& [generation, units_of_it] : since) sum += units_of_it;
    return sum;
  }
};

// Of one owner, one counter.
struct Account {
  uint64_t truth = 0, given = 0, withheld = 0;
  uint64_t until_ns = 0;  // where its last good sample ended
  bool cut = false;       // since then, a read was none
};

class RdtDomainLives : public RdtDomain {
 protected:
  static constexpr uint32_t kNrRmids = 4;
  static constexpr uint64_t kMax = (1u << 24) - 1;

  uint64_t Below(uint64_t n) { return random_() % n; }

  Account& AccountOf(uint32_t rmid, int which, uint32_t generation) {
    Account& account = accounts_[{rmid, which, generation}];
    if (account.until_ns == 0) account.until_ns = lives_[rmid].alloc_ns();
    return account;
  }

  void Write(uint32_t rmid) {
    const uint32_t generation = lives_[rmid].generation();
    for (int which : {0, 1}) {
      Counter& counter = counters_[{rmid, which}];
      const uint64_t most = std::min<uint64_t>(kMax - counter.since_units(), 1u << Below(24));
      const uint64_t units = most ? Below(most + 1) : 0;
      counter.units += units;
      counter.since[generation] += units;
      AccountOf(rmid, which, generation).truth += units * 64;
    }
  }

  // Does a delta from the last read belong to who has the RMID now, or had it last?
  bool IsBase(const Counter& counter, const Life& life) const {
    return counter.has_base && (counter.base_generation == life.generation() ||
                                (counter.base_free && counter.base_generation + 1 == life.generation()));
  }

  void Withhold(uint32_t rmid, int which, Counter* counter) {
    for (const auto& [generation, units] : counter->since)
      AccountOf(rmid, which, generation).withheld += units * 64;
    counter->since.clear();
  }

  void Read(uint32_t rmid, int which, bool ran, bool error) {
    const Life& life = lives_[rmid];
    Counter& counter = counters_[{rmid, which}];
    const uint32_t generation = life.generation();
    const uint64_t units = counter.since_units();
    const uint64_t unattributed = stats_.unattributed_bytes[which];
    const bool was_free =
        counter.base_ns > 0 && counter.base_free && counter.base_generation == generation;
    const bool nobody = generation == 0 || (!life.live() && (!ran || was_free));
    const bool is_base = IsBase(counter, life);
    const uint64_t base_ns = counter.base_ns;

    const Sample sample =
        Take(which ? SS_RDT_MBM_LOCAL : SS_RDT_MBM_TOTAL, now_ns_,
             error ? kError | Below(1000) : counter.units & kMax, ran ? kRan : kQuiet, rmid);
    const uint64_t more = stats_.unattributed_bytes[which] - unattributed;
    Account& account = AccountOf(rmid, which, generation);
    if (!nobody && !error && is_base && !ran && units == 0) {
      EXPECT_EQ(StatusOf(sample), "nothing");
      return;  // as if it had not been
    }
    if (error) {
      EXPECT_EQ(StatusOf(sample), ran && !nobody ? "error" : "nothing");
      EXPECT_EQ(more, 0u);
      account.cut = true;
    } else if (!nobody && is_base) {
      ASSERT_EQ(StatusOf(sample), "ok");
      EXPECT_EQ(sample->value, units * 64);
      EXPECT_EQ(sample->since_ns, std::max(base_ns, life.alloc_ns()));
      EXPECT_EQ(counter.since[generation], units) << "of two owners";
      EXPECT_EQ(more, 0u);
      EXPECT_GE(sample->since_ns, account.until_ns) << "overlaps";
      EXPECT_TRUE(account.cut || sample->since_ns == account.until_ns) << "a hole";
      account.given += sample->value;
      account.until_ns = now_ns_;
      account.cut = false;
      counter.since.clear();
      nr_ok_++;
    } else {
      EXPECT_EQ(StatusOf(sample), ran && !nobody ? "baseline" : "nothing");
      EXPECT_EQ(more, counter.has_base ? units * 64 : 0);
      account.cut = true;
      nr_withheld_++;
    }
    Withhold(rmid, which, &counter);
    counter.has_base = !error;
    counter.base_free = !life.live();
    counter.base_generation = generation;
    counter.base_ns = now_ns_;
  }

  void Begin(uint64_t seed) {
    Init(Caps());
    random_.seed(seed);
    now_ns_ = SS_RMID_LIMBO_NS;
    counters_.clear();
    accounts_.clear();
    nr_ok_ = nr_withheld_ = 0;
  }

  void Step() {
    const auto rmid = static_cast<uint32_t>(1 + Below(kNrRmids));
    now_ns_ += 1 + Below(SS_RMID_LIMBO_NS / 2);
    Life& life = lives_[rmid];
    const int which = static_cast<int>(Below(2));
    switch (Below(8)) {
      case 0:
        if (life.live()) {
          life.Free(now_ns_);
          if (Below(2)) Write(rmid);  // late
        } else if (now_ns_ - life.freed_ns() >= SS_RMID_LIMBO_NS) {
          life.Alloc(now_ns_);
        }
        break;
      case 1:
      case 2:
      case 3:
        if (life.live()) Write(rmid);
        break;
      default:
        // Residue that comes after the last read while free is the next one's: there is no telling.
        if (!life.live() && life.generation() && Below(2)) Write(rmid);
        Read(rmid, which, Below(3) != 0, Below(20) == 0);
        if (!life.live()) Read(rmid, 1 - which, Below(3) != 0, Below(20) == 0);
    }
  }

  std::mt19937_64 random_;
  uint64_t now_ns_ = 0;
  std::map<std::pair<uint32_t, int>, Counter> counters_;
  std::map<std::tuple<uint32_t, int, uint32_t>, Account> accounts_;
  uint64_t nr_ok_ = 0, nr_withheld_ = 0;
};

TEST_F(RdtDomainLives, EveryByteIsItsOwnersOrNobodys) {
  for (uint64_t seed = 1; seed <= 8 && !HasFailure(); seed++) {
    SCOPED_TRACE(seed);
    Begin(seed);
    for (int step = 0; step < 20000 && !HasFailure(); step++) Step();
    for (auto& [key, counter] : counters_) Withhold(key.first, key.second, &counter);  // not read yet
    for (const auto& [key, account] : accounts_)
      EXPECT_EQ(account.given + account.withheld, account.truth);
    EXPECT_GT(nr_ok_, 1000u);
    EXPECT_GT(nr_withheld_, 100u);
    EXPECT_GT(lives_[1].generation(), 50u);
    const Counter& counter = counters_[{1, 0}];
    EXPECT_GT(counter.units, 10 * kMax) << "never went round";
  }
}

}  // namespace
}  // namespace slotscope
