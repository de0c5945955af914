// SPDX-License-Identifier: MIT
// Who waits for whom in collectives.
#include "detect/patterns/nccl_hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "detect/inputs/fr_folder.h"
#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kBegin = 1'700'000'000 * kS;

// Dumps of a job, rank by rank.
struct Job {
  struct Op {
    int64_t sequence;
    FrState state;
    int64_t at_s = 0;
    std::string group = "0";
    std::optional<int64_t> timeout_s = {};
    std::string operation = "nccl:all_reduce";
    bool is_p2p = false;
  };

  Job& Rank(int32_t rank, const std::vector<Op>& ops) {
    FrDump dump;
    for (const Op& op : ops) {
      FrEntry entry;
      entry.group = static_cast<uint32_t>(dump.groups.size());
      dump.groups.push_back({op.group, "group " + op.group, members[op.group]});
      entry.operation = static_cast<uint32_t>(dump.operations.size());
      dump.operations.push_back(op.operation);
      (op.is_p2p ? entry.p2p_sequence : entry.sequence) = op.sequence;
      entry.created_ns = kBegin + op.at_s * kS;
      entry.state = op.state;
      entry.is_p2p = op.is_p2p;
      if (op.timeout_s) entry.timeout_ms = *op.timeout_s * 1000;
      dump.entries.push_back(entry);
    }
    records.Add(rank, dump);
    return *this;
  }
  std::vector<NcclHang> After(int64_t seconds, int64_t threshold_s = 300) const {
    return FindNcclHangs(records, {threshold_s * kS, NcclClock::kAsOf, kBegin + seconds * kS});
  }
  std::vector<NcclHang> AsDumped(int64_t threshold_s = 300) const {
    return FindNcclHangs(records, {threshold_s * kS, NcclClock::kDumps, 0});
  }

  std::map<std::string, std::vector<int32_t>> members = {{"0", {0, 1, 2, 3}}, {"1", {0, 1, 2, 3}}};
  NcclRecords records;
};

constexpr FrState kScheduled = FrState::kScheduled;
constexpr FrState kStarted = FrState::kStarted;
constexpr FrState kCompleted = FrState::kCompleted;

std::vector<int32_t> SuspectsOf(const NcclHang& hang) {
  std::vector<int32_t> ranks;
  for (const NcclSuspect& suspect : hang.suspects) ranks.push_back(suspect.rank);
  return ranks;
}

// ---- the eight cases of the pattern

