// SPDX-License-Identifier: MIT
// GPU errors and the pods that had to leave the node after them.
#include "detect/patterns/xid_correlation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "detect/inputs/kubernetes.h"
#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

using testing::ElementsAre;

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kBegin = 1'700'000'000 * kS;

XidRecord At(double seconds, int32_t code = 79, const std::string& node = "n1", int64_t resolution = 1) {
  XidRecord xid;
  xid.when = {kBegin + static_cast<int64_t>(seconds * 1e9), resolution};
  xid.node = node;
  xid.code = code;
  xid.uid = "xid-" + std::to_string(code) + "-" + std::to_string(seconds);
  xid.bus = "0000:91:00";
  xid.message = "GPU has fallen off the bus.";
  return xid;
}

PodEviction Evicted(double seconds, const std::string& pod = "train/a", const std::string& node = "n1",
                    int64_t resolution = 1) {
  PodEviction eviction;
  eviction.when = {kBegin + static_cast<int64_t>(seconds * 1e9), resolution};
  eviction.uid = "event-" + pod + "-" + std::to_string(seconds);
  eviction.pod = pod;
  eviction.pod_uid = "uid-" + pod;
  eviction.node = node;
  eviction.reason = "Evicted";
  eviction.message = "The node was low on resource: memory. ";
  return eviction;
}

std::vector<XidCorrelation> Find(const std::vector<XidRecord>& xids,
                                 const std::vector<PodEviction>& evictions, int64_t window_s = 60) {
  return FindXidCorrelations(xids, evictions, window_s * kS);
}

// ---- the ten cases of the pattern

TEST(XidCorrelation, AnXidAndThenAnEviction) {
  const auto found = Find({At(0)}, {Evicted(10)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].xid.code, 79);
  EXPECT_EQ(found[0].eviction.pod, "train/a");
}

TEST(XidCorrelation, WithoutAnEvictionThereIsNone) { EXPECT_TRUE(Find({At(0)}, {}).empty()); }

TEST(XidCorrelation, NotAcrossNodes) {
  EXPECT_TRUE(Find({At(0, 79, "n2")}, {Evicted(10)}).empty());
  EXPECT_TRUE(Find({At(0, 79, "n1.other.org")}, {Evicted(10, "train/a", "n1.example.org")}).empty());
}

TEST(XidCorrelation, NotBeyondTheWindow) {
  EXPECT_TRUE(Find({At(0)}, {Evicted(61)}).empty());
  EXPECT_EQ(Find({At(0)}, {Evicted(60)}).size(), 1u) << "the last nanosecond is in it";
}

TEST(XidCorrelation, OnePerEvictedPod) {
  const auto found =
      Find({At(0)}, {Evicted(12, "train/c"), Evicted(10, "train/a"), Evicted(11, "train/b")});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].eviction.pod, "train/a");
  EXPECT_EQ(found[2].eviction.pod, "train/c");
}

TEST(XidCorrelation, TheWindowIsWhatIsGiven) {
  EXPECT_TRUE(Find({At(0)}, {Evicted(10)}, 5).empty());
  EXPECT_EQ(Find({At(0)}, {Evicted(100)}, 120).size(), 1u);
}

TEST(XidCorrelation, AnEvictionBeforeTheXidIsNotItsConsequence) {
  EXPECT_TRUE(Find({At(10)}, {Evicted(9.999999)}).empty());
}

TEST(XidCorrelation, OtherEventsOfPodsAreNoEvictions) {
  for (const auto& [reason, nr] : {std::pair("Killing", 0u), std::pair("Evicted", 1u)}) {
    KubernetesReader reader;
    ASSERT_TRUE(reader
                    .OnText(std::string(R"({"kind":"Event","metadata":{"uid":"1"},"reason":")") +
                            reason +
                            R"(","involvedObject":{"kind":"Pod","namespace":"train","name":"a"},)"
                            R"("source":{"host":"n1"},"lastTimestamp":"2023-11-14T22:13:30Z"})")
                    .ok());
    EXPECT_EQ(Find({At(0)}, reader.Records().evictions).size(), nr) << reason;
  }
}

