// SPDX-License-Identifier: MIT
// Why pods had to go.
#include "detect/patterns/pod_evicted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kBegin = 1'700'000'000 * kS;

PodEviction Evicted(int64_t at_s, const std::string& resource = "memory") {
  PodEviction eviction;
  eviction.when = {kBegin + at_s * kS, kS};
  eviction.uid = "event-1";
  eviction.pod = "train/a";
  eviction.node = "n7";
  eviction.cause = EvictionCause::kPressure;
  eviction.resource = resource;
  eviction.reason = "Evicted";
  eviction.message = "The node was low on resource: " + resource + ". ";
  return eviction;
}

PressureChange Change(int64_t at_s, bool is_on = true, Pressure pressure = Pressure::kMemory,
                      const std::string& node = "n7") {
  return {{kBegin + at_s * kS, kS}, "node-1", node, pressure, is_on, "KubeletHasInsufficientMemory"};
}

PodEvicted FindOne(const PodEviction& eviction, const std::vector<PressureChange>& changes) {
  const auto found = FindPodEvicted({{eviction}, changes});
  EXPECT_EQ(found.size(), 1u);
  return found.at(0);
}

TEST(PodEvicted, ItsNodeWasUnderPressure) {
  const auto one = FindOne(Evicted(10), {Change(2)});
  ASSERT_TRUE(one.pressure);
  EXPECT_EQ(one.pressure->when.begin_ns, kBegin + 2 * kS);
  EXPECT_FALSE(one.lacks_node());
}

TEST(PodEvicted, ChangesAfterItDoNotExplainIt) {
  EXPECT_TRUE(FindOne(Evicted(10), {Change(11)}).lacks_node());
  EXPECT_FALSE(FindOne(Evicted(10), {Change(10)}).lacks_node()) << "in one second";
}

TEST(PodEvicted, TheLatestChangeBeforeItCounts) {
  EXPECT_EQ(FindOne(Evicted(10), {Change(2), Change(5, false), Change(8)}).pressure->when.begin_ns,
            kBegin + 8 * kS);
  EXPECT_TRUE(FindOne(Evicted(10), {Change(2), Change(5, false)}).lacks_node());
}

TEST(PodEvicted, OfItsNodeAndItsResource) {
  EXPECT_TRUE(FindOne(Evicted(10), {Change(2, true, Pressure::kMemory, "n8")}).lacks_node());
  EXPECT_TRUE(FindOne(Evicted(10), {Change(2, true, Pressure::kDisk)}).lacks_node());
  for (const char* disk : {"ephemeral-storage", "nodefs", "imagefs", "inodes", "DiskPressure"})
    EXPECT_FALSE(FindOne(Evicted(10, disk), {Change(2, true, Pressure::kDisk)}).lacks_node()) << disk;
  EXPECT_FALSE(FindOne(Evicted(10, "pids"), {Change(2, true, Pressure::kPid)}).lacks_node());
  // It does not say what was short: the latest of all.
  const auto one = FindOne(Evicted(10, ""), {Change(2), Change(4, true, Pressure::kDisk)});
  EXPECT_EQ(one.pressure->pressure, Pressure::kDisk);
}

TEST(PodEvicted, OtherCausesNeedNoNode) {
  auto eviction = Evicted(10);
  eviction.cause = EvictionCause::kPreemption;
  const auto one = FindOne(eviction, {Change(2)});
  EXPECT_FALSE(one.pressure);
  EXPECT_FALSE(one.lacks_node());
}

TEST(PodEvicted, ByTimeAndThenByUid) {
  auto one = Evicted(10), other = Evicted(10), first = Evicted(5);
  one.uid = "b";
  other.uid = "a";
  first.uid = "c";
  one.pod = "train/b";
  other.pod = "train/a";
  first.pod = "train/c";
  const auto found = FindPodEvicted({{one, other, first}, {}});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].eviction.uid, "c");
  EXPECT_EQ(found[1].eviction.uid, "a");
}

TEST(PodEvictedVerdict, IsWhatTheSchemaSays) {
  EXPECT_EQ(nlohmann::json(VerdictJson(FindOne(Evicted(10), {Change(2), Change(400, false)}))),
            nlohmann::json::parse(R"json({
    "pattern.id": "14",
    "headline": "pod train/a evicted from n7: the node was under MemoryPressure since 2023-11-14T22:13:22Z",
    "remediation": "find out what fills n7: the pods furthest above their requests go first; set this pod's requests to its real usage",
    "confidence": "full", "evicted_pod": "train/a", "node": "n7", "cause": "pressure",
    "resource": "memory", "condition": "MemoryPressure", "resolved_at": "2023-11-14T22:20:00Z",
    "evidence_trail": [
      {"kind": "node_condition", "uid": "node-1", "timestamp": "2023-11-14T22:13:22Z",
       "description": "MemoryPressure of n7 is True (KubeletHasInsufficientMemory)"},
      {"kind": "pod_event", "uid": "event-1", "timestamp": "2023-11-14T22:13:30Z",
       "description": "Evicted of train/a: The node was low on resource: memory. "},
      {"kind": "node_condition", "uid": "node-1", "timestamp": "2023-11-14T22:20:00Z",
       "description": "MemoryPressure of n7 is False (KubeletHasInsufficientMemory)"}]
})json"));
}

TEST(PodEvictedVerdict, SaysWhatItLacks) {
  auto eviction = Evicted(10, "");
  eviction.node = "";
  const auto json = VerdictJson(FindOne(eviction, {}));
  EXPECT_EQ(json["confidence"], "partial");
  EXPECT_EQ(json["missing_layers"], nlohmann::json({"node_condition"}));
  EXPECT_FALSE(json.contains("node"));
  EXPECT_FALSE(json.contains("resource"));
}

}  // namespace
}  // namespace slotscope