TEST(NcclHang, ThreeRanksHang) {
  Job job;
  for (int32_t rank : {0, 1, 2}) job.Rank(rank, {{7, kStarted}});
  job.Rank(3, {{6, kCompleted}});
  const auto hangs = job.After(301);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_EQ(hangs[0].sequence, 7);
  EXPECT_THAT(hangs[0].hanging_ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(SuspectsOf(hangs[0]), ElementsAre(3));
  EXPECT_EQ(hangs[0].age_ns, 301 * kS);
  EXPECT_EQ(hangs[0].limit_ns, 300 * kS);
}

TEST(NcclHang, AllCompleted) {
  Job job;
  for (int32_t rank : {0, 1, 2, 3}) job.Rank(rank, {{7, kCompleted}});
  EXPECT_THAT(job.After(1000), IsEmpty());
}

TEST(NcclHang, AStragglerUnderTheThreshold) {
  Job job;
  job.Rank(0, {{7, kStarted}}).Rank(1, {{7, kStarted, 1}}).Rank(2, {{7, kCompleted}});
  EXPECT_THAT(job.After(299), IsEmpty());
  EXPECT_THAT(job.After(300), IsEmpty()) << "only one of them has waited for long enough";
  EXPECT_EQ(job.After(301).size(), 1u);
}

TEST(NcclHang, ASoloRankDoesNotHang) {
  Job job;
  job.Rank(0, {{7, kStarted}}).Rank(1, {{7, kCompleted}}).Rank(2, {{7, kCompleted}});
  EXPECT_THAT(job.After(1000), IsEmpty());
}

TEST(NcclHang, TheThresholdIsConfigurable) {
  Job job;
  job.Rank(0, {{7, kStarted}}).Rank(1, {{7, kStarted}});
  EXPECT_THAT(job.After(9, 10), IsEmpty());
  EXPECT_EQ(job.After(10, 10).size(), 1u);
}

TEST(NcclHang, TheOrderIsAlwaysTheSame) {
  Job job;
  for (int32_t rank : {3, 1, 0, 2})
    job.Rank(rank, {{9, kStarted, 5}, {8, kStarted, 4}, {8, kStarted, 1, "1"}, {9, kStarted, 2, "1"}});
  std::vector<std::pair<int64_t, std::string>> order;
  for (const NcclHang& hang : job.After(1000)) {
    order.emplace_back(hang.sequence, hang.group.name);
    EXPECT_THAT(hang.hanging_ranks, ElementsAre(0, 1, 2, 3));
  }
  EXPECT_THAT(order,
              ElementsAre(std::pair(8, "1"), std::pair(8, "0"), std::pair(9, "1"), std::pair(9, "0")));
}

TEST(NcclHang, CollectivesAreNotJoinedWithOthers) {
  Job job;
  job.Rank(0, {{7, kStarted}}).Rank(1, {{8, kStarted}}).Rank(2, {{7, kStarted, 0, "1"}});
  EXPECT_THAT(job.After(1000), IsEmpty());
}

TEST(NcclHang, ALaterCompletedCounts) {
  Job job;
  job.Rank(0, {{7, kStarted}, {7, kCompleted, 1}}).Rank(1, {{7, kStarted}});
  EXPECT_THAT(job.After(1000), IsEmpty());
  job.Rank(2, {{7, kCompleted}, {7, kStarted, 1}});
  EXPECT_EQ(job.After(1000).size(), 1u) << "and a later started as well";
}

// ---- as real dumps are

TEST(NcclHang, ScheduledIsInFlight) {
  Job job;
  job.Rank(0, {{7, kScheduled}}).Rank(1, {{7, kScheduled}});
  EXPECT_EQ(job.After(1000).size(), 1u);
}

// Only what is in flight was dumped: who is beyond lacks the older ones, because they are done.
TEST(NcclHang, WhoHasGoneOnIsNoSuspect) {
  Job job;
  job.Rank(0, {{7, kScheduled}, {8, kScheduled}}).Rank(2, {{7, kScheduled}, {8, kScheduled}});
  job.Rank(1, {{8, kScheduled}}).Rank(3, {{8, kScheduled}});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 2u);
  EXPECT_THAT(hangs[0].hanging_ranks, ElementsAre(0, 2));
  EXPECT_THAT(hangs[1].hanging_ranks, ElementsAre(0, 1, 2, 3));
  for (const NcclHang& hang : hangs) {
    EXPECT_THAT(SuspectsOf(hang), ElementsAre(0, 2)) << hang.sequence;
    EXPECT_EQ(hang.suspects[0].why, NcclSuspect::Why::kBehind);
    EXPECT_EQ(hang.suspects[0].sequence, 7);
  }
}

TEST(NcclHang, WhoHasNothingAtAllIsASuspectAndWhoHasNoDumpIsNot) {
  Job job;
  job.Rank(0, {{7, kScheduled}}).Rank(1, {{7, kScheduled}}).Rank(2, {});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_THAT(SuspectsOf(hangs[0]), ElementsAre(2));
  EXPECT_EQ(hangs[0].suspects[0].why, NcclSuspect::Why::kLacks);
  EXPECT_THAT(hangs[0].unknown_ranks, ElementsAre(3));
}

TEST(NcclHang, WhereAllAreAtTheSamePointNoneIsASuspect) {
  Job job;
  for (int32_t rank : {0, 1, 2, 3}) job.Rank(rank, {{7, kStarted}, {8, kScheduled}});
  ASSERT_EQ(job.After(1000).size(), 2u) << "what is behind it waits as well";
  for (const NcclHang& hang : job.After(1000)) EXPECT_THAT(hang.suspects, IsEmpty());
}

