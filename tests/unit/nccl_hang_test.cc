// SPDX-License-Identifier: MIT
// Who waits for whom in collectives.
#include "detect/patterns/nccl_hang.h"

#include <fmt/core.h>
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
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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
    uint64_t elements = 0;  // 0: not said
    const char* type = "Float";
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
      if (op.elements) {
        entry.inputs = static_cast<uint32_t>(dump.tensors.size());
        dump.tensors.push_back({fmt::format("{} {}", op.elements, op.type), op.elements, op.type});
      }
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
TEST(NcclHang, PointToPointIsBetweenTwoWhateverTheirNumbers) {
  Job job;
  job.members["0"] = {0, 4, 8, 12};
  job.Rank(4, {P2p(13698, "nccl:send 1->0")}).Rank(8, {P2p(13698, "nccl:recv 2<-3")});
  job.Rank(0, {P2p(11986, "nccl:recv 0<-1")}).Rank(12, {P2p(11978, "nccl:send 3->2")});
  EXPECT_THAT(job.After(299), IsEmpty());
  const auto both = job.After(1000);
  ASSERT_EQ(both.size(), 2u) << "the same number is not the same operation, and others may be";
  for (const auto& hang : both) {
    EXPECT_THAT(hang.suspects, IsEmpty()) << "both ends are there";
    EXPECT_THAT(hang.Remediation(), HasSubstr("network"));
  }
  EXPECT_THAT(both[0].hanging_ranks, UnorderedElementsAre(8, 12));
  EXPECT_THAT(both[1].hanging_ranks, UnorderedElementsAre(0, 4));
  job.Rank(4, {P2p(13696, "nccl:send 1->2")})
      .Rank(8, {P2p(13694, "nccl:recv 2<-3"), P2p(13696, "nccl:recv 2<-1")});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 3u);
  for (const auto& hang : hangs) {
    EXPECT_THAT(hang.suspects, IsEmpty()) << "8 waits for 12 in what is none of 4's";
    if (hang.sequence == 13696) {
      EXPECT_THAT(hang.hanging_ranks, ElementsAre(4, 8));
    }
  }
  // One that has been called just now does not hang yet.
  Job young;
  young.members["0"] = {0, 1, 2};
  young.Rank(0, {P2p(5, "nccl:send 0->1")}).Rank(2, {});
  young.Rank(1, {{9, kScheduled, 900, "0", {}, "nccl:recv 1<-0", true}});
  EXPECT_THAT(young.After(1000), IsEmpty());
  EXPECT_EQ(young.After(1300).size(), 1u);
}

std::vector<int32_t> CulpritsOf(const std::vector<NcclHang>& hangs) {
  const auto job = JoinNcclHangs(hangs);
  return job ? std::vector<int32_t>(job->culprits->ranks.begin(), job->culprits->ranks.end())
             : std::vector<int32_t>{-1};
}

