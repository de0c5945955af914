// SPDX-License-Identifier: MIT
// The RMID free list against an obvious model: a std::deque and plain arrays.
#include <gtest/gtest.h>
#include <slotscope/rmid_fifo.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace {

constexpr uint64_t kLimboNs = SS_RMID_LIMBO_NS;

class Fifo {
 public:
  explicit Fifo(uint32_t nr_rmids, uint64_t limbo_ns = kLimboNs) {
    ss_rmid_fifo_init(fifo_.get(), nr_rmids, limbo_ns);
  }
  // Each returns what the fifo said; the time that came back is in now_ns().
  int Alloc(uint64_t now_ns) {
    now_ns_ = now_ns;
    return ss_rmid_fifo_alloc(fifo_.get(), &now_ns_);
  }
  int Free(uint32_t rmid, uint64_t now_ns) {
    now_ns_ = now_ns;
    return ss_rmid_fifo_free(fifo_.get(), rmid, &now_ns_);
  }
  bool MayAlloc(uint64_t now_ns) const { return ss_rmid_fifo_may_alloc(fifo_.get(), now_ns); }
  uint64_t now_ns() const { return now_ns_; }
  ss_rmid_fifo& raw() { return *fifo_; }
  const ss_rmid_fifo& raw() const { return *fifo_; }
  bool operator==(const Fifo& other) const {
    return std::memcmp(fifo_.get(), other.fifo_.get(), sizeof(ss_rmid_fifo)) == 0;
  }
  Fifo(const Fifo& other) : fifo_(std::make_unique<ss_rmid_fifo>(*other.fifo_)) {}

 private:
  std::unique_ptr<ss_rmid_fifo> fifo_ = std::make_unique<ss_rmid_fifo>();
  __u64 now_ns_ = 0;
};

// What the list should do, written for reading.
class Model {
 public:
  explicit Model(uint32_t nr_rmids) : live(nr_rmids), generation(nr_rmids), freed_at_ns(nr_rmids) {
    for (uint32_t rmid = 1; rmid < nr_rmids; rmid++) queue.push_back(rmid);
  }
  uint64_t Clamp(uint64_t now_ns) { return last_ns = std::max(last_ns, now_ns); }
  int Alloc(uint64_t now_ns) {
    now_ns = Clamp(now_ns);
    if (queue.empty()) return SS_RMID_NONE_FREE;
    uint32_t rmid = queue.front();
    if (generation[rmid] > 0 && now_ns < freed_at_ns[rmid] + kLimboNs) return SS_RMID_IN_LIMBO;
    queue.pop_front();
    live[rmid] = true;
    generation[rmid]++;
    return static_cast<int>(rmid);
  }
  int Free(uint32_t rmid, uint64_t now_ns) {
    now_ns = Clamp(now_ns);
    if (rmid == 0 || rmid >= live.size() || !live[rmid]) return SS_RMID_NOT_LIVE;
    live[rmid] = false;
    freed_at_ns[rmid] = now_ns;
    queue.push_back(rmid);
    return 0;
  }

  std::deque<uint32_t> queue;
  std::vector<bool> live;
  std::vector<uint32_t> generation;
  std::vector<uint64_t> freed_at_ns;
  uint64_t last_ns = 0;
};

// Every RMID is live, or exactly once in the queue, which is in the order of time.
void ExpectInvariants(const ss_rmid_fifo& fifo) {
  std::vector<int> seen(SS_RMID_CAPACITY);
  uint32_t nr_live = 0;
  for (uint32_t rmid = 0; rmid < SS_RMID_CAPACITY; rmid++) {
    seen[rmid] += fifo.live[rmid];
    nr_live += fifo.live[rmid];
  }
  uint64_t previous_ns = 0;
  for (uint32_t i = 0; i < fifo.count; i++) {
    const ss_rmid_entry& entry = fifo.queue[(fifo.head + i) % SS_RMID_CAPACITY];
    ASSERT_LT(entry.rmid, fifo.nr_rmids);
    seen[entry.rmid]++;
    if (fifo.generation[entry.rmid] == 0) continue;
    ASSERT_LE(previous_ns, entry.freed_at_ns);
    previous_ns = entry.freed_at_ns;
  }
  ASSERT_LE(previous_ns, fifo.last_ns);
  ASSERT_EQ(nr_live + fifo.count, fifo.nr_rmids - 1);
  for (uint32_t rmid = 0; rmid < SS_RMID_CAPACITY; rmid++)
    ASSERT_EQ(seen[rmid], rmid > 0 && rmid < fifo.nr_rmids) << "rmid " << rmid;
}

