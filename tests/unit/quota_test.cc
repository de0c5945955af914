// SPDX-License-Identifier: MIT
// What of a wait was due to a quota, by the rule of <slotscope/quota.h>, against one that looks at each
// nanosecond.
#include <slotscope/quota.h>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace slotscope {
namespace {

struct Piece {
  uint64_t begin_ns, end_ns, from_ns, to_ns;
};

struct Cut {
  std::vector<Piece> pieces;  // the last one first
  uint64_t left_ns;           // [begin, there) is in no piece
  bool is_known;
};

Cut CutOf(const ss_quota& quota, uint64_t begin_ns, uint64_t end_ns, bool by_thread) {
  ss_quota_cut cut = {begin_ns, end_ns, by_thread, 0};
  Cut result = {};
  for (uint32_t back = 0; back < SS_QUOTA_KEPT; back++) {
    __u64 piece_end_ns = 0;
    ss_quota_time time = {};
    const ss_quota_verdict verdict = ss_quota_cut_step(&quota, &cut, back, &piece_end_ns, &time);
    if (verdict == SS_QUOTA_DONE) break;
    if (verdict == SS_QUOTA_PIECE)
      result.pieces.push_back({cut.at_ns, piece_end_ns, time.from_ns, time.to_ns});
  }
  result.left_ns = cut.at_ns;
  result.is_known = cut.is_known;
  return result;
}

struct Times {
  ss_quota quota = {};
  std::vector<ss_quota_time> all;
  void Add(uint64_t from_ns, uint64_t to_ns) {
    ss_quota_begin(&quota, from_ns);
    ss_quota_end(&quota, to_ns);
    all.push_back({from_ns, to_ns});
  }
};

TEST(Quota, EveryNanosecondOfAWaitIsThrottledOrNot) {
  std::mt19937_64 random(7);
  const auto below = [&](uint64_t n) { return random() % n; };
  uint64_t nr_pieces = 0, nr_unknown = 0;
  for (int round = 0; round < 20'000; round++) {
    Times times;
    uint64_t at_ns = 1000;
    for (uint64_t nr = below(30); nr-- > 0;) {
      const uint64_t from_ns = at_ns + below(20);
      at_ns = from_ns + 1 + below(20);
      times.Add(from_ns, at_ns);
      at_ns += below(3);
    }
    const uint64_t begin_ns = 990 + below(at_ns - 980), end_ns = begin_ns + 1 + below(at_ns - 900);
    const Cut cut = CutOf(times.quota, begin_ns, end_ns, false);
    std::vector<bool> is_told(end_ns - begin_ns), is_throttled(end_ns - begin_ns);
    uint64_t last_ns = end_ns;
    for (const Piece& piece : cut.pieces) {
      ASSERT_EQ(piece.end_ns, last_ns) << "one in front of the other";
      ASSERT_LE(piece.begin_ns, piece.from_ns);
      ASSERT_LT(piece.from_ns, piece.to_ns);
      ASSERT_LE(piece.to_ns, piece.end_ns);
      last_ns = piece.begin_ns;
      for (uint64_t ns = piece.begin_ns; ns < piece.end_ns; ns++) is_told[ns - begin_ns] = true;
      for (uint64_t ns = piece.from_ns; ns < piece.to_ns; ns++) is_throttled[ns - begin_ns] = true;
    }
    ASSERT_EQ(cut.left_ns, last_ns);
    nr_pieces += cut.pieces.size();
    nr_unknown += !cut.is_known;
    for (uint64_t ns = begin_ns; ns < end_ns; ns++) {
      bool truth = false;
      for (const ss_quota_time& time : times.all) truth |= ns >= time.from_ns && ns < time.to_ns;
      if (ns >= last_ns || cut.is_known) {
        ASSERT_EQ(is_throttled[ns - begin_ns], truth) << round << " at " << ns;
      }
    }
    if (!cut.is_known) {
      ASSERT_GT(times.all.size(), SS_QUOTA_KEPT);
    }
  }
  EXPECT_GT(nr_pieces, 50'000u);
  EXPECT_GT(nr_unknown, 100u);
}

// Each thread by itself: who was not throttled when it was switched out is not later on.
TEST(Quota, AThreadIsThrottledUntilItsGroupMayRunAgain) {
  constexpr uint64_t kMs = 1'000'000;
  Times times;
  times.Add(50 * kMs, 99 * kMs);
  times.Add(100 * kMs, 200 * kMs);
  times.Add(200 * kMs + 10, 400 * kMs);
  const Cut cut = CutOf(times.quota, 150 * kMs, 500 * kMs, true);
  ASSERT_EQ(cut.pieces.size(), 1u);
  EXPECT_EQ(cut.pieces[0].begin_ns, 150 * kMs);
  EXPECT_EQ(cut.pieces[0].end_ns, 500 * kMs);
  EXPECT_EQ(cut.pieces[0].from_ns, 150 * kMs);
  EXPECT_EQ(cut.pieces[0].to_ns, 200 * kMs) << "the next time it was not";
  const Cut none = CutOf(times.quota, 420 * kMs, 500 * kMs, true);
  EXPECT_TRUE(none.pieces.empty() && none.is_known);
  EXPECT_EQ(none.left_ns, 500 * kMs);
  // It ran for 10 ns in between.
  const Cut again = CutOf(times.quota, 200 * kMs - 5'000, 500 * kMs, true);
  ASSERT_EQ(again.pieces.size(), 1u);
  EXPECT_EQ(again.pieces[0].to_ns, 400 * kMs);
}

// Two clocks: it may seem to have waited a little before its group was throttled.
TEST(Quota, AThreadThatWasThrottledIsFromTheStart) {
  Times times;
  times.Add(10'000'000, 90'000'000);
  const Cut cut = CutOf(times.quota, 9'990'000, 95'000'000, true);
  ASSERT_EQ(cut.pieces.size(), 1u);
  EXPECT_EQ(cut.pieces[0].from_ns, 9'990'000u);
  const Cut other = CutOf(times.quota, 8'000'000, 95'000'000, true);
  EXPECT_TRUE(other.pieces.empty()) << "that was another queue's";
}

TEST(Quota, WhatBeganBeforeWeLookedIsThrottledFromTheStart) {
  ss_quota quota = {};
  ss_quota_end(&quota, 200);
  const Cut cut = CutOf(quota, 50, 300, false);
  ASSERT_EQ(cut.pieces.size(), 1u);
  EXPECT_EQ(cut.pieces[0].from_ns, 50u);
  EXPECT_EQ(cut.pieces[0].to_ns, 200u);
  // One whose beginning was missed later on begins where the last one ended.
  ss_quota_end(&quota, 400);
  const Cut second = CutOf(quota, 150, 500, false);
  ASSERT_EQ(second.pieces.size(), 2u);
  EXPECT_EQ(second.pieces[0].from_ns, 200u);
  EXPECT_EQ(second.pieces[1].to_ns, 200u);
}

}  // namespace
}  // namespace slotscope
