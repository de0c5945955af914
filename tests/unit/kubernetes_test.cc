// SPDX-License-Identifier: MIT
// What Kubernetes says, in all the ways in which it does.
#include "detect/inputs/kubernetes.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/text_input.h"
#include "detect/inputs/inputs.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kMay28 = 1'748'419'550 * kS;  // 2025-05-28T08:05:50Z

// By the recorder of kubelets and controllers.
std::string Event(const char* reason, const char* message,
                  const char* more = R"("source":{"component":"kubelet","host":"n7"})",
                  const char* uid = "1") {
  return fmt::format(
      R"({{"kind":"Event","apiVersion":"v1","metadata":{{"name":"a.1","namespace":"train","uid":"{}"}},)"
      R"("involvedObject":{{"kind":"Pod","namespace":"train","name":"a","uid":"p"}},"reason":"{}",)"
      R"("message":"{}","firstTimestamp":"2025-05-28T08:05:50Z","lastTimestamp":"2025-05-28T08:05:50Z",)"
      R"("count":1,"type":"Warning","eventTime":null,{}}})",
      uid, reason, message, more);
}

ClusterRecords Read(std::string_view text) {
  KubernetesReader reader;
  std::string problem;
  const Status status = ReadKubernetes(text, &reader, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(problem, "");
  return reader.Records();
}

TEST(Kubernetes, AKubeletsEviction) {
  const auto records =
      Read(Event("Evicted",
                 "The node was low on resource: ephemeral-storage. Threshold quantity: 30Gi, "
                 "available: 24094024Ki. Container c was using 2456Ki. "));
  ASSERT_EQ(records.evictions.size(), 1u);
  const PodEviction& eviction = records.evictions[0];
  EXPECT_EQ(eviction.when, (Moment{kMay28, kS}));
  EXPECT_EQ(eviction.uid, "1");
  EXPECT_EQ(eviction.pod, "train/a");
  EXPECT_EQ(eviction.pod_uid, "p");
  EXPECT_EQ(eviction.node, "n7");
  EXPECT_EQ(eviction.cause, EvictionCause::kPressure);
  EXPECT_EQ(eviction.resource, "ephemeral-storage");
}

TEST(Kubernetes, WhatItsSentencesMean) {
  const struct {
    const char* message;
    EvictionCause cause;
    const char* resource;
  } kCases[] = {
      {"The node was low on resource: memory. Container c was using 1Ki.", EvictionCause::kPressure,
       "memory"},
      {"The node was low on resource: memory.", EvictionCause::kPressure, "memory"},
      {"The node was low on resource: [DiskPressure].", EvictionCause::kPressure, "DiskPressure"},
      {"The node had condition: [MemoryPressure]. ", EvictionCause::kPressure, "MemoryPressure"},
      {"The node was low on compute resources.", EvictionCause::kPressure, ""},
      {"Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
       EvictionCause::kLimit, "ephemeral-storage"},
      {"Container c exceeded its local ephemeral storage limit 1Gi. ", EvictionCause::kLimit,
       "ephemeral-storage"},
      {"Usage of EmptyDir volume x exceeds the limit 30Mi. ", EvictionCause::kLimit,
       "ephemeral-storage"},
      {"Something new.", EvictionCause::kOther, ""},
      {"", EvictionCause::kOther, ""},
  };
  for (const auto& c : kCases) {
    const auto records = Read(Event("Evicted", c.message));
    ASSERT_EQ(records.evictions.size(), 1u) << c.message;
    EXPECT_EQ(records.evictions[0].cause, c.cause) << c.message;
    EXPECT_EQ(records.evictions[0].resource, c.resource) << c.message;
  }
}

TEST(Kubernetes, OnlyEvictionsAreTaken) {
  for (const auto& [reason, message] :
       {std::pair("Killing", "Stopping container c"),
        std::pair("TaintManagerEviction", "Cancelling deletion of Pod train/a"),
        std::pair("FailedScheduling", "0/4 nodes: preemption: No preemption victims found"),
        std::pair("Preempted", "Preempted by pod x on node n8 (in kube-scheduler memory)."),
        std::pair("EvictionThresholdMet", "Attempting to reclaim memory")})
    EXPECT_THAT(Read(Event(reason, message)).evictions, IsEmpty()) << reason;
}

TEST(Kubernetes, PreemptionsNameTheNode) {
  for (const char* message : {"Preempted by other/b on node n8", "Preempted by a pod on node n8",
                              "Preempted by pod 1-2 on node n8"}) {
    const auto records = Read(Event("Preempted", message, R"("source":{})"));
    ASSERT_EQ(records.evictions.size(), 1u) << message;
    EXPECT_EQ(records.evictions[0].node, "n8") << message;
    EXPECT_EQ(records.evictions[0].cause, EvictionCause::kPreemption);
  }
}

TEST(Kubernetes, OtherObjectsSayWhereAPodWas) {
  const char* taint = "Marking for deletion Pod train/a";
  const std::string eviction = Event("TaintManagerEviction", taint, R"("source":{"component":"taint"})");
  EXPECT_EQ(Read(eviction).evictions.at(0).node, "");
  for (const std::string& other :
       {std::string(R"({"kind":"Pod","metadata":{"name":"a","namespace":"train","uid":"p"},)"
                    R"("spec":{"nodeName":"n9"}})"),
        Event("Scheduled", "Successfully assigned train/a to n9", R"("source":{})", "2"),
        Event("Started", "Started container c", R"("source":{"component":"kubelet","host":"n9"})", "2")})
    EXPECT_EQ(Read(eviction + "\n" + other).evictions.at(0).node, "n9") << other;
}

TEST(Kubernetes, TheTimeIsTheLastOneThatIsThere) {
  const struct {
    const char* fields;
    const char* time;
  } kCases[] = {
      {R"("series":{"count":3,"lastObservedTime":"2025-05-28T08:05:57.000001Z"},"eventTime":"2025-05-28T08:05:51Z")",
       "2025-05-28T08:05:57.000001Z"},
      {R"("lastTimestamp":"2025-05-28T08:05:52Z","eventTime":"2025-05-28T08:05:51Z")",
       "2025-05-28T08:05:52Z"},
      {R"("deprecatedLastTimestamp":"2025-05-28T08:05:53Z","eventTime":null)", "2025-05-28T08:05:53Z"},
      {R"("lastTimestamp":null,"eventTime":"2025-05-28T08:05:51.548190Z","firstTimestamp":null)",
       "2025-05-28T08:05:51.548190Z"},
      {R"("firstTimestamp":"2025-05-28T08:05:49Z")", "2025-05-28T08:05:49Z"},
      {R"("eventTime":null)", "2025-05-28T08:00:00Z"},
  };
  for (const auto& c : kCases) {
    const auto records = Read(fmt::format(
        R"({{"kind":"Event","metadata":{{"uid":"1","creationTimestamp":"2025-05-28T08:00:00Z"}},)"
        R"("regarding":{{"kind":"Pod","namespace":"t","name":"a"}},"reason":"Evicted","note":"x",{}}})",
        c.fields));
    ASSERT_EQ(records.evictions.size(), 1u) << c.fields;
    EXPECT_EQ(records.evictions[0].when, *ParseTimestamp(c.time)) << c.fields;
    EXPECT_EQ(records.evictions[0].message, "x");
  }
}

TEST(Kubernetes, ListsWatchesAndOtherFrames) {
  const std::string event = Event("Evicted", "x");
  // The API's own lists do not say what their items are.
  std::string bare = event;
  bare.erase(bare.find(R"("kind":"Event","apiVersion":"v1",)"), 33);
  for (const std::string& text :
       {event, R"({"kind":"EventList","apiVersion":"v1","metadata":{},"items":[)" + bare + "]}",
        R"({"kind":"List","items":[)" + event + "]}", R"({"items":[)" + event + "]}",
        R"({"type":"ADDED","object":)" + event + "}\n" +
            R"({"type":"BOOKMARK","object":{"kind":"Event"}})",
        R"({"object":)" + event + "}", event + "\n" + event, "{\n\n" + event.substr(1)})
    EXPECT_EQ(Read(text).evictions.size(), 1u) << text;
  // That an Event is forgotten is none.
  EXPECT_THAT(Read(R"({"type":"DELETED","object":)" + event + "}").evictions, IsEmpty());
}

TEST(Kubernetes, AnEventThatIsSaidAgainCountsAsItIsSaidLast) {
  std::string again = Event("Evicted", "x");
  again.replace(again.rfind("08:05:50Z"), 9, "08:06:50Z");
  const auto records = Read(Event("Evicted", "x") + "\n" + again);
  ASSERT_EQ(records.evictions.size(), 1u);
  EXPECT_EQ(records.evictions[0].when.begin_ns, kMay28 + 60 * kS);
}

TEST(Kubernetes, ConditionsOfNodes) {
  const auto records =
      Read(R"({"kind":"Node","metadata":{"name":"n7","uid":"u"},"status":{"conditions":[)"
           R"({"type":"MemoryPressure","status":"True","lastHeartbeatTime":"2025-05-28T09:00:00Z",)"
           R"("lastTransitionTime":"2025-05-28T08:05:50Z","reason":"KubeletHasInsufficientMemory"},)"
           R"({"type":"DiskPressure","status":"Unknown","lastTransitionTime":"2025-05-28T08:05:50Z"},)"
           R"({"type":"PIDPressure","status":"False","lastTransitionTime":"2025-05-28T08:00:00Z"},)"
           R"({"type":"Ready","status":"True","lastTransitionTime":"2025-05-28T08:05:50Z"}]}})");
  ASSERT_EQ(records.pressures.size(), 2u);
  EXPECT_EQ(records.pressures[0].pressure, Pressure::kMemory);
  EXPECT_TRUE(records.pressures[0].is_on);
  EXPECT_EQ(records.pressures[0].when, (Moment{kMay28, kS}));
  EXPECT_FALSE(records.pressures[1].is_on);
}

TEST(Kubernetes, EventsOfNodesAreConditionsToo) {
  const auto records = Read(
      R"({"kind":"Event","metadata":{"uid":"1"},"involvedObject":{"kind":"Node","name":"n7","uid":"n7"},)"
      R"("reason":"NodeHasDiskPressure","type":"Normal","lastTimestamp":"2025-05-28T08:05:50Z"})");
  ASSERT_EQ(records.pressures.size(), 1u);
  EXPECT_EQ(records.pressures[0].node, "n7");
  EXPECT_EQ(records.pressures[0].pressure, Pressure::kDisk);
}

TEST(Kubernetes, APodSaysThatSomebodyAskedForItsEviction) {
  const auto records = Read(
      R"({"kind":"Pod","metadata":{"name":"a","namespace":"train","uid":"p"},"spec":{"nodeName":"n9"},)"
      R"("status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI",)"
      R"("message":"Eviction API: evicting","lastTransitionTime":"2025-05-28T08:05:50Z"}]}})");
  ASSERT_EQ(records.evictions.size(), 1u);
  EXPECT_EQ(records.evictions[0].cause, EvictionCause::kApi);
  EXPECT_EQ(records.evictions[0].node, "n9");
  EXPECT_EQ(records.evictions[0].uid, "p");
}

TEST(Kubernetes, AnOldPodSaysOnlyThatItWasEvicted) {
  const auto records = Read(
      R"({"kind":"Pod","metadata":{"name":"a","namespace":"train","uid":"p"},"status":{"phase":"Failed",)"
      R"("reason":"Evicted","message":"The node was low on resource: memory. ","conditions":[)"
      R"({"type":"Ready","status":"False","lastTransitionTime":"2025-05-28T08:05:50Z"},)"
      R"({"type":"PodScheduled","status":"True","lastTransitionTime":"2025-05-28T07:00:00Z"}]}})");
  ASSERT_EQ(records.evictions.size(), 1u);
  EXPECT_EQ(records.evictions[0].cause, EvictionCause::kPressure);
  EXPECT_EQ(records.evictions[0].when.begin_ns, kMay28);
}

TEST(Kubernetes, OnlyAKubeletsHostIsThePodsNode) {
  const auto records =
      Read(Event("TaintManagerEviction", "Marking for deletion Pod train/a",
                 R"("source":{"component":"taint-eviction-controller","host":"control-plane-1"})"));
  ASSERT_EQ(records.evictions.size(), 1u);
  EXPECT_EQ(records.evictions[0].node, "");
}

TEST(Kubernetes, WhatIsNoObjectIsAnError) {
  for (const char* text : {"", "[]", "1", "{}", "{\"a\":1}", "apiVersion: v1", "{\"kind\":"}) {
    KubernetesReader reader;
    std::string problem;
    EXPECT_EQ(ReadKubernetes(text, &reader, &problem).code(), Exit::kBadInput) << text;
  }
}

TEST(Kubernetes, WhatIsCutOffIsSaid) {
  KubernetesReader reader;
  std::string problem;
  ASSERT_TRUE(ReadKubernetes(Event("Evicted", "x") + "\n{\"kind\":\"Eve", &reader, &problem).ok());
  EXPECT_EQ(problem, "1 of 2 objects cannot be read: they are cut off, or no objects");
  EXPECT_EQ(reader.Records().evictions.size(), 1u);
}

TEST(Kubernetes, WhatLacksWhatAllHaveIsCounted) {
  for (
      const char* text :
      {R"({"kind":"Event"})", R"({"kind":"Event","metadata":{},"involvedObject":{}})",
       R"({"kind":"Event","metadata":{"uid":"1"},"involvedObject":{"kind":"Pod","name":"a"},"reason":"Evicted"})",
       R"({"kind":"Node","metadata":{}})", R"({"kind":"Pod"})"}) {
    KubernetesReader reader;
    ASSERT_TRUE(reader.OnText(text).ok()) << text;
    EXPECT_EQ(reader.stats().nr_malformed, 1u) << text;
  }
}

TEST(Kubernetes, WhatIsOldIsForgottenButTheStateOfNodes) {
  KubernetesReader reader;
  ASSERT_TRUE(reader.OnText(Event("Evicted", "x")).ok());
  for (const char* time : {"2025-05-28T07:00:00Z", "2025-05-28T08:00:00Z", "2025-05-28T09:00:00Z"})
    ASSERT_TRUE(reader
                    .OnText(fmt::format(
                        R"({{"kind":"Node","metadata":{{"name":"n7"}},"status":{{"conditions":[)"
                        R"({{"type":"DiskPressure","status":"True","lastTransitionTime":"{}"}}]}}}})",
                        time))
                    .ok());
  reader.Forget(kMay28 + kS);
  const auto records = reader.Records();
  EXPECT_THAT(records.evictions, IsEmpty());
  ASSERT_EQ(records.pressures.size(), 2u) << "the one that holds then, and the one after";
  EXPECT_EQ(records.pressures[0].when, *ParseTimestamp("2025-05-28T08:00:00Z"));
}

// ---- real ones

TEST(KubernetesCorpus, EvictionsAndConditionsAreFound) {
  const char* corpus = getenv("SLOTSCOPE_CORPUS");
  if (!corpus) GTEST_SKIP() << "SLOTSCOPE_CORPUS names no folder of real captures";
  const auto read = [&](const char* name) {
    std::string text;
    EXPECT_TRUE(ReadInput(std::string(corpus) + "/k8s/" + name, &text).ok()) << name;
    return Read(text);
  };
  std::vector<std::string> pods;
  for (const PodEviction& eviction : read("synth_evictions_core_v1.json").evictions)
    pods.push_back(eviction.pod + " " + EvictionCauseName(eviction.cause) + " " + eviction.node);
  EXPECT_THAT(pods, ElementsAre("train/trainer-3 pressure gpu-node-7", "train/trainer-4 taint ",
                                "train/trainer-6 preemption gpu-node-8"));
  EXPECT_EQ(read("synth_evictions_core_v1.json").pressures.size(), 1u);
  EXPECT_EQ(read("synth_evictions_events_v1.json").evictions.size(), 3u);
  EXPECT_EQ(read("synth_node_memorypressure.json").pressures.size(), 3u);
  const auto nodes = read("troubleshoot_nodes.json");
  EXPECT_THAT(nodes.evictions, IsEmpty());
  EXPECT_FALSE(nodes.pressures.empty());
  for (const PressureChange& change : nodes.pressures) EXPECT_FALSE(change.is_on);
  // Only the conditions of one.
  std::string conditions;
  ASSERT_TRUE(ReadInput(std::string(corpus) + "/k8s/real_rancher14017_node_conditions_diskpressure.json",
                        &conditions)
                  .ok());
  bool has_disk_pressure = false;
  for (const PressureChange& change :
       Read(R"({"kind":"Node","metadata":{"name":"n"},"status":{"conditions":)" + conditions + "}}")
           .pressures)
    has_disk_pressure |= change.pressure == Pressure::kDisk && change.is_on;
  EXPECT_TRUE(has_disk_pressure);
  for (const char* name : {"troubleshoot_message-container-creating-failed-mount.json",
                           "troubleshoot_message-pod-init-crashloop-backoff.json"})
    EXPECT_THAT(read(name).evictions, IsEmpty()) << name;
}

}  // namespace
}  // namespace slotscope
