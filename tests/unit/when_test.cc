// SPDX-License-Identifier: MIT
#include "base/when.h"

#include <gtest/gtest.h>

#include <string>

#include "base/zone.h"

namespace slotscope {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kEnd = 1'795'754'628 * kSecond;  // 2026-11-27 04:43:48 UTC, 05:43:48 in Berlin

Zone Berlin() {
  Zone zone;
  EXPECT_TRUE(Zone::Find("Europe/Berlin", &zone).ok());
  return zone;
}

// Of a recording in Berlin; -1: it is refused.
int64_t When(const std::string& text) {
  int64_t unix_ns;
  return ParseWhen(text, {Berlin(), kEnd - 2 * 86400 * kSecond, kEnd}, &unix_ns).ok() ? unix_ns : -1;
}

std::string WhyNot(const std::string& text) {
  int64_t unix_ns;
  return ParseWhen(text, {Berlin(), kEnd - 2 * 86400 * kSecond, kEnd}, &unix_ns).message();
}

TEST(When, AsJournalctlTakesThem) {
  EXPECT_EQ(When("2026-11-27 05:43:48"), kEnd);
  EXPECT_EQ(When("2026-11-27T05:43:48"), kEnd);
  EXPECT_EQ(When("2026-11-27 05:43:48.120"), kEnd + 120'000'000);
  EXPECT_EQ(When("2026-11-27 05:43"), kEnd - 48 * kSecond);
  EXPECT_EQ(When("2026-11-27"), kEnd - (5 * 3600 + 43 * 60 + 48) * kSecond);
  EXPECT_EQ(When("2026-11-27 04:43:48 UTC"), kEnd);
  EXPECT_EQ(When("2026-11-27T04:43:48Z"), kEnd);
  EXPECT_EQ(When("2026-11-27 06:43:48 +02:00"), kEnd);
  EXPECT_EQ(When("now"), kEnd);
  EXPECT_EQ(When("today"), When("2026-11-27"));
  EXPECT_EQ(When("yesterday"), When("2026-11-26"));
  EXPECT_EQ(When("-5min"), kEnd - 300 * kSecond);
  EXPECT_EQ(When("-1h30min"), kEnd - 5400 * kSecond);
  EXPECT_EQ(When("@1795754628.25"), kEnd + 250'000'000);
}

TEST(When, ATimeAloneIsTheLastOneInFrontOfTheEnd) {
  EXPECT_EQ(When("05:43:48"), kEnd);
  EXPECT_EQ(When("05:43:49"), kEnd - 86399 * kSecond);
  EXPECT_EQ(When("04:00"), When("2026-11-27 04:00:00"));
}

TEST(When, NonsenseIsRefused) {
  for (const char* text :
       {"", " ", "soon", "25:00", "12:61", "2026-13-01", "2026-02-30 12:00", "2026-257-278",
        "05:43:48,7", "12", "@", "@x", "-5", "-5parsecs", "2026-11-27 12:00 Mars/Phobos",
        "2026-11-27 12:00 +99:00", "999999999999999999999-01-01", "--5s", "12:00:00.5x"})
    EXPECT_EQ(When(text), -1) << text;
}

// On 25 October 2026 the clocks of Berlin go from 3:00 back to 2:00, on 29 March from 2:00 to 3:00.
TEST(When, AnHourThatWasTwiceIsRefusedWithBothReadings) {
  EXPECT_EQ(When("2026-10-25 02:30"), -1);
  const std::string why = WhyNot("2026-10-25 02:30");
  EXPECT_NE(why.find("+02:00"), why.npos) << why;
  EXPECT_NE(why.find("+01:00"), why.npos) << why;
  EXPECT_EQ(When("2026-10-25 02:30 +01:00") - When("2026-10-25 02:30 +02:00"), 3600 * kSecond);
  EXPECT_EQ(When("2026-03-29 02:30"), -1);
  EXPECT_NE(WhyNot("2026-03-29 02:30").find("never"), std::string::npos);
  EXPECT_NE(WhyNot("5min").find("-5min"), std::string::npos);
}

TEST(When, Lengths) {
  int64_t ns;
  ASSERT_TRUE(ParseLength("100ms", &ns).ok());
  EXPECT_EQ(ns, 100'000'000);
  ASSERT_TRUE(ParseLength("1h30min", &ns).ok());
  EXPECT_EQ(ns, 5400 * kSecond);
  ASSERT_TRUE(ParseLength("2.5s", &ns).ok());
  EXPECT_EQ(ns, 2'500'000'000);
  for (const char* text : {"", "5", "ms", "5 s", "1e30d", "-5s", "5ms6"})
    EXPECT_FALSE(ParseLength(text, &ns).ok()) << text;
}

TEST(Zone, TellsTimes) {
  EXPECT_EQ(Berlin().Text(kEnd + 120'000'000), "2026-11-27 05:43:48.120");
  EXPECT_EQ(Zone().Text(kEnd), "2026-11-27 04:43:48.000");
  EXPECT_EQ(Zone().Text(-1), "1969-12-31 23:59:59.999");
  Zone zone;
  ASSERT_TRUE(Zone::Find("-0730", &zone).ok());
  EXPECT_EQ(zone.ClockText(kEnd), "21:13:48.000");
  EXPECT_FALSE(Zone::Find("../../etc/passwd", &zone).ok());
  EXPECT_TRUE(zone.is_utc());
}

}  // namespace
}  // namespace slotscope