TEST(XidCorrelation, TheOrderIsThatOfEvictionsAndThenOfUids) {
  auto one = Evicted(10, "train/b"), other = Evicted(10, "train/a"), first = Evicted(5, "train/z");
  one.uid = "2";
  other.uid = "1";
  first.uid = "9";
  for (int turn = 0; turn < 2; turn++) {
    const auto found = turn ? Find({At(0)}, {one, other, first}) : Find({At(0)}, {first, other, one});
    std::vector<std::string> uids;
    for (const auto& correlation : found) uids.push_back(correlation.eviction.uid);
    EXPECT_THAT(uids, ElementsAre("9", "1", "2"));
  }
}

TEST(XidCorrelation, TheLatestXidWins) {
  const auto found = Find({At(8, 79), At(0, 48), At(12, 31)}, {Evicted(10)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].xid.code, 79);
  ASSERT_EQ(found[0].before.size(), 1u);
  EXPECT_EQ(found[0].before[0].code, 48) << "the ones before are evidence, too";
}

// ---- times as they are

TEST(XidCorrelation, ASecondMayBeAnyNanosecondOfIt) {
  // The eviction's time is only known to the second, in which the Xid was.
  EXPECT_EQ(Find({At(10.5)}, {Evicted(10, "train/a", "n1", kS)}).size(), 1u);
  EXPECT_TRUE(Find({At(11)}, {Evicted(10, "train/a", "n1", kS)}).empty());
  // The end of the window, as far as it may reach.
  EXPECT_EQ(Find({At(0, 79, "n1", kS)}, {Evicted(60.9)}).size(), 1u);
  EXPECT_TRUE(Find({At(0, 79, "n1", kS)}, {Evicted(61)}).empty());
  EXPECT_TRUE(Find({At(0)}, {Evicted(61, "train/a", "n1", kS)}).empty());
}

TEST(XidCorrelation, TheSamePodIsEvictedOnceThoughTwoSaySo) {
  auto by_taint = Evicted(11);
  by_taint.uid = "taint";
  by_taint.pod_uid = "";
  EXPECT_EQ(Find({At(0)}, {Evicted(10), by_taint}).size(), 1u);
  // The next pod of that name is another one.
  auto next = Evicted(30);
  next.pod_uid = "another";
  EXPECT_EQ(Find({At(0)}, {Evicted(10), next}).size(), 2u);
}

TEST(XidCorrelation, ANodeMayHaveItsDomainOrNot) {
  EXPECT_EQ(Find({At(0, 79, "GPU-Node-7")}, {Evicted(1, "train/a", "gpu-node-7.example.org")}).size(),
            1u);
  EXPECT_TRUE(Find({At(0, 79, "gpu-node-7")}, {Evicted(1, "train/a", "gpu-node-70")}).empty());
  EXPECT_TRUE(Find({At(0, 79, "")}, {Evicted(1, "train/a", "")}).empty()) << "unknown nodes are not one";
}

TEST(XidCorrelation, AStormKeepsTheLatestFew) {
  std::vector<XidRecord> storm;
  for (int i = 0; i < 10'000; i++) storm.push_back(At(i * 0.001, i % 100));
  const auto found = Find(storm, {Evicted(20)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].xid.code, 99);
  EXPECT_EQ(found[0].before.size(), 7u);
  EXPECT_EQ(found[0].before.front().code, 92);
}

TEST(XidCorrelationVerdict, IsWhatTheSchemaSays) {
  const auto found = Find({At(0.5, 48), At(1, 79, "n1", kS)}, {Evicted(11, "train/a", "n1", kS)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(nlohmann::json(VerdictJson(found[0])), nlohmann::json::parse(R"({
    "pattern.id": "16",
    "headline": "pod train/a evicted from n1 10 s after Xid 79 of GPU 0000:91:00",
    "remediation": "drain n1 and reboot the node, and have the GPU, its power and its slot checked; see that train/a runs again elsewhere",
    "xid_code": 79, "node": "n1", "evicted_pod": "train/a", "evidence_trail": [
      {"kind": "kernel_event", "uid": "xid-48-0.500000", "timestamp": "2023-11-14T22:13:20.500000000Z",
       "description": "Xid 48 on GPU 0000:91:00: GPU has fallen off the bus."},
      {"kind": "kernel_event", "uid": "xid-79-1.000000", "timestamp": "2023-11-14T22:13:21Z",
       "description": "Xid 79 on GPU 0000:91:00: GPU has fallen off the bus."},
      {"kind": "pod_event", "uid": "event-train/a-11.000000", "timestamp": "2023-11-14T22:13:31Z",
       "description": "Evicted of train/a: The node was low on resource: memory. "}]})"));
}

}  // namespace
}  // namespace slotscope