void CompareWithModel(uint32_t nr_rmids, uint32_t managed, int nr_operations) {
  std::mt19937_64 random(nr_rmids);
  Fifo fifo(nr_rmids);
  Model model(managed);
  std::vector<uint32_t> owned;                   // by us, in any order
  std::vector<uint64_t> given_back_ns(managed);  // 0: never
  std::vector<bool> is_owned(managed);
  uint64_t clock_ns = 1'000'000'000;
  uint64_t nr_done = 0;
  int nr_limbo = 0, nr_none = 0, nr_backwards = 0, nr_refused = 0;

  for (int i = 0; i < nr_operations; i++) {
    uint64_t dice = random();
    // Bursts that drain the list, bursts that fill it, and pauses longer than the limbo.
    bool prefer_alloc = (i >> 12) % 2 == 0;
    clock_ns += dice % 20'000;
    if ((dice >> 20) % 512 == 0) clock_ns += 3'000'000;
    uint64_t now_ns = clock_ns;
    if ((dice >> 32) % 8 == 0) now_ns -= (dice >> 36) % 1'000'000;  // another CPU's clock read
    nr_backwards += now_ns < model.last_ns;

    if ((dice >> 56) % 4 < (prefer_alloc ? 3u : 1u)) {
      bool may = fifo.MayAlloc(std::max(now_ns, model.last_ns));
      int rmid = fifo.Alloc(now_ns);
      ASSERT_EQ(rmid, model.Alloc(now_ns)) << "operation " << i;
      ASSERT_EQ(may, rmid > 0) << "operation " << i;
      nr_limbo += rmid == SS_RMID_IN_LIMBO;
      nr_none += rmid == SS_RMID_NONE_FREE;
      if (rmid > 0) {
        auto index = static_cast<uint32_t>(rmid);
        ASSERT_LT(index, managed);
        ASSERT_FALSE(is_owned[index]) << "two owners";
        if (given_back_ns[index]) {
          ASSERT_GE(fifo.now_ns(), given_back_ns[index] + kLimboNs);
        }
        ASSERT_EQ(fifo.raw().generation[index], model.generation[index]);
        is_owned[index] = true;
        owned.push_back(index);
        nr_done++;
      }
    } else if ((dice >> 50) % 16 == 0 || owned.empty()) {
      auto rmid = static_cast<uint32_t>((dice >> 8) % (SS_RMID_CAPACITY + 8));
      if (rmid < managed && is_owned[rmid]) rmid = 0;
      ASSERT_EQ(fifo.Free(rmid, now_ns), SS_RMID_NOT_LIVE);
      ASSERT_EQ(model.Free(rmid, now_ns), SS_RMID_NOT_LIVE);
      nr_refused++;
    } else {
      size_t at = (dice >> 8) % owned.size();
      uint32_t rmid = owned[at];
      owned[at] = owned.back();
      owned.pop_back();
      ASSERT_EQ(fifo.Free(rmid, now_ns), 0);
      ASSERT_EQ(model.Free(rmid, now_ns), 0);
      is_owned[rmid] = false;
      given_back_ns[rmid] = fifo.now_ns();
      nr_done++;
    }
    ASSERT_EQ(fifo.now_ns(), model.last_ns);
    ASSERT_EQ(fifo.raw().count + owned.size(), managed - 1) << "an RMID was lost";
    ASSERT_EQ(fifo.raw().seq, nr_done);
    if (i % 8192 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectInvariants(fifo.raw()));
    }
  }
  // The walk has been where it should be.
  EXPECT_GT(nr_limbo, 0);
  EXPECT_GT(nr_none, 0);
  EXPECT_GT(nr_backwards, 0);
  EXPECT_GT(nr_refused, 0);
}

