// SPDX-License-Identifier: MIT
// When a line says that it was.
#include "detect/inputs/timestamp.h"

#include <gtest/gtest.h>

#include <string>

namespace slotscope {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kMay28 = 1'748'419'550 * kS;  // 2025-05-28T08:05:50Z

TEST(Timestamp, OfKubernetes) {
  EXPECT_EQ(ParseTimestamp("2025-05-28T08:05:50Z"), (Moment{kMay28, kS}));
  EXPECT_EQ(ParseTimestamp("2025-05-28T08:05:50.548190Z"), (Moment{kMay28 + 548'190'000, 1000}));
  EXPECT_EQ(ParseTimestamp("2025-05-28T10:05:50+02:00"), (Moment{kMay28, kS}));
  EXPECT_EQ(ParseTimestamp("2025-05-28T02:35:50-0530"), (Moment{kMay28, kS}));
  EXPECT_EQ(ParseTimestamp("2025-05-28T08:05:50,1234567891Z"), (Moment{kMay28 + 123'456'789, 1}));
  EXPECT_EQ(ParseTimestamp("2024-02-29T00:00:00Z"), (Moment{1'709'164'800 * kS, kS}));
}

TEST(Timestamp, WhatIsNone) {
  for (const char* text :
       {"", "2025-05-28", "2025-05-28T08:05:50", "2025-02-29T00:00:00Z", "2025-13-01T00:00:00Z",
        "2025-05-28T24:00:00Z", "2025-05-28T08:60:00Z", "2025-05-28T08:05:50Z ", "25-05-28T08:05:50Z",
        "2025-05-28T08:05:50+99:00", "2025-05-28T08:05:50+02:", "null", "0001-01-01T00:00:00Z",
        "2025-05-28T08:05Z", "-025-05-28T08:05:50Z"})
    EXPECT_FALSE(ParseTimestamp(text)) << text;
}

TEST(Timestamp, ZonesAreDistancesOrOurOwn) {
  EXPECT_EQ(TimeZone::Parse("+02:00")->UnixSeconds(2025, 5, 28, 10, 5, 50), kMay28 / kS);
  EXPECT_EQ(TimeZone::Parse("-0530")->UnixSeconds(2025, 5, 28, 2, 35, 50), kMay28 / kS);
  EXPECT_EQ(TimeZone::Parse("UTC")->UnixSeconds(2025, 5, 28, 8, 5, 50), kMay28 / kS);
  EXPECT_TRUE(TimeZone::Parse("local"));
  for (const char* text : {"", "CEST", "02:00", "+2", "+15:00", "UTC+1", "Europe/Berlin"})
    EXPECT_FALSE(TimeZone::Parse(text)) << text;
}

struct Case {
  const char* prefix;
  int64_t ns;
  int64_t resolution_ns;
  LogClock clock;
};

TEST(LogTime, InAllFormsOfPrefixes) {
  LogTimeOptions options;
  options.boot_ns = 1'700'000'000 * kS;
  options.zone = TimeZone(7200);
  options.newest_ns = kMay28;
  LogTimeReader reader(options);
  const Case kCases[] = {
      {"[6781741.548779] ", (1'706'781'741 * kS) + 548'779'000, 1000, LogClock::kBoot},
      {"[  113.669216] [ T1946] ", (1'700'000'113 * kS) + 669'216'000, 1000, LogClock::kBoot},
      {"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ", 1'737'434'504'283'302'000, 1000,
       LogClock::kLine},
      {"2025-01-21T04:41:44.283302+0000 host kernel: [12.000000] ", 1'737'434'504'283'302'000, 1000,
       LogClock::kLine},
      {"10.5.0.3: kern: warning: [2025-01-21T04:41:44.283302Z]: ", 1'737'434'504'283'302'000, 1000,
       LogClock::kLine},
      {"1724931189.283302 host kernel: ", 1'724'931'189'283'302'000, 1000, LogClock::kLine},
      {"[Fri Aug  9 13:32:56 2024] ", 1'723'203'176 * kS, kS, LogClock::kZone},
      {"Fri 2024-08-09 13:32:56 CEST host kernel: ", 1'723'203'176 * kS, kS, LogClock::kZone},
      {"2024-08-09 13:32:56 Zeus01 kernel: ", 1'723'203'176 * kS, kS, LogClock::kZone},
      {"Fri 2024-08-09 13:32:56 UTC host kernel: ", 1'723'210'376 * kS, kS, LogClock::kLine},
      {"May 19 07:08:57 host kernel: [176830.774761] ", 1'747'631'337 * kS, kS, LogClock::kYear},
      {"May 19 07:08:57.123456 host kernel: ", (1'747'631'337 * kS) + 123'456'000, 1000,
       LogClock::kYear},
      // A day later than the file's end is a clock that differs, more than that is a year ago.
      {"Okt 06 17:59:27 balrog kernel: ", 1'728'230'367 * kS, kS, LogClock::kYear},
      {"M\u00e4r  1 00:00:00 host kernel: ", 1'740'780'000 * kS, kS, LogClock::kYear},
      {"d\u00e9c. 31 23:59:59 host kernel: ", 1'735'682'399 * kS, kS, LogClock::kYear},
      {"juil. 14 12:00:00 host kernel: ", 1'720'951'200 * kS, kS, LogClock::kYear},
      {"Feb 29 12:00:00 host kernel: ", 1'709'200'800 * kS, kS, LogClock::kYear},
  };
  for (const Case& c : kCases) {
    const auto time = reader.Find(c.prefix);
    ASSERT_TRUE(time) << c.prefix;
    EXPECT_EQ(time->when, (Moment{c.ns, c.resolution_ns})) << c.prefix;
    EXPECT_EQ(time->clock, c.clock) << c.prefix;
  }
}

TEST(LogTime, WhatCannotBePlacedHasNone) {
  LogTimeReader reader({});
  for (const char* prefix : {"", "kernel: ", "[6781741.548779] ", "May 19 07:08:57 host kernel: ",
                             "[gpu-health] [WARN] GPU-e11dfcca-7c93-959a-b8fd-5cfe0839b163: XID: ",
                             "Feb 30 07:08:57 host kernel: ", "2025-02-30T00:00:00Z host kernel: "})
    EXPECT_FALSE(reader.Find(prefix)) << prefix;
  EXPECT_FALSE(reader.SinceBoot(5));
}

TEST(LogTime, AGivenYearGoesOnBeyondNewYear) {
  LogTimeOptions options;
  options.year = 2023;
  options.zone = TimeZone(0);
  LogTimeReader reader(options);
  EXPECT_EQ(reader.Find("Dec 31 23:59:59 host kernel: ")->when.begin_ns, 1'704'067'199 * kS);
  EXPECT_EQ(reader.Find("Jan  1 00:00:01 host kernel: ")->when.begin_ns, 1'704'067'201 * kS);
  // Lines are not always in their order; and there may be none in January.
  EXPECT_EQ(reader.Find("Dec 31 23:59:59 host kernel: ")->when.begin_ns, 1'704'067'199 * kS);
  EXPECT_EQ(reader.Find("Feb  1 00:00:00 host kernel: ")->when.begin_ns, 1'706'745'600 * kS);
}

TEST(Moments, ASecondIsAllOfIt) {
  const Moment second = {10 * kS, kS}, exact = {10 * kS + 5, 1}, next = {11 * kS, 1};
  EXPECT_TRUE(MayPrecede(exact, second));
  EXPECT_TRUE(MayPrecede(second, exact));
  EXPECT_FALSE(SurelyPrecedes(second, exact));
  EXPECT_TRUE(SurelyPrecedes(second, next));
  EXPECT_FALSE(MayPrecede(next, second));
  EXPECT_EQ(LeastBetween(second, next), 1);
}

}  // namespace
}  // namespace slotscope
