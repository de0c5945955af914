// SPDX-License-Identifier: MIT
// What the dumps in a folder may cost: whoever writes there may write all the time, and whatever he
// likes.
#include "detect/live/fr_watch.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/clock.h"
#include "temp_folder.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kS = 1'000'000'000;

std::string Dump(int nr_entries) {
  std::string text = R"({"version":"2.10","entries":[)";
  for (int i = 0; i < nr_entries; i++)
    text += fmt::format(R"({}{{"process_group":["0","default_pg"],"collective_seq_id":{},)"
                        R"("state":"started","time_created_ns":5}})",
                        i ? "," : "", i + 1);
  return text + "]}";
}

class FrWatchTest : public testing::Test {
 protected:
  std::set<int32_t> Ranks(const FrWatch& watch) const { return watch.Records().ranks(); }

  TempFolder folder_;
  // All has settled, and the hour has begun: what is said once in each is said once here.
  int64_t now_ns_ =
      (static_cast<int64_t>(ClockNs(CLOCK_REALTIME)) / (3600 * kS) + 1) * 3600 * kS + 60 * kS;
};

// With no time at all it is one at a look, and the next look comes when that has been paid.
TEST_F(FrWatchTest, ReadingHasABudgetOfTime) {
  FrBudget budget;
  budget.burst_ns = 1;
  budget.share = 1000;
  FrWatch watch(folder_.path(), budget);
  for (int rank = 0; rank < 3; rank++) folder_.Write(fmt::format("rank_{}", rank), Dump(100));
  EXPECT_TRUE(watch.Poll(now_ns_));
  EXPECT_EQ(Ranks(watch).size(), 1u);
  EXPECT_THAT(watch.TakeProblems(), ElementsAre(HasSubstr("2 dumps wait to be read")));
  EXPECT_FALSE(watch.Poll(now_ns_)) << "it owes";
  EXPECT_EQ(Ranks(watch).size(), 1u);
  // Who writes one anew all the time does not keep the others waiting.
  const int32_t first = *Ranks(watch).begin();
  for (size_t nr = 2; nr <= 3; nr++) {
    folder_.Write(fmt::format("rank_{}", first), Dump(100 + static_cast<int>(nr)));
    now_ns_ += 600 * kS;
    EXPECT_TRUE(watch.Poll(now_ns_));
    EXPECT_EQ(Ranks(watch).size(), nr);
  }
  EXPECT_THAT(watch.TakeProblems(), IsEmpty()) << "once an hour";
  now_ns_ += 600 * kS;
  EXPECT_TRUE(watch.Poll(now_ns_)) << "and its own turn comes";
}

TEST_F(FrWatchTest, TheLastLookReadsAll) {
  FrBudget budget;
  budget.burst_ns = 1;
  FrWatch watch(folder_.path(), budget);
  for (int rank = 0; rank < 3; rank++) folder_.Write(fmt::format("rank_{}", rank), Dump(100));
  EXPECT_TRUE(watch.Poll(now_ns_, true));
  EXPECT_EQ(Ranks(watch).size(), 3u);
}

TEST_F(FrWatchTest, WhatIsKeptHasABound) {
  FrBudget budget;
  budget.max_kept = 1u << 20;
  FrWatch watch(folder_.path(), budget);
  for (int rank = 0; rank < 3; rank++) folder_.Write(fmt::format("rank_{}", rank), Dump(4000));
  EXPECT_TRUE(watch.Poll(now_ns_));
  ASSERT_EQ(Ranks(watch).size(), 2u);
  EXPECT_THAT(watch.TakeProblems(),
              ElementsAre(HasSubstr("it is left out: the others take 1 MiB of memory")));
  // One that goes makes room.
  const int32_t one = *Ranks(watch).begin();
  std::filesystem::remove(folder_.At(fmt::format("rank_{}", one)));
  EXPECT_TRUE(watch.Poll(now_ns_));
  EXPECT_TRUE(watch.Poll(now_ns_)) << "what was left out is read";
  EXPECT_EQ(Ranks(watch).size(), 2u);
  EXPECT_FALSE(Ranks(watch).contains(one));
  EXPECT_FALSE(watch.Poll(now_ns_)) << "nothing has changed";
  EXPECT_THAT(watch.TakeProblems(), IsEmpty());
  // What was read and is too large now is not what it was.
  folder_.Write(fmt::format("rank_{}", *Ranks(watch).begin()), Dump(20'000));
  EXPECT_TRUE(watch.Poll(now_ns_));
  EXPECT_EQ(Ranks(watch).size(), 1u);
}

TEST_F(FrWatchTest, FilesHaveABound) {
  FrBudget budget;
  budget.max_files = 2;
  FrWatch watch(folder_.path(), budget);
  for (int rank = 0; rank < 4; rank++) folder_.Write(fmt::format("rank_{}", rank), Dump(1));
  EXPECT_TRUE(watch.Poll(now_ns_));
  EXPECT_EQ(Ranks(watch).size(), 2u);
}

}  // namespace
}  // namespace slotscope
