// SPDX-License-Identifier: MIT
#include "cuda/losers.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace slotscope {
namespace {

class LosersTest : public testing::Test {
 protected:
  using Lost = std::vector<std::tuple<int32_t, uint64_t, uint64_t>>;

  Lost Look(const std::vector<Losers::Count>& counts, uint64_t now_ns) {
    std::vector<LostCalls> lost;
    idle_.clear();
    losers_.Look(counts, now_ns, &lost, &idle_);
    Lost all;
    for (const LostCalls& one : lost) all.emplace_back(one.tgid, one.start_time_ns, one.nr);
    return all;
  }
  static Losers::Count Of(int32_t tgid, uint64_t start_time_ns, uint64_t nr) {
    return {{tgid, 0, start_time_ns}, nr};
  }

  Losers losers_;
  std::vector<ss_cuda_loser> idle_;
};

TEST_F(LosersTest, TellsWhatIsNew) {
  EXPECT_EQ(Look({}, 0), Lost{});
  EXPECT_EQ(Look({Of(7, 70, 3), Of(8, 80, 1)}, 1), (Lost{{7, 70, 3}, {8, 80, 1}}));
  EXPECT_EQ(Look({Of(7, 70, 5), Of(8, 80, 1)}, 2), (Lost{{7, 70, 2}}));
  EXPECT_EQ(Look({Of(7, 71, 5)}, 3), (Lost{{7, 71, 5}})) << "another process";
  EXPECT_TRUE(idle_.empty());
}

TEST_F(LosersTest, WhoGoesOnIsNeverTakenOut) {
  for (uint64_t i = 1; i < 20; i++) {
    EXPECT_EQ(Look({Of(7, 70, i)}, i * Losers::kIdleNs), (Lost{{7, 70, 1}}));
    EXPECT_TRUE(idle_.empty());
  }
}

TEST_F(LosersTest, WhoIsTakenOutBeginsAnew) {
  EXPECT_EQ(Look({Of(7, 70, 3)}, 10), (Lost{{7, 70, 3}}));
  EXPECT_EQ(Look({Of(7, 70, 3)}, 9 + Losers::kIdleNs), Lost{});
  EXPECT_TRUE(idle_.empty());
  EXPECT_EQ(Look({Of(7, 70, 3)}, 10 + Losers::kIdleNs), Lost{});
  ASSERT_EQ(idle_.size(), 1u);
  EXPECT_EQ(idle_[0].tgid, 7);
  EXPECT_EQ(idle_[0].start_time_ns, 70u);
  EXPECT_EQ(Look({Of(7, 70, 1)}, 11 + Losers::kIdleNs), (Lost{{7, 70, 1}}));
}

// So that there is room for others: what a process of which there are thousands loses is anybody's.
TEST_F(LosersTest, WhereThereAreManyNobodyStaysForLong) {
  std::vector<Losers::Count> many;
  for (size_t i = 0; i <= Losers::kMany; i++) many.push_back(Of(static_cast<int32_t>(i + 1), 1, 1));
  EXPECT_EQ(Look(many, 1).size(), many.size());
  EXPECT_TRUE(idle_.empty()) << "each of them has lost a call since the last look";
  many[5].nr = 2;
  EXPECT_EQ(Look(many, 2), (Lost{{6, 1, 1}}));
  EXPECT_EQ(idle_.size(), many.size() - 1);
}

}  // namespace
}  // namespace slotscope
