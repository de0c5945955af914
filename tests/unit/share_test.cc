// SPDX-License-Identifier: MIT
// kmod/share.c, as the module compiles it.
extern "C" {
#include "kmod/share.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace slotscope {
namespace {

constexpr uint64_t kNow = 1'000'000'000'000;
constexpr uint64_t kMs = 1'000'000;

struct Machine {
  uint32_t nr_rmids = 512;
  std::vector<ss_holder> holders;
  std::vector<ss_wanter> wanters;
  ss_limits limits = {};
  ss_key_set keys = {};

  // `count` holders that ran `quiet_ms` ago, the next ones a nanosecond earlier each.
  void Hold(uint32_t count, uint64_t quiet_ms, uint32_t uid, uint64_t cgroup_id = 1) {
    for (uint32_t i = 0; i < count; i++) {
      ss_holder holder = {};
      holder.ran_ns = kNow - quiet_ms * kMs - holders.size();
      holder.uid = uid;
      holder.cgroup_id = cgroup_id;
      holder.slot = static_cast<uint32_t>(holders.size());
      holders.push_back(holder);
    }
  }
  void Want(uint32_t uid, uint64_t cgroup_id = 1, bool first = false, uint64_t ago_ms = 5) {
    wanters.push_back({kNow - ago_ms * kMs, cgroup_id, uid, first});
  }
  uint32_t Choose() {
    const ss_shortage all = {holders.data(),
                             wanters.data(),
                             &keys,
                             static_cast<uint32_t>(holders.size()),
                             static_cast<uint32_t>(wanters.size()),
                             nr_rmids,
                             nr_rmids - 1 - static_cast<uint32_t>(holders.size()),
                             kNow};
    return ss_share_choose(&all, &limits);
  }
  std::vector<uint32_t> Taken() const {
    std::vector<uint32_t> taken;
    for (const ss_holder& holder : holders)
      if (holder.take) taken.push_back(holder.slot);
    return taken;
  }
  uint32_t NrTaken(uint32_t uid) const {
    return static_cast<uint32_t>(
        std::count_if(holders.begin(), holders.end(),
                      [&](const ss_holder& one) { return one.take && one.uid == uid; }));
  }
  bool IsLimited(uint32_t uid, uint64_t cgroup_id = 1, bool first = false) const {
    return ss_share_is_limited(&limits, uid, cgroup_id, first);
  }
};

TEST(Share, TheReserveIsASixteenthAndAtLeastTwo) {
  EXPECT_EQ(ss_share_reserve(512), 32u);
  EXPECT_EQ(ss_share_reserve(64), 4u);
  EXPECT_EQ(ss_share_reserve(20), 2u);
  EXPECT_EQ(ss_share_reserve(2), 2u);
}

TEST(Share, WhileEnoughAreFreeNobodyLosesOne) {
  Machine machine;
  machine.Hold(511 - 32, 1000000, 1);
  EXPECT_EQ(machine.Choose(), 0u);
  EXPECT_EQ(machine.Taken().size(), 0u);
}

TEST(Share, ThoseThatHaveNotRunForLongestFillTheReserve) {
  Machine machine;
  machine.Hold(400, 2000, 1);
  machine.Hold(111, 500, 1);
  EXPECT_EQ(machine.Choose(), 32u);
  std::vector<uint32_t> expected(32);
  for (uint32_t i = 0; i < 32; i++) expected[i] = 400 - 32 + i;  // the last of them ran first
  EXPECT_EQ(machine.Taken(), expected);
  EXPECT_FALSE(machine.IsLimited(1));
}

TEST(Share, WhoRunsOrWasSelectedOrRanWithinASecondKeepsIts) {
  Machine machine;
  machine.Hold(511, 2000, 1);
  for (ss_holder& holder : machine.holders) {
    holder.runs = holder.slot % 3 == 0;
    holder.first = holder.slot % 3 == 1;
    if (holder.slot % 3 == 2 && holder.slot > 10) holder.ran_ns = kNow - 999 * kMs;
  }
  EXPECT_EQ(machine.Choose(), 3u);
  EXPECT_EQ(machine.Taken(), (std::vector<uint32_t>{2, 5, 8}));
}

// All of them run every half second: nobody is idle, and without shares nobody else would ever get one.
TEST(Share, AUserGivesBackWhatIsAboveItsShareAndGetsNoneMeanwhile) {
  Machine machine;
  machine.Hold(511, 300, 1);
  machine.Want(2);
  EXPECT_EQ(machine.Choose(), 32u);
  EXPECT_TRUE(machine.IsLimited(1));
  EXPECT_FALSE(machine.IsLimited(2));
  EXPECT_FALSE(machine.IsLimited(1, 1, true));
}

TEST(Share, ACgroupToo) {
  Machine machine;
  machine.Hold(511, 300, 0, 77);
  machine.Want(0, 78);
  EXPECT_EQ(machine.Choose(), 32u);
  EXPECT_TRUE(machine.IsLimited(0, 77));
  EXPECT_FALSE(machine.IsLimited(0, 78));
}

TEST(Share, NobodyIsTakenBelowItsShare) {
  Machine machine;
  machine.nr_rmids = 64;
  machine.Hold(32, 300, 1);
  machine.Hold(31, 300, 2);
  EXPECT_EQ(machine.Choose(), 1u);  // 63 / 2 is 31
  EXPECT_EQ(machine.NrTaken(1), 1u);
  EXPECT_EQ(machine.NrTaken(2), 0u);
}

TEST(Share, WithOneUserAndCgroupThereIsNobodyToShareWith) {
  Machine machine;
  machine.Hold(511, 300, 1);
  machine.Want(1);
  EXPECT_EQ(machine.Choose(), 0u);
  EXPECT_FALSE(machine.IsLimited(1));
}

TEST(Share, AWishIsOverAfterASecond) {
  Machine machine;
  machine.Hold(511, 300, 1);
  machine.Want(2, 1, false, 1001);
  EXPECT_EQ(machine.Choose(), 0u);
}

TEST(Share, NobodyLosesItWithinTenMillisecondsOfItsLastRun) {
  Machine machine;
  machine.Hold(511, 9, 1);
  machine.Want(2);
  EXPECT_EQ(machine.Choose(), 0u);
  EXPECT_TRUE(machine.IsLimited(1));  // but it gets no more
}

TEST(Share, WhoWasSelectedIsServedBeforeOthers) {
  Machine machine;
  machine.Hold(511, 300, 1);
  machine.Want(1, 1, true);
  EXPECT_EQ(machine.Choose(), 32u);
  EXPECT_TRUE(machine.limits.only_first);
  EXPECT_TRUE(machine.IsLimited(1));
  EXPECT_FALSE(machine.IsLimited(1, 1, true));
}

TEST(Share, LimitsEndWhenTwiceTheReserveIsFree) {
  Machine machine;
  machine.Hold(511 - 63, 300, 1);
  machine.Want(2);
  EXPECT_EQ(machine.Choose(), 0u);
  EXPECT_TRUE(machine.IsLimited(1));
  machine.holders.pop_back();
  EXPECT_EQ(machine.Choose(), 0u);
  EXPECT_FALSE(machine.IsLimited(1));
}

// Whatever the machine: never one that runs, was selected or has just run; never more than asked for;
// never below a share; and the quietest first.
TEST(Share, RandomMachines) {
  std::mt19937_64 random(16);
  auto below = [&](uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 3000; round++) {
    Machine machine;
    machine.nr_rmids = static_cast<uint32_t>(2 + below(511));
    const uint64_t nr_users = 1 + below(5), nr_cgroups = 1 + below(4);
    const auto nr_held = static_cast<uint32_t>(below(machine.nr_rmids));
    for (uint32_t i = 0; i < nr_held; i++) {
      machine.Hold(1, below(3000), static_cast<uint32_t>(below(nr_users)), below(nr_cgroups));
      machine.holders.back().runs = below(10) == 0;
      machine.holders.back().first = below(20) == 0;
    }
    for (uint64_t i = below(4); i > 0; i--)
      machine.Want(static_cast<uint32_t>(below(nr_users + 1)), below(nr_cgroups), below(5) == 0,
                   below(1500));
    const uint32_t nr_free = machine.nr_rmids - 1 - nr_held,
                   reserve = ss_share_reserve(machine.nr_rmids);
    const uint32_t nr_taken = machine.Choose();
    ASSERT_EQ(nr_taken, machine.Taken().size());
    ASSERT_LE(nr_taken, nr_free < 2 * reserve ? reserve : 0);
    std::map<uint32_t, uint32_t> by_user;
    uint64_t longest_kept = 0;
    for (const ss_holder& one : machine.holders) {
      const uint64_t quiet_ns = kNow - one.ran_ns;
      if (!one.take) {
        by_user[one.uid]++;
        if (!one.runs && !one.first) longest_kept = std::max(longest_kept, quiet_ns);
        continue;
      }
      ASSERT_FALSE(one.runs || one.first);
      ASSERT_GE(quiet_ns, SS_SHARE_QUIET_NS);
    }
    for (const ss_holder& one : machine.holders) {
      if (!one.take || kNow - one.ran_ns < SS_SHARE_IDLE_NS || longest_kept < SS_SHARE_IDLE_NS) continue;
      // Some idle one was kept: then the idle were enough, and nobody lost it by its share.
      ASSERT_EQ(nr_taken, reserve - std::min(nr_free, reserve)) << round;
    }
  }
}

}  // namespace
}  // namespace slotscope
