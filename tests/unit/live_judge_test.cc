// SPDX-License-Identifier: MIT
// Detectors over inputs that go on.
#include "detect/live/live_judge.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "detect/live/live_detectors.h"
#include "detect/patterns/verdict.h"
#include "temp_folder.h"
#include "until.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int64_t kS = 1'000'000'000;

int64_t UnixNs() { return static_cast<int64_t>(ClockNs(CLOCK_REALTIME)); }

// A dump with one operation, which was called 1000 s ago.
std::string Dump(int64_t sequence, const char* state) {
  return fmt::format(
      R"({{"version":"2.10","pg_config":{{"0":{{"ranks":"[0, 1, 2]"}}}},"entries":[{{"process_group":["0","default_pg"],)"
      R"("collective_seq_id":{},"profiling_name":"nccl:all_reduce","state":"{}","time_created_ns":{}}}]}})",
      sequence, state, UnixNs() - 1000 * kS);
}
constexpr const char* kEmptyDump = R"({"version":"2.10"})";

std::string Event(const char* uid, const char* pod, int64_t at_ns) {
  return fmt::format(
      R"({{"type":"ADDED","object":{{"kind":"Event","metadata":{{"uid":"{}"}},"involvedObject":{{"kind":"Pod",)"
      R"("namespace":"t","name":"{}"}},"reason":"Evicted","message":"The node was low on resource: memory. ",)"
      R"("source":{{"host":"n1"}},"eventTime":"{}"}}}})"
      "\n",
      uid, pod, Rfc3339(at_ns));
}

std::string Xid(int64_t at_ns, const char* host = "n1") {
  return fmt::format("{} {} kernel: NVRM: Xid (PCI:0000:91:00): 79, x\n", Rfc3339(at_ns), host);
}

std::string Node(bool is_on, int64_t at_ns) {
  return fmt::format(
      R"({{"kind":"Node","metadata":{{"name":"n1"}},"status":{{"conditions":[{{"type":"MemoryPressure",)"
      R"("status":"{}","lastTransitionTime":"{}"}}]}}}})"
      "\n",
      is_on ? "True" : "False", Rfc3339(at_ns));
}

class LiveJudgeTest : public testing::Test {
 protected:
  // Now, and when dumps have settled.
  std::vector<std::string> Look() {
    std::vector<std::string> told = LookAt(now_ns_);
    for (std::string& one : LookAt(now_ns_ + LiveJudge::kDumpsSettleNs)) told.push_back(std::move(one));
    return told;
  }
  std::vector<std::string> LookAt(int64_t now_ns) {
    std::vector<std::string> told;
    for (const FoundNow& found : judge_.Look(now_ns, {})) {
      const auto verdict = VerdictJson(*found.finding, found.resolved);
      std::string text = verdict["pattern.id"];
      for (const char* key : {"evicted_pod", "confidence", "resolved_at"})
        if (verdict.contains(key)) text += " " + verdict[key].get<std::string>().substr(0, 20);
      told.push_back(text);
    }
    return told;
  }

  TempFolder folder_;
  const int64_t start_ns_ = UnixNs();
  int64_t now_ns_ = start_ns_;
  LiveJudge judge_{{folder_.path(), folder_.At("kern.log"), folder_.At("events"), "n1"},
                   {},
                   start_ns_,
                   start_ns_ - 5000 * kS};
};

TEST_F(LiveJudgeTest, AHangIsSaidOnceAndWhenItIsOver) {
  EXPECT_THAT(Look(), IsEmpty());
  folder_.Write("rank_0", Dump(7, "started"));
  EXPECT_THAT(Look(), IsEmpty()) << "one rank is none";
  folder_.Write("rank_1", Dump(7, "scheduled"));
  EXPECT_THAT(Look(), ElementsAre("15"));
  EXPECT_THAT(Look(), IsEmpty());
  // A dump that says the same again.
  folder_.Write("rank_1", Dump(7, "scheduled") + " ");
  EXPECT_THAT(Look(), IsEmpty());
  folder_.Write("rank_1", kEmptyDump);
  now_ns_ = 1'700'000'000 * kS;
  EXPECT_THAT(Look(), ElementsAre("15 2023-11-14T22:13:25."));
  EXPECT_THAT(Look(), IsEmpty());
  // The next one is another one.
  folder_.Write("rank_0", Dump(8, "started"));
  folder_.Write("rank_1", Dump(8, "started"));
  EXPECT_THAT(Look(), ElementsAre("15"));
}