TEST(RmidFifo, DoesAsTheModelOverMillionsOfOperations) {
  struct {
    uint32_t nr_rmids, managed;
    int nr_operations;
  } const cases[] = {
      {2, 2, 500'000},        //
      {3, 3, 500'000},        //
      {64, 64, 1'000'000},    //
      {511, 511, 500'000},    //
      {512, 512, 1'000'000},  //
      {513, 512, 1'000'000},  //
      {UINT32_MAX, 512, 1'000'000},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.nr_rmids);
    ASSERT_NO_FATAL_FAILURE(CompareWithModel(c.nr_rmids, c.managed, c.nr_operations));
  }
}

TEST(RmidFifo, GivesOutFirstFreedFirst) {
  Fifo fifo(4);
  for (int rmid : {1, 2, 3}) EXPECT_EQ(fifo.Alloc(0), rmid);
  for (uint32_t rmid : {2u, 3u, 1u}) EXPECT_EQ(fifo.Free(rmid, 10), 0);
  for (int rmid : {2, 3, 1}) EXPECT_EQ(fifo.Alloc(10 + kLimboNs), rmid);
}

TEST(RmidFifo, ReusesNothingBeforeItsLimboIsOver) {
  Fifo fifo(2);
  ASSERT_EQ(fifo.Alloc(5), 1);
  ASSERT_EQ(fifo.Free(1, 1000), 0);
  EXPECT_EQ(fifo.Alloc(1000), SS_RMID_IN_LIMBO);
  EXPECT_EQ(fifo.Alloc(1000 + kLimboNs - 1), SS_RMID_IN_LIMBO);
  EXPECT_EQ(fifo.Alloc(1000 + kLimboNs), 1);
}

TEST(RmidFifo, SaysInLimboAndNoneFreeApart) {
  Fifo fifo(2);
  ASSERT_EQ(fifo.Alloc(5), 1);
  EXPECT_EQ(fifo.Alloc(5), SS_RMID_NONE_FREE);
  ASSERT_EQ(fifo.Free(1, 5), 0);
  EXPECT_EQ(fifo.Alloc(5), SS_RMID_IN_LIMBO);
  EXPECT_NE(SS_RMID_NONE_FREE, SS_RMID_IN_LIMBO);
}

TEST(RmidFifo, NeverUsedRmidsHaveNoLimboEvenAtTimeZero) {
  Fifo fifo(SS_RMID_CAPACITY);
  for (int rmid = 1; rmid < 512; rmid++) {
    EXPECT_TRUE(fifo.MayAlloc(0));
    ASSERT_EQ(fifo.Alloc(0), rmid);
  }
  EXPECT_EQ(fifo.Alloc(0), SS_RMID_NONE_FREE);
}

TEST(RmidFifo, UsesTheLimboItWasGiven) {
  Fifo fifo(2, 20'000'000);
  ASSERT_EQ(fifo.Alloc(0), 1);
  ASSERT_EQ(fifo.Free(1, 0), 0);
  EXPECT_EQ(fifo.Alloc(20'000'000 - 1), SS_RMID_IN_LIMBO);
  EXPECT_EQ(fifo.Alloc(20'000'000), 1);
}

TEST(RmidFifo, RefusesAWrongFreeAndChangesNothing) {
  Fifo fifo(16);
  for (int i = 0; i < 3; i++) fifo.Alloc(100);
  ASSERT_EQ(fifo.Free(2, 100), 0);
  const struct {
    const char* what;
    uint32_t rmid;
  } cases[] = {
      {"0 is reserved", 0},
      {"freed already", 2},
      {"never handed out", 4},
      {"the last managed one, never handed out", 15},
      {"first above nr_rmids", 16},
      {"last of the arrays", 511},
      {"first out of the arrays", 512},
      {"aliases 1 under the mask", 513},
      {"-1", UINT32_MAX},
  };
  for (const auto& c : cases) {
    Fifo before(fifo);
    EXPECT_EQ(fifo.Free(c.rmid, 100), SS_RMID_NOT_LIVE) << c.what;
    EXPECT_TRUE(fifo == before) << c.what;
  }
}

TEST(RmidFifo, ARefusedAllocationOnlyRaisesTheTime) {
  Fifo fifo(2);
  ASSERT_EQ(fifo.Alloc(100), 1);
  Fifo none_free(fifo);
  EXPECT_EQ(fifo.Alloc(200), SS_RMID_NONE_FREE);
  none_free.raw().last_ns = 200;
  EXPECT_TRUE(fifo == none_free);
  ASSERT_EQ(fifo.Free(1, 300), 0);
  Fifo in_limbo(fifo);
  EXPECT_EQ(fifo.Alloc(400), SS_RMID_IN_LIMBO);
  in_limbo.raw().last_ns = 400;
  EXPECT_TRUE(fifo == in_limbo);
}

TEST(RmidFifo, GenerationGoesUpByOnePerAllocationAndWraps) {
  Fifo fifo(2);
  fifo.raw().generation[1] = UINT32_MAX - 1;
  uint64_t now_ns = 10 * kLimboNs;
  for (uint32_t expected : {UINT32_MAX, 0u, 1u, 2u}) {
    ASSERT_EQ(fifo.Alloc(now_ns), 1);
    EXPECT_EQ(fifo.raw().generation[1], expected);
    ASSERT_EQ(fifo.Free(1, now_ns), 0);
    EXPECT_EQ(fifo.raw().generation[1], expected) << "a free is no new generation";
    now_ns += kLimboNs;
  }
}

TEST(RmidFifo, TimeThatGoesBackwardsIsRaisedToTheLargestSeen) {
  Fifo fifo(3);
  ASSERT_EQ(fifo.Alloc(1000), 1);
  EXPECT_EQ(fifo.Alloc(400), 2);
  EXPECT_EQ(fifo.now_ns(), 1000u);
  EXPECT_EQ(fifo.Free(1, 10), 0);
  EXPECT_EQ(fifo.now_ns(), 1000u);
  EXPECT_EQ(fifo.Alloc(10 + kLimboNs), SS_RMID_IN_LIMBO) << "the limbo starts at the raised time";
  EXPECT_EQ(fifo.Alloc(1000 + kLimboNs), 1);
}

TEST(RmidFifo, SmallAndTooLargeTables) {
  const struct {
    uint32_t nr_rmids;
    int nr_allocs;
  } cases[] = {
      {0, 0},      //
      {1, 0},      //
      {2, 1},      //
      {3, 2},      //
      {511, 510},  //
      {512, 511},  //
      {513, 511},  //
      {UINT32_MAX, 511},
  };
  for (const auto& c : cases) {
    Fifo fifo(c.nr_rmids);
    int nr_allocs = 0;
    while (fifo.Alloc(0) > 0) nr_allocs++;
    EXPECT_EQ(nr_allocs, c.nr_allocs) << c.nr_rmids;
    EXPECT_EQ(fifo.Alloc(0), SS_RMID_NONE_FREE) << c.nr_rmids;
  }
}

TEST(RmidFifo, HintAgreesWithAlloc) {
  Fifo fifo(2);
  EXPECT_TRUE(fifo.MayAlloc(0));
  ASSERT_EQ(fifo.Alloc(0), 1);
  EXPECT_FALSE(fifo.MayAlloc(0)) << "none free";
  ASSERT_EQ(fifo.Free(1, 1000), 0);
  EXPECT_FALSE(fifo.MayAlloc(1000));
  EXPECT_FALSE(fifo.MayAlloc(1000 + kLimboNs - 1));
  EXPECT_TRUE(fifo.MayAlloc(1000 + kLimboNs));
}

// Another CPU freed it after this one had read its clock.
TEST(RmidFifo, HintAgreesWithAllocWhereTheClockIsBehindTheFree) {
  Fifo fifo(2);
  ASSERT_EQ(fifo.Alloc(0), 1);
  ASSERT_EQ(fifo.Free(1, 5000), 0);
  EXPECT_FALSE(fifo.MayAlloc(4999));
  EXPECT_EQ(fifo.Alloc(4999), SS_RMID_IN_LIMBO);
}

}  // namespace