TEST(NcclHang, AnAbsentPeerIsTheSuspect) {
  for (const char* name : {"nccl:recv 1<-0", "nccl:send 1->0"}) {
    Job job;
    job.Rank(1, {P2p(5, name)}).Rank(0, {});
    EXPECT_THAT(job.After(299), IsEmpty());
    const auto hangs = job.After(300);
    ASSERT_EQ(hangs.size(), 1u) << name;
    EXPECT_THAT(hangs[0].hanging_ranks, ElementsAre(1));
    EXPECT_EQ(hangs[0].ends, std::pair(0, 1));
    EXPECT_THAT(SuspectsOf(hangs[0]), ElementsAre(0));
    EXPECT_EQ(hangs[0].suspects[0].why, NcclSuspect::Why::kLacks);
  }
  Job without;
  without.Rank(1, {P2p(5, "nccl:recv 1<-0")});
  ASSERT_EQ(without.After(300).size(), 1u);
  const NcclHang killed = without.After(300)[0];
  EXPECT_THAT(SuspectsOf(killed), ElementsAre(0));
  EXPECT_EQ(killed.suspects[0].why, NcclSuspect::Why::kNoDump);
  EXPECT_THAT(killed.unknown_ranks, ElementsAre(0));
  EXPECT_EQ(killed.Headline(),
            "rank 1 waits in nccl:recv 1<-0 5 of group 0 (group 0); held up by rank 0 (there is no dump "
            "of rank 0)");
  EXPECT_EQ(killed.Remediation(),
            "look at rank 0 first (there is no dump of rank 0): the process, its GPU and its node; then "
            "restart the job without rank 0");
  Job both;  // of two that send nobody is absent, and of two that have the same number neither
  both.Rank(0, {P2p(5, "nccl:send 0->1")}).Rank(1, {P2p(5, "nccl:recv 1<-0")});
  ASSERT_EQ(both.After(300).size(), 1u);
  EXPECT_THAT(both.After(300)[0].hanging_ranks, ElementsAre(0, 1));
  EXPECT_THAT(both.After(300)[0].suspects, IsEmpty());
  Job done;  // the peer has done its part: who waits is the one to look at
  done.Rank(0, {{5, kCompleted, 0, "0", {}, "nccl:send 0->1", true}})
      .Rank(1, {P2p(5, "nccl:recv 1<-0")});
  ASSERT_EQ(done.After(300).size(), 1u);
  EXPECT_THAT(SuspectsOf(done.After(300)[0]), ElementsAre(1));
  // Numbers of two among four are not of the same: what it did before is not this.
  Job before;
  before.Rank(0, {{900, kCompleted, 0, "0", {}, "nccl:send 0->1", true}});
  before.Rank(1, {{5, kScheduled, 10, "0", {}, "nccl:recv 1<-0", true}});
  EXPECT_THAT(SuspectsOf(before.After(310).at(0)), ElementsAre(0));
  Job pair;  // of a pair they are
  pair.members["0"] = {0, 1};
  pair.Rank(0, {{4, kCompleted, 20, "0", {}, "nccl:send 0->1", true}});
  pair.Rank(1, {{5, kScheduled, 10, "0", {}, "nccl:recv 1<-0", true}});
  EXPECT_THAT(SuspectsOf(pair.After(310).at(0)), ElementsAre(0));
}

// As in a pipeline: who waits for the one before it is no culprit.
TEST(NcclHang, OfAChainItIsTheOneThatWaitsForNobody) {
  Job job;
  job.Rank(3, {P2p(5, "nccl:recv 3<-2")})
      .Rank(2, {P2p(5, "nccl:recv 2<-1")})
      .Rank(1, {P2p(5, "nccl:recv 1<-0")});
  job.Rank(0, {});
  ASSERT_EQ(job.After(1000).size(), 3u);
  EXPECT_THAT(CulpritsOf(job.After(1000)), ElementsAre(0));
  const auto whole = JoinNcclHangs(job.After(1000));
  EXPECT_TRUE(whole->culprits->in_circles.empty());
  EXPECT_THAT(whole->hanging_ranks, ElementsAre(1, 2, 3));
  EXPECT_THAT(SuspectsOf(*whole), ElementsAre(0));
  EXPECT_EQ(whole->parts.size(), 3u);
  EXPECT_EQ(whole->Headline(),
            "rank 0 holds up 3 operations of 3 ranks, such as nccl:recv 1<-0 5 of group 0 (group 0)");
  EXPECT_EQ(
      whole->Remediation(),
      "look at rank 0 first: the process, its GPU and its node; then restart the job without rank 0");
  // Through a collective as well, and what has not waited for long yet is a link of it.
  job.members["1"] = {0, 4};
  job.Rank(0, {{7, kStarted, 999, "1"}}).Rank(4, {});
  EXPECT_THAT(CulpritsOf(job.After(1000)), ElementsAre(4));
}

TEST(NcclHang, SeveralCulpritsAreNamedTogether) {
  Job job;
  for (int32_t rank : {9, 14}) job.Rank(rank, {});
  for (int32_t rank = 0; rank < 9; rank++) job.Rank(rank, {{7, kStarted}});
  job.members["1"] = {9, 10, 11};
  job.members["2"] = {12, 13, 14};
  job.members["0"] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (int32_t rank : {10, 11}) job.Rank(rank, {{3, kStarted, 0, "1"}});
  for (int32_t rank : {12, 13}) job.Rank(rank, {{4, kStarted, 0, "2"}});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 3u);
  const auto whole = JoinNcclHangs(hangs);
  EXPECT_EQ(whole->Headline(),
            "ranks 9 and 14 hold up 3 operations of 13 ranks, such as nccl:all_reduce 3 of group 1 "
            "(group 1)");
  EXPECT_EQ(whole->Remediation(),
            "look at ranks 9 and 14 first: the process, its GPU and its node; then restart the job "
            "without ranks 9 and 14");
}