TEST(NcclHang, AnOperationsOwnTimeoutCounts) {
  Job job;
  job.Rank(0, {{7, kStarted, 0, "0", 60}}).Rank(1, {{7, kStarted, 0, "0", 60}});
  EXPECT_THAT(job.After(59), IsEmpty());
  ASSERT_EQ(job.After(60).size(), 1u);
  EXPECT_EQ(job.After(60)[0].limit_ns, 60 * kS);
  EXPECT_THAT(job.After(9, 10), IsEmpty());
  EXPECT_EQ(job.After(10, 10).size(), 1u) << "unless the threshold is less";
}

// They say that the shortest timeout has passed, and of the others no more than that.
TEST(NcclHang, BareDumpsWereWrittenWhenATimeoutHadPassed) {
  Job job;
  for (int32_t rank : {0, 1}) {
    job.Rank(rank, {{7, kScheduled, 0, "0", 180}, {3, kScheduled, 0, "1", 600}});
  }
  const auto hangs = job.AsDumped();
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_EQ(hangs[0].sequence, 7);
  EXPECT_EQ(hangs[0].age_ns, 180 * kS);
  EXPECT_EQ(job.AsDumped(100).size(), 2u);
  Job without;
  without.Rank(0, {{7, kScheduled}}).Rank(1, {{7, kScheduled}, {9, kCompleted, 301}});
  EXPECT_EQ(without.AsDumped().size(), 1u) << "the newest time in any dump";
}

Job::Op P2p(int64_t sequence, const char* name) {
  return Job::Op{sequence, kScheduled, 0, "0", {}, name, true};
}

TEST(NcclHang, PointToPointHasTwoEnds) {
  Job job;
  job.members["0"] = {10, 11, 12, 13};
  job.Rank(10, {P2p(21, "nccl:send 0->3")})
      .Rank(13, {P2p(19, "nccl:recv 3<-0"), P2p(21, "nccl:recv 3<-0")});
  job.Rank(11, {}).Rank(12, {});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_TRUE(hangs[0].is_p2p);
  EXPECT_EQ(hangs[0].ends, std::pair(10, 13));
  EXPECT_THAT(hangs[0].hanging_ranks, ElementsAre(10, 13));
  EXPECT_THAT(SuspectsOf(hangs[0]), ElementsAre(13))
      << "it is still in what the other end has done, and nobody else has a part in this";
}

// As in real dumps: each rank counts what it sends and receives, whoever it is with.
TEST(NcclHang, PointToPointOfOtherPairsIsNoneOfTheirBusiness) {
  Job job;
  job.members["0"] = {0, 4, 8, 12};
  job.Rank(4, {P2p(13698, "nccl:send 1->0")}).Rank(8, {P2p(13698, "nccl:recv 2<-3")});
  job.Rank(0, {P2p(11986, "nccl:recv 0<-1")}).Rank(12, {P2p(11978, "nccl:send 3->2")});
  EXPECT_THAT(job.After(1000), IsEmpty()) << "the same number is not the same operation";
  job.Rank(4, {P2p(13696, "nccl:send 1->2")})
      .Rank(8, {P2p(13694, "nccl:recv 2<-3"), P2p(13696, "nccl:recv 2<-1")});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_THAT(hangs[0].hanging_ranks, ElementsAre(4, 8));
  EXPECT_THAT(hangs[0].suspects, IsEmpty()) << "8 waits for 12 in what is none of 4's";
}

// As records of OpenTelemetry have it.
TEST(NcclHang, WhereNobodySaysWhoTheMembersAreItIsAllThatHaveBeenThere) {
  Job job;
  job.members["0"] = {};
  for (int32_t rank : {0, 1, 3}) job.Rank(rank, {{6, kCompleted}, {7, kStarted}});
  job.Rank(2, {{6, kCompleted}});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_THAT(SuspectsOf(hangs[0]), ElementsAre(2));
}

