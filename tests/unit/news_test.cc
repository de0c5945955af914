// SPDX-License-Identifier: MIT
#include "base/news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kHourNs = News::kPeriodNs;

TEST(News, WhatIsSoIsSaidOnceAnHour) {
  News news;
  EXPECT_TRUE(news.Tell("The disk is full.", 5));
  EXPECT_FALSE(news.Tell("The disk is full.", 4 + kHourNs));
  EXPECT_THAT(news.Take(), ElementsAre("The disk is full."));
  EXPECT_FALSE(news.Tell("The disk is full.", 4 + kHourNs)) << "taken, and still the same hour";
  EXPECT_TRUE(news.Tell("The disk is full.", 5 + kHourNs));
  EXPECT_THAT(news.Take(), ElementsAre("The disk is full."));
}

TEST(News, SoManyAnHourAndNotInAll) {
  News news;
  size_t nr_told = 0;
  for (uint64_t i = 0; i < 1000; i++) nr_told += news.Tell(std::to_string(i), i);
  EXPECT_EQ(nr_told, News::kMaxSentences);
  EXPECT_EQ(news.Take().size(), News::kMaxSentences);
  EXPECT_FALSE(news.Tell("another", 1000));
  EXPECT_TRUE(news.Tell("another", kHourNs)) << "the first one is an hour old";
  EXPECT_FALSE(news.Tell("and another", kHourNs));
}

TEST(News, OfWhatIsWordedDifferentlyTheFirstIsSaid) {
  News news;
  EXPECT_TRUE(news.TellFirstOf("timeouts", "It took 5 s.", 1));
  EXPECT_FALSE(news.TellFirstOf("timeouts", "It took 6 s.", 2));
  EXPECT_TRUE(news.TellFirstOf("refusals", "It took 5 s.", 3));
  EXPECT_TRUE(news.TellFirstOf("timeouts", "It took 7 s.", 1 + kHourNs));
  EXPECT_THAT(news.Take(), ElementsAre("It took 5 s.", "It took 5 s.", "It took 7 s."));
}

TEST(News, WhatHappensIsSaidEachTime) {
  News news;
  news.TellEvent("It happened.");
  news.TellEvent("It happened.");
  EXPECT_THAT(news.Take(), ElementsAre("It happened.", "It happened."));
  EXPECT_THAT(news.Take(), IsEmpty());
}

TEST(News, ThatNobodyTakesAreBounded) {
  News news;
  for (uint64_t hour = 0; hour < 100; hour++)
    for (size_t i = 0; i < News::kMaxSentences; i++) news.Tell(std::to_string(i), hour * kHourNs);
  EXPECT_EQ(news.Take().size(), News::kMaxUntaken);
}

}  // namespace
}  // namespace slotscope
