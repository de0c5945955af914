// SPDX-License-Identifier: MIT
#include "ring/round_length.h"

#include <gtest/gtest.h>

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kRingBytes = 1u << 20, kEighth = kRingBytes / RoundLength::kQuietShare;

// A reader's rounds, one behind the other, each as long as it is told.
class Rounds {
 public:
  Rounds() { now_ns_ = 1'000 * kMs; }
  // What comes of so much in half a second, in each of `nr` rounds.
  void Run(int nr, uint64_t bytes_per_500_ms) {
    for (int i = 0; i < nr; i++) {
      const auto ms = static_cast<uint64_t>(length.ms());
      now_ns_ += ms * kMs;
      length.OnRound(now_ns_, bytes_per_500_ms * ms / 500, kRingBytes);
    }
  }
  RoundLength length;

 private:
  uint64_t now_ns_;
};

TEST(RoundLength, IsHalfASecondWhileLittleComes) {
  Rounds rounds;
  rounds.length.AllowQuiet();
  rounds.length.HearOfHotplug();
  EXPECT_EQ(rounds.length.ms(), 10);
  rounds.Run(RoundLength::kPatience, kEighth / 2);  // (the first is of nothing that was there before)
  EXPECT_EQ(rounds.length.ms(), 500);
  rounds.Run(100, kEighth - 1);
  EXPECT_EQ(rounds.length.ms(), 500) << "as long as it would not fill an eighth";
  rounds.Run(1, 2 * kEighth);
  EXPECT_EQ(rounds.length.ms(), 10) << "one with more is the last";
  rounds.Run(RoundLength::kPatience - 1, 0);
  EXPECT_EQ(rounds.length.ms(), 10) << "not at once";
  rounds.Run(1, 0);
  EXPECT_EQ(rounds.length.ms(), 500);
}

// It is what would come in a quiet round that decides, not what has come in a short one.
TEST(RoundLength, AStreamIsNotLittleBecauseItsRoundsAreShort) {
  Rounds rounds;
  rounds.length.AllowQuiet();
  rounds.length.HearOfHotplug();
  rounds.Run(1'000, 2 * kEighth);
  EXPECT_EQ(rounds.length.ms(), 10);
}

TEST(RoundLength, IsShortWhereSomebodyActsOnWhatComes) {
  Rounds rounds;
  rounds.length.HearOfHotplug();
  rounds.Run(1'000, 0);
  EXPECT_EQ(rounds.length.ms(), 10);
}

TEST(RoundLength, IsShorterWhereNobodyTellsOfHotplug) {
  Rounds rounds;
  rounds.length.AllowQuiet();
  rounds.Run(1'000, 0);
  EXPECT_EQ(rounds.length.ms(), 200);
}

TEST(RoundLength, IsLongerWhereARecordingCostsTooMuch) {
  Rounds rounds;
  rounds.length.SlowDown(true);
  EXPECT_EQ(rounds.length.ms(), 40);
  rounds.length.AllowQuiet();
  rounds.Run(1'000, 0);
  EXPECT_EQ(rounds.length.ms(), 200) << "a quiet one is longer still";
  rounds.Run(1, 8 * kRingBytes);
  EXPECT_EQ(rounds.length.ms(), 40);
  rounds.length.SlowDown(false);
  EXPECT_EQ(rounds.length.ms(), 10);
}

}  // namespace
}  // namespace slotscope