// A process that was killed writes none: who waits for it is no culprit.
TEST(NcclHang, AChainMayEndAtOneOfWhichThereIsNoDump) {
  Job job;
  job.Rank(0, {P2p(5, "nccl:send 0->1")}).Rank(1, {P2p(5, "nccl:send 1->2")});
  job.Rank(2, {P2p(5, "nccl:send 2->3")});
  EXPECT_THAT(CulpritsOf(job.After(1000)), ElementsAre(3));
  const auto whole = JoinNcclHangs(job.After(1000));
  ASSERT_THAT(SuspectsOf(*whole), ElementsAre(3));
  EXPECT_EQ(whole->suspects[0].why, NcclSuspect::Why::kNoDump);
  EXPECT_THAT(whole->Headline(), testing::StartsWith("rank 3 (there is no dump of rank 3) holds up 3 "));
  EXPECT_THAT(whole->Remediation(), testing::StartsWith("look at rank 3 first (there is no dump of"));
  // Through a collective as well, in which nobody else is missing.
  Job other;
  other.members["1"] = {1, 2, 3};
  other.Rank(0, {P2p(5, "nccl:send 0->1")}).Rank(1, {{7, kStarted, 0, "1"}});
  other.Rank(2, {{7, kStarted, 0, "1"}});
  EXPECT_THAT(CulpritsOf(other.After(1000)), ElementsAre(3));
  EXPECT_EQ(JoinNcclHangs(other.After(1000))->suspects[0].why, NcclSuspect::Why::kNoDump);
}

TEST(NcclHang, OfACircleItIsAllThatAreInIt) {
  Job job;
  job.Rank(0, {P2p(5, "nccl:send 0->1")})
      .Rank(1, {P2p(5, "nccl:send 1->2")})
      .Rank(2, {P2p(5, "nccl:send 2->0")});
  job.Rank(3, {P2p(5, "nccl:recv 3<-2")});
  EXPECT_THAT(CulpritsOf(job.After(1000)), ElementsAre(0, 1, 2));
  const auto whole = JoinNcclHangs(job.After(1000));
  EXPECT_THAT(whole->culprits->in_circles, ElementsAre(0, 1, 2));
  EXPECT_THAT(whole->Headline(),
              testing::HasSubstr(
                  "ranks 0, 1 and 2 wait for each other; 4 operations of 4 ranks wait, such as "));
  EXPECT_THAT(whole->Remediation(), testing::HasSubstr("the order in which they call"));
  // Two that both receive.
  Job two;
  two.Rank(0, {P2p(5, "nccl:recv 0<-1")}).Rank(1, {P2p(5, "nccl:recv 1<-0")});
  EXPECT_THAT(CulpritsOf(two.After(1000)), ElementsAre(0, 1));
}

// One has nothing to do with the other.
TEST(NcclHang, WhoIsAbsentIsNoPartOfACircle) {
  Job job;
  job.Rank(0, {P2p(5, "nccl:recv 0<-1")}).Rank(1, {P2p(5, "nccl:recv 1<-0")});
  job.Rank(2, {P2p(5, "nccl:recv 2<-3")}).Rank(3, {});
  EXPECT_THAT(CulpritsOf(job.After(1000)), ElementsAre(0, 1, 3));
  const auto whole = JoinNcclHangs(job.After(1000));
  EXPECT_THAT(whole->culprits->in_circles, ElementsAre(0, 1));
  EXPECT_THAT(
      whole->Headline(),
      testing::StartsWith("ranks 0 and 1 wait for each other; rank 3 holds up 3 operations of "));
  EXPECT_THAT(whole->Remediation(), testing::StartsWith("look at rank 3 first: "));
  EXPECT_THAT(
      whole->Remediation(),
      testing::EndsWith("without rank 3. ranks 0 and 1 wait for each other: compare the order in "
                        "which they call their operations"));
}

// ---- what is called is not the same

std::vector<int32_t> WhoDiffers(const NcclHang& hang) {
  std::vector<int32_t> ranks;
  for (const NcclSuspect& suspect : hang.suspects)
    if (suspect.why == NcclSuspect::Why::kDiffers) ranks.push_back(suspect.rank);
  return ranks;
}