TEST_F(LiveJudgeTest, AHangIsSaidAgainWhenOthersHaveSpoken) {
  folder_.Write("rank_0", Dump(7, "started"));
  folder_.Write("rank_1", Dump(7, "started"));
  EXPECT_THAT(Look(), ElementsAre("15"));
  folder_.Write("rank_2", kEmptyDump);  // so it is this one
  EXPECT_THAT(Look(), ElementsAre("15"));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(LiveJudgeTest, XidsAreNewsOncePerGpuAndNumber) {
  folder_.Append("kern.log", Xid(start_ns_ - kS) + Xid(start_ns_ + kS) + Xid(start_ns_ + kS) +
                                 Xid(start_ns_ + kS, "n2"));
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(judge_.TakeNews(),
              ElementsAre(HasSubstr("n1: Xid 79 on GPU 0000:91:00"), HasSubstr("n2: Xid 79")));
  now_ns_ += 1800 * kS;
  folder_.Append("kern.log", Xid(now_ns_));
  Look();
  EXPECT_THAT(judge_.TakeNews(), IsEmpty());
  now_ns_ += 1800 * kS;  // it may be another GPU in that place by now
  folder_.Append("kern.log", Xid(now_ns_));
  Look();
  EXPECT_THAT(judge_.TakeNews(), ElementsAre(HasSubstr("n1: Xid 79 on GPU 0000:91:00")));
}

TEST_F(LiveJudgeTest, WhatIsNoObjectIsSaidOnce) {
  folder_.Append("events", "apiVersion: v1\nkind: Event\n{\"a\":1}\n");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(judge_.TakeNews(), ElementsAre(HasSubstr("events: not an object of Kubernetes")));
  EXPECT_EQ(judge_.counts().nr_malformed, 3u);
}

// The same number in a job that was started again is neither the same operation nor its end.
TEST_F(LiveJudgeTest, AJobThatIsStartedAgainHasNotGoneOn) {
  folder_.Write("rank_0", Dump(7, "started"));
  folder_.Write("rank_1", Dump(7, "started"));
  EXPECT_THAT(Look(), ElementsAre("15"));
  folder_.Write("rank_0", Dump(6, "completed"));
  folder_.Write("rank_1", Dump(6, "completed"));
  EXPECT_THAT(Look(), IsEmpty());
  folder_.Write("rank_0", Dump(7, "started"));
  folder_.Write("rank_1", Dump(7, "started"));
  EXPECT_THAT(Look(), ElementsAre("15"));
}

TEST_F(LiveJudgeTest, AnEvictionThatTwoSpeakOfIsOne) {
  folder_.Append("events", Event("zz", "a", start_ns_ + 5 * kS));
  // Events of this test do not say the pod's uid: this one does.
  std::string with_uid = Event("e2", "b", start_ns_ + 5 * kS);
  with_uid.replace(with_uid.find("\"name\":\"b\""), 10, "\"name\":\"b\",\"uid\":\"p-b\"");
  folder_.Append("events", with_uid);
  EXPECT_THAT(Look(), ElementsAre("14 t/b partial", "14 t/a partial"));
  folder_.Append(
      "events",
      fmt::format(
          R"({{"kind":"Pod","metadata":{{"name":"b","namespace":"t","uid":"p-b"}},"spec":{{"nodeName":"n1"}},)"
          R"("status":{{"conditions":[{{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet",)"
          R"("message":"The node was low on resource: memory. ","lastTransitionTime":"{}"}}]}}}})"
          "\n",
          Rfc3339(start_ns_ + 4 * kS)));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(LiveJudgeTest, WhereDumpsAreGoneNobodyKnowsWhetherItIsOver) {
  folder_.Write("rank_0", Dump(7, "started"));
  folder_.Write("rank_1", Dump(7, "started"));
  EXPECT_THAT(Look(), ElementsAre("15"));
  std::filesystem::remove(folder_.At("rank_0"));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(LiveJudgeTest, DumpsAreJudgedTogether) {
  folder_.Write("rank_0", Dump(7, "started"));
  folder_.Write("rank_1", Dump(7, "started"));
  EXPECT_THAT(LookAt(now_ns_), IsEmpty()) << "others may be about to come";
  folder_.Write("rank_2", kEmptyDump);
  EXPECT_THAT(LookAt(now_ns_ + 4 * kS), IsEmpty());
  EXPECT_THAT(LookAt(now_ns_ + 8 * kS), IsEmpty());
  const auto told = judge_.Look(now_ns_ + 9 * kS, {});
  ASSERT_EQ(told.size(), 1u);
  const auto* hang = As<NcclHang>(*told[0].finding);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->unknown_ranks, IsEmpty());
  EXPECT_EQ(hang->suspects.at(0).rank, 2);
  // At the end there is no time for that.
  folder_.Write("rank_1", kEmptyDump);
  EXPECT_THAT(judge_.Look(now_ns_ + 10 * kS, {}), IsEmpty());
  EXPECT_EQ(judge_.Look(now_ns_ + 11 * kS, {}, true).size(), 1u);
}

TEST_F(LiveJudgeTest, WhoGoesOnWritingKeepsNobodyFromBeingJudged) {
  folder_.Write("rank_0", Dump(7, "started"));
  folder_.Write("rank_1", Dump(7, "started"));
  folder_.Write("rank_2", kEmptyDump);
  std::vector<std::string> told;
  int seconds = 0;
  for (; seconds <= 60 && told.empty(); seconds++) {
    folder_.Write("rank_3", Dump(7 + seconds, "completed"));
    told = LookAt(now_ns_ + seconds * kS);
  }
  EXPECT_THAT(told, ElementsAre("15"));
  EXPECT_EQ(seconds, 31);
}

TEST_F(LiveJudgeTest, ADumpThatIsBeingWrittenIsWaitedFor) {
  folder_.Write("rank_0", Dump(7, "started"));
  const std::string dump = Dump(7, "started");
  folder_.Write("rank_1", dump.substr(0, 50));
  EXPECT_THAT(LookAt(now_ns_), IsEmpty());
  EXPECT_THAT(judge_.TakeNews(), IsEmpty());
  folder_.Write("rank_1", dump);
  EXPECT_THAT(Look(), ElementsAre("15"));
  // One that stays as it is, is said; once.
  folder_.Write("rank_2", dump.substr(0, 50));
  EXPECT_THAT(LookAt(now_ns_), IsEmpty());
  EXPECT_THAT(judge_.TakeNews(), IsEmpty());
  EXPECT_THAT(LookAt(UnixNs() + 6 * kS), IsEmpty());
  EXPECT_THAT(judge_.TakeNews(), ElementsAre(HasSubstr("rank_2: not a JSON text")));
  EXPECT_THAT(LookAt(UnixNs() + 7 * kS), IsEmpty());
  EXPECT_THAT(judge_.TakeNews(), IsEmpty());
}

TEST_F(LiveJudgeTest, AnXidAndThenEvictions) {
  folder_.Append("kern.log", Xid(start_ns_ + kS));
  EXPECT_THAT(Look(), IsEmpty());
  folder_.Append("events", Event("1", "a", start_ns_ + 5 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/a partial", "16 t/a"));
  folder_.Append("events", Event("1", "a", start_ns_ + 5 * kS) + Event("2", "b", start_ns_ + 6 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/b partial", "16 t/b"));
  EXPECT_EQ(judge_.counts().nr_xids, 1u);
  EXPECT_EQ(judge_.counts().nr_evictions, 2u);
  EXPECT_EQ(judge_.counts().nr_verdicts, 4u);
}

TEST_F(LiveJudgeTest, WhatANodeSaysLaterCompletesAVerdict) {
  folder_.Append("events", Event("1", "a", start_ns_ + 5 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/a partial"));
  folder_.Append("events", Node(true, start_ns_ + 2 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/a full"));
  folder_.Append("events", Node(false, 1'900'000'000 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/a full 2030-03-17T17:46:40."));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(LiveJudgeTest, WhatWasBeforeIsACauseButNoNews) {
  folder_.Append("kern.log", Xid(start_ns_ - 10 * kS));
  folder_.Append("events", Event("1", "a", start_ns_ - 5 * kS) + Event("2", "b", start_ns_ + 5 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/b partial", "16 t/b"));
}

TEST_F(LiveJudgeTest, FilesThatAreRotatedAndTruncatedAreFollowed) {
  folder_.Append("kern.log", "a line\n");
  folder_.Append("events", Event("1", "a", start_ns_ + 5 * kS).substr(0, 40));  // cut off
  EXPECT_THAT(Look(), IsEmpty());
  std::filesystem::rename(folder_.At("kern.log"), folder_.At("kern.log.old"));
  folder_.Append("kern.log.old", Xid(start_ns_ + kS));
  folder_.Write("events", Event("2", "b", start_ns_ + 5 * kS));
  folder_.Write("events", "\n");
  EXPECT_THAT(Look(), IsEmpty());
  folder_.Append("events", Event("2", "b", start_ns_ + 5 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/b partial", "16 t/b"));
}

TEST_F(LiveJudgeTest, LinesThatCountFromTheBootAreOfWhenTheyWere) {
  // In the log before us: 4999 s after the boot is a second ago.
  folder_.Append("kern.log", "[ 4999.000000] NVRM: Xid (PCI:0000:91:00): 79, x\n");
  folder_.Append("events", Event("1", "a", start_ns_));
  EXPECT_THAT(Look(), ElementsAre("14 t/a partial", "16 t/a"));
  // A log that was left lying: what is a day old does not become new because it is read now.
  now_ns_ = start_ns_ + 100 * kS;
  folder_.Append("kern.log", "[ 1000.000000] NVRM: Xid (PCI:0000:91:00): 48, x\n");
  folder_.Append("events", Event("2", "b", start_ns_ + 101 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/b partial"));
  // Clocks that drift a little are not trusted: it came just now.
  now_ns_ = start_ns_ + 200 * kS;
  folder_.Append("kern.log", "[ 5180.000000] NVRM: Xid (PCI:0000:91:00): 48, x\n");
  folder_.Append("events", Event("3", "c", start_ns_ + 250 * kS));
  EXPECT_THAT(Look(), ElementsAre("14 t/c partial", "16 t/c"));
}

TEST_F(LiveJudgeTest, StateIsBounded) {
  for (int round = 0; round < 50; round++) {
    now_ns_ += 1200 * kS;
    std::string xids, events;
    for (int i = 0; i < 400; i++) {
      xids += Xid(now_ns_);
      events += Event(fmt::format("{}-{}", round, i).c_str(), "a", now_ns_);
    }
    folder_.Append("kern.log", xids);
    folder_.Append("events", events);
    Look();
  }
  EXPECT_EQ(judge_.counts().nr_xids, 20'000u);
  EXPECT_LT(judge_.counts().nr_evictions, 4'000u) << "of the last hour";
  EXPECT_EQ(judge_.counts().nr_forgotten, 0u);
}

// Whoever writes broken dumps all the time does not fill the log.
TEST_F(LiveJudgeTest, BrokenDumpsAreSaidTenTimesAnHour) {
  const auto flood = [&] {
    for (int i = 0; i < 30; i++) folder_.Write(fmt::format("rank_{}", i), "broken");
    now_ns_ = UnixNs() + 10 * kS;
    Look();
    return judge_.TakeNews();
  };
  EXPECT_EQ(flood().size(), 10u);
  EXPECT_THAT(flood(), IsEmpty());
  now_ns_ += 360 * kS;
  folder_.Write("rank_0", "broken again");
  Look();
  EXPECT_THAT(judge_.TakeNews(), ElementsAre(HasSubstr("(50 more like this before)")));
}

TEST_F(LiveJudgeTest, AFileThatCannotBeReadIsSaidOnce) {
  std::filesystem::create_directory(folder_.At("kern.log"));
  Look();
  EXPECT_THAT(judge_.TakeNews(), ElementsAre(HasSubstr("kern.log: cannot read it")));
  Look();
  EXPECT_THAT(judge_.TakeNews(), IsEmpty());
  now_ns_ += 3600 * kS;
  Look();
  EXPECT_THAT(judge_.TakeNews(), ElementsAre(HasSubstr("kern.log: cannot read it")));
}

TEST(LiveDetectors, WriteVerdictsDownAsTheyCome) {
  TempFolder folder;
  News news;
  LiveDetectors detectors;
  const std::string path = folder.At("verdicts.ndjson");
  folder.Write("verdicts.ndjson", "{\"of\":\"before\"}\n");
  folder.Write("events", "");
  ASSERT_TRUE(
      detectors.Start({"", folder.At("kern.log"), folder.At("events"), "n1"}, {}, path, nullptr, &news)
          .ok());
  folder.Append("kern.log", Xid(UnixNs()));
  folder.Append("events", Event("1", "a", UnixNs() + kS));
  ASSERT_TRUE(Until([&] { return detectors.counts().nr_verdicts == 2; }));
  detectors.Stop();
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u) << "what was there stays";
  EXPECT_EQ(nlohmann::json::parse(lines[1])["pattern.id"], "14");
  EXPECT_EQ(nlohmann::json::parse(lines[2])["pattern.id"], "16");
  EXPECT_THAT(news.Take(),
              UnorderedElementsAre(HasSubstr("kern.log is not there yet"), HasSubstr("pod t/a evicted"),
                                   HasSubstr("after Xid 79"), HasSubstr("n1: Xid 79 on GPU")));
}

TEST(LiveDetectors, TheEndLooksOnceMore) {
  TempFolder folder;
  News news;
  LiveDetectors detectors;
  ASSERT_TRUE(detectors.Start({"", "", folder.At("events"), "n1"}, {}, "", nullptr, &news).ok());
  folder.Append("events", Event("1", "a", UnixNs() + kS));
  detectors.Stop();
  EXPECT_EQ(detectors.counts().nr_verdicts, 1u);
}

TEST(LiveDetectors, AFileThatCannotBeWrittenIsAnError) {
  News news;
  LiveDetectors detectors;
  const Status status =
      detectors.Start({"", "", "/tmp/none", "n1"}, {}, "/nonexistent/v", nullptr, &news);
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_THAT(status.message(), HasSubstr("--verdicts /nonexistent/v"));
}

}  // namespace
}  // namespace slotscope