TEST(NcclHang, GroupsAreJoinedByNameAndNotByNumber) {
  Job job;
  job.Rank(0, {{1, kCompleted, 0, "1"}, {7, kStarted, 0, "0"}});
  job.Rank(1, {{7, kStarted, 0, "0"}, {1, kCompleted, 0, "1"}});
  ASSERT_EQ(job.After(1000).size(), 1u);
  EXPECT_EQ(job.records.groups().size(), 2u);
}

// ---- as it is told

TEST(NcclHangVerdict, SaysWhoWaitsForWhom) {
  Job job;
  job.Rank(0, {{7, kStarted, 5}}).Rank(1, {{7, kStarted}}).Rank(2, {});
  const auto hangs = job.After(400);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_EQ(hangs[0].When().begin_ns, kBegin);
  EXPECT_EQ(nlohmann::json(VerdictJson(hangs[0])), nlohmann::json::parse(R"({
    "pattern.id": "15",
    "headline": "ranks 0, 1 wait in nccl:all_reduce 7 of group 0 (group 0); held up by rank 2",
    "remediation": "look at rank 2 first: the process, its GPU and its node; then restart the job without it",
    "pg_id": "0", "pg_description": "group 0", "collective_seq_id": 7, "is_p2p": false,
    "operation": "nccl:all_reduce", "hanging_ranks": [0, 1], "suspects": [{"rank": 2, "why": "lacks"}],
    "unknown_ranks": [3], "earliest_created_at": "2023-11-14T22:13:20.000000000Z", "age_s": 400.0, "threshold_s": 300.0,
    "clock": "as_of", "evidence_trail": [
      {"kind": "fr_record", "uid": "rank-0", "timestamp": "2023-11-14T22:13:25.000000000Z",
       "description": "called it, and has not completed it"},
      {"kind": "fr_record", "uid": "rank-1", "timestamp": "2023-11-14T22:13:20.000000000Z",
       "description": "called it, and has not completed it"}]})"));
}

// ---- real ones

TEST(NcclHangCorpus, TheInjectedCulpritsAreTheSuspects) {
  const char* corpus = getenv("SLOTSCOPE_CORPUS");
  if (!corpus) GTEST_SKIP() << "SLOTSCOPE_CORPUS names no folder of real captures";
  const struct {
    const char* folder;
    std::set<int32_t> culprits;
  } kCases[] = {{"real_gpu_error_1st", {12, 14}}, {"real_lock_gil_2nd", {10, 15}}};
  for (const auto& c : kCases) {
    FrFolder read;
    ASSERT_TRUE(ReadFrFolder(std::string(corpus) + "/fr/" + c.folder, &read).ok());
    EXPECT_THAT(read.problems, IsEmpty());
    const NcclRecords& records = read.records;
    EXPECT_EQ(records.ranks().size(), 16u);
    std::set<int32_t> suspects;
    size_t nr_collectives = 0, nr_p2p = 0;
    for (const NcclHang& hang : FindNcclHangs(records, {})) {
      if (hang.is_p2p) {
        nr_p2p++;
        ASSERT_TRUE(hang.ends);
        EXPECT_THAT(hang.hanging_ranks, ElementsAre(hang.ends->first, hang.ends->second));
        for (const NcclSuspect& suspect : hang.suspects)
          EXPECT_TRUE(c.culprits.contains(suspect.rank)) << c.folder << ": " << suspect.rank;
        continue;
      }
      nr_collectives++;
      for (const NcclSuspect& suspect : hang.suspects) suspects.insert(suspect.rank);
    }
    EXPECT_GT(nr_collectives, 0u) << c.folder;
    EXPECT_GT(nr_p2p, 0u) << c.folder;
    EXPECT_EQ(suspects, c.culprits) << c.folder << ": these, and no others";
  }
}

}  // namespace
}  // namespace slotscope