TEST(NcclHang, WhoCallsSomethingElseDiffers) {
  Job job;
  for (int32_t rank : {0, 1, 3})
    job.Rank(rank, {{7, kStarted, 0, "0", {}, "nccl:all_reduce", false, 1024}});
  job.Rank(2, {{7, kStarted, 0, "0", {}, "nccl:broadcast", false, 512}});
  const auto hangs = job.After(1000);
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_THAT(hangs[0].hanging_ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(WhoDiffers(hangs[0]), ElementsAre(2));
  EXPECT_THAT(
      hangs[0].Headline(),
      testing::HasSubstr(
          "; rank 2 called nccl:broadcast of 512 Float, the others nccl:all_reduce of 1024 Float"));
  EXPECT_THAT(hangs[0].Remediation(), testing::HasSubstr("find out why rank 2 called nccl:broadcast"));
  EXPECT_EQ(hangs[0].Trail()[2].description,
            "called nccl:broadcast of 512 Float, and has not completed it");
  EXPECT_THAT(CulpritsOf(hangs), ElementsAre(2));
  // Also if what it called was done at once: then one alone waits.
  Job root;
  root.members["0"] = {0, 1};
  root.Rank(0, {{7, kStarted}}).Rank(1, {{7, kCompleted, 0, "0", {}, "nccl:broadcast"}});
  ASSERT_EQ(root.After(1000).size(), 1u);
  EXPECT_THAT(WhoDiffers(root.After(1000)[0]), ElementsAre(0, 1)) << "of two nobody knows who is right";
  std::vector<std::string> said;
  for (const Evidence& one : root.After(1000)[0].Trail())
    said.push_back(one.uid + ": " + one.description);
  EXPECT_THAT(said, ElementsAre("rank-0: called nccl:all_reduce, and has not completed it",
                                "rank-1: called nccl:broadcast, and has completed it"));
}

TEST(NcclHang, SizesDifferWhereTheyMayNot) {
  const auto hang_of = [](const char* operation) {
    Job job;
    for (int32_t rank : {0, 1, 2, 3})
      job.Rank(rank, {{7, kStarted, 0, "0", {}, operation, false, rank == 1 ? 100u : 1024u}});
    return job.After(1000).at(0);
  };
  for (const char* operation :
       {"nccl:all_reduce", "nccl:_all_gather_base", "nccl:broadcast", "nccl:all_gather", "nccl:gather",
        "nccl:reduce_scatter", "nccl:all_gather_into_tensor_coalesced"})
    EXPECT_THAT(WhoDiffers(hang_of(operation)), ElementsAre(1)) << operation;
  for (const char* operation : {"nccl:all_to_all", "nccl:all_to_allv"})
    EXPECT_THAT(hang_of(operation).suspects, IsEmpty()) << operation;
  Job half;  // of some it is not said
  half.Rank(0, {{7, kStarted}}).Rank(1, {{7, kStarted, 0, "0", {}, "nccl:all_reduce", false, 512}});
  EXPECT_THAT(half.After(1000).at(0).calls, IsEmpty());
}

TEST(NcclHang, TypesDifferWhereTheSizesDoNot) {
  Job job;
  for (int32_t rank : {0, 1, 2, 3})
    job.Rank(
        rank,
        {{7, kStarted, 0, "0", {}, "nccl:all_reduce", false, 1024, rank == 3 ? "BFloat16" : "Float"}});
  const NcclHang hang = job.After(1000).at(0);
  EXPECT_THAT(WhoDiffers(hang), ElementsAre(3));
  EXPECT_THAT(hang.Headline(), testing::HasSubstr("rank 3 called nccl:all_reduce of 1024 BFloat16, the "
                                                  "others nccl:all_reduce of 1024 Float"));
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
    "remediation": "look at rank 2 first: the process, its GPU and its node; then restart the job without rank 2",
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
      EXPECT_EQ(hang.culprits->ranks, c.culprits) << c.folder;
      EXPECT_THAT(hang.calls, IsEmpty()) << c.folder << ": " << hang.Headline();
      if (hang.is_p2p) {
        nr_p2p++;
        ASSERT_TRUE(hang.ends);
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
