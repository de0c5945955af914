// SPDX-License-Identifier: MIT
// What explain makes of rows. Whether it finds what happened: explain_incidents_test.cc.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/explain.h"
#include "explain/history_reader.h"
#include "explain/process_places.h"
#include "explain/stall.h"
#include "explain/story.h"
#include "explain/worst_seconds.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kUnix = 1'795'754'628'000'000'000;
constexpr const char* kColumns =
    "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns,slot_ns,wait_earlier_ns,"
    "wait_others_ns,wait_self_ns,wait_throttled_ns,wait_wakeup_ns,wait_steal_ns,wait_unknown_ns,"
    "ran_instead_tgid,ran_instead_start_ns,ran_instead_ns,state,state_since_ns,cpus,main_cpu";

History HistoryOf(const std::string& slots_csv, const UnixRange& range = {}) {
  const TempFolder folder;
  folder.Write("slots.csv", slots_csv);
  RecordingTables tables;
  History history;
  Status status = tables.Open(folder.At("slots.csv"));
  EXPECT_TRUE(status.ok()) << status.message();
  status = tables.ReadHistory(range, &history);
  EXPECT_TRUE(status.ok()) << status.message();
  return history;
}

// A slots.csv, line by line.
class Rows {
 public:
  Rows() : text_(fmt::format("# host: box\n# nr_cpus: 2\n{}\n", kColumns)) {}

  // `ran`: the tgid that ran for as long as this one waited, 0: nobody.
  void Add(int64_t ms, int32_t tgid, const std::string& comm, int64_t cpu_ns, int64_t others_ns = 0,
           int32_t ran = 0, const std::string& state = "asleep", int64_t since_ms = 0) {
    text_ += fmt::format("{},{},{},7,{},user,{},1000000,0,{},0,0,0,0,0,{},{},{},{},{},1,0\n", ms * kMs,
                         kUnix + ms * kMs, tgid, comm, cpu_ns, others_ns, ran ? std::to_string(ran) : "",
                         ran ? "7" : "", ran ? std::to_string(others_ns) : "", state, since_ms * kMs);
  }
  void AddLine(const std::string& line) { text_ += line + "\n"; }

  History Read(const UnixRange& range = {}) const { return HistoryOf(text_, range); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Two seconds in which web works every 10 ms, and a hog runs instead of it for 100 ms from 1 s on.
Rows WithHog() {
  Rows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    const bool hog = ms >= 1000 && ms < 1100;
    if (hog) rows.Add(ms, 20, "hog", 800'000, 0, 0, "running");
    if (ms % 10 == 0 || hog)
      rows.Add(ms, 10, "web", hog ? 200'000 : 1'000'000, hog ? 800'000 : 0, hog ? 20 : 0);
    rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
  }
  return rows;
}

TEST(Explain, NamesWhoWaitedForWhom) {
  const std::vector<Stall> stalls = FindStalls(WithHog().Read(), {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(Headline(stalls[0]), "web (10) waited 80.0 of 100 ms for a CPU while hog (20) ran");
  EXPECT_EQ(stalls[0].from_ns, kUnix + 1000 * kMs);
  EXPECT_EQ(stalls[0].to_ns, kUnix + 1100 * kMs);
  EXPECT_EQ(stalls[0].confidence(), Confidence::kHigh);
  ASSERT_EQ(stalls[0].neighbors.size(), 1u);
  EXPECT_EQ(stalls[0].neighbors[0].cpus, std::vector<int>{0});
  EXPECT_EQ(stalls[0].neighbors[0].usual_cpu_ns, 0u);
}

// Of a recording of one process its neighbors have no rows: what they ran while it waited says who they
// were, and not what they did else.
TEST(Explain, ANeighborWithoutRowsIsToldByWhatItRanMeanwhile) {
  const auto rows_of = [](int64_t usual_ns) {
    Rows rows;
    for (int64_t ms = 0; ms < 2000; ms++) {
      const bool hog = ms >= 1000 && ms < 1100;
      if (ms % 10 == 0 || hog)
        rows.Add(ms, 10, "web", 200'000, hog ? 800'000 : usual_ns, hog || usual_ns ? 20 : 0);
    }
    return rows.Read();
  };
  const History history = rows_of(10'000);
  const std::vector<Stall> stalls = FindStalls(history, {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_NEAR(static_cast<double>(stalls[0].ns[kByOthers]), 80.0 * kMs, 0.5 * kMs);
  EXPECT_EQ(stalls[0].confidence(), Confidence::kMedium);
  ASSERT_EQ(stalls[0].neighbors.size(), 1u);
  EXPECT_TRUE(stalls[0].neighbors[0].is_unusual);
  EXPECT_FALSE(stalls[0].neighbors[0].has_rows);
  const auto json = StallJson(stalls[0], {});
  EXPECT_TRUE(json["neighbors"][0]["cpu_ns"].is_null());
  EXPECT_TRUE(json["neighbors"][0]["usual_cpu_ns"].is_null());
  const auto lines = DetailLines(stalls[0], {});
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("(its CPU time was not recorded)") != line.npos;
  }));
  // It runs a quarter as long at any other time.
  EXPECT_TRUE(FindStalls(rows_of(2'000'000), {}).empty());
}

TEST(Explain, WhatIsUsualIsNoStall) {
  Rows rows;  // it waits half of the time, always
  for (int64_t ms = 0; ms < 2000; ms++) {
    rows.Add(ms, 10, "web", 500'000, 500'000, 20);
    rows.Add(ms, 20, "hog", 500'000, 500'000, 10);
  }
  EXPECT_TRUE(FindStalls(rows.Read(), {}).empty());
}

TEST(Explain, ANeighborThatDoesAsItAlwaysDoesIsNotAccused) {
  Rows rows;  // the hog runs all the time; web comes to its CPU for 100 ms
  for (int64_t ms = 0; ms < 2000; ms++) {
    const bool here = ms >= 1000 && ms < 1100;
    if (ms % 10 == 0 || here) rows.Add(ms, 10, "web", 500'000, here ? 500'000 : 0, here ? 20 : 0);
    rows.Add(ms, 20, "hog", 900'000, 0, 0, "running");
  }
  EXPECT_TRUE(FindStalls(rows.Read(), {}).empty());
}

// Of a process that launches; of the hog nothing is said.
TEST(Explain, SaysForHowLongItsGpuHadNoWork) {
  std::string text = WithHog().text();
  std::string with_gpu;
  for (size_t at = 0; at < text.size();) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    const bool is_web = line.find(",web,") != line.npos;
    const bool is_held = is_web && line.find(",800000,0,") != line.npos;
    with_gpu += line +
                (line[0] == 's'   ? ",gpu_no_work_ns"
                 : line[0] == '#' ? ""
                 : is_held        ? ",700000"
                 : is_web         ? ",100000"
                                  : ",") +
                "\n";
  }
  const History history = HistoryOf(with_gpu);
  const auto stalls = FindStalls(history, {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_TRUE(stalls[0].launches);
  EXPECT_EQ(stalls[0].gpu[kGpuNoWork], 70'000'000u);
  EXPECT_EQ(stalls[0].usual_no_work_ns, 1'000'000u) << "in 100 ms";
  StoryContext context;
  const auto json = StallJson(stalls[0], context);
  EXPECT_EQ(json["gpu_no_work_ns"], 70'000'000);
  const auto lines = DetailLines(stalls[0], context);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("70.0 ms  at least, its GPU had no work of it (usual: 1.0)") != line.npos;
  }));
  const auto without = FindStalls(WithHog().Read(), {});
  EXPECT_FALSE(without.at(0).launches);
  EXPECT_TRUE(StallJson(without[0], context)["gpu_no_work_ns"].is_null());
}

// Rows of a process that launches; gpu_ns: no work, asleep, ran, in calls, launcher ran, in calls.
class GpuRows {
 public:
  GpuRows()
      : text_(fmt::format("# nr_cpus: 2\n{},gpu_no_work_ns,gpu_no_work_asleep_ns,gpu_no_work_ran_ns,"
                          "gpu_no_work_in_calls_ns,gpu_launcher_ran_ns,gpu_launcher_in_calls_ns,"
                          "gpu_active_ns\n",
                          kColumns)) {}
  void Add(int64_t ms, int32_t tgid, const std::string& comm, int64_t cpu_ns,
           const std::string& gpu_ns = ",,,,,", int64_t throttled_ns = 0, bool knows_active = true) {
    text_ += fmt::format("{},{},{},7,{},user,{},1000000,0,0,0,{},0,0,0,,,,asleep,{},1,0,{},{}\n",
                         ms * kMs, kUnix + ms * kMs, tgid, comm, cpu_ns, throttled_ns, ms * kMs, gpu_ns,
                         gpu_ns != ",,,,," && knows_active ? "1000000" : "");
  }
  History Read() const { return HistoryOf(text_); }

 private:
  std::string text_;
};

TEST(Explain, AGpuThatIsStarvedByNobodyWhoIsKnownIsTold) {
  for (const bool sleeps : {true, false}) {
    GpuRows rows;  // for 200 ms nothing comes
    for (int64_t ms = 0; ms < 2000; ms++) {
      const bool lacks = ms >= 1000 && ms < 1200;
      rows.Add(ms, 10, "trainer", 500'000,
               !lacks   ? "100000,0,100000,50000,500000,50000"
               : sleeps ? "1000000,950000,50000,50000,500000,50000"
                        : "1000000,0,1000000,250000,1000000,250000");
    }
    const auto stalls = FindStalls(rows.Read(), {});
    ASSERT_EQ(stalls.size(), 1u);
    EXPECT_EQ(stalls[0].why, kStarved);
    EXPECT_EQ(
        Headline(stalls[0]),
        std::string("the GPU of trainer (10) had no work for at least 200 of 200 ms: the thread "
                    "that launches ") +
            (sleeps ? "slept, not in CUDA and not for a disk" : "ran, 25% of that in calls of CUDA"));
  }
}

// The headline has all of that time; what its thread did, the part that it did.
TEST(Explain, OfAStarvedGpuAllOfItsTimeIsTold) {
  GpuRows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    const bool lacks = ms >= 1000 && ms < 1200;
    rows.Add(ms, 10, "trainer", 500'000,
             !lacks ? "100000,0,100000,50000,500000,50000" : "900000,500000,100000,50000,500000,50000");
  }
  const auto stalls = FindStalls(rows.Read(), {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(
      Headline(stalls[0]),
      "the GPU of trainer (10) had no work for at least 180 of 200 ms; for 100 ms of that the thread "
      "that launches slept, not in CUDA and not for a disk");
}

// Its thread slept instead of waiting for a CPU (which is not told apart here): it had as much to do.
TEST(Explain, AGpuThatHasNoLessToDoThanUsualIsNotStarved) {
  GpuRows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    const bool sleeps = ms >= 1000 && ms < 1200;
    rows.Add(ms, 10, "trainer", 500'000,
             sleeps ? "600000,600000,0,0,500000,50000" : "700000,0,50000,0,500000,50000");
  }
  EXPECT_TRUE(FindStalls(rows.Read(), {}).empty());
}

// It is told with whoever was held up at just that time, if its thread slept meanwhile.
TEST(Explain, AGpuThatIsStarvedIsPartOfWhatHeldUpItsLoaderOnly) {
  const struct {
    int64_t from_ms, to_ms;  // the loader's
    bool sleeps;
    bool is_part;
  } kCases[] = {{1000, 1200, true, true},
                {1000, 1200, false, false},
                {200, 1900, true, false},
                {1180, 1400, true, false}};
  for (const auto& c : kCases) {
    GpuRows rows;
    for (int64_t ms = 0; ms < 2000; ms++) {
      const bool lacks = ms >= 1000 && ms < 1200;
      rows.Add(ms, 10, "trainer", 500'000,
               !lacks     ? "100000,0,100000,50000,500000,50000"
               : c.sleeps ? "1000000,950000,50000,50000,500000,50000"
                          : "1000000,0,1000000,250000,1000000,250000");
      rows.Add(ms, 20, "loader", 100'000, ",,,,,", ms >= c.from_ms && ms < c.to_ms ? 900'000 : 0);
    }
    const auto stalls = FindStalls(rows.Read(), {});
    ASSERT_EQ(stalls.size(), c.is_part ? 1u : 2u) << c.from_ms << " " << c.sleeps;
    const std::string clause = "; meanwhile the GPU of trainer (10) had no work for at least 200 ms";
    for (const Stall& stall : stalls)
      EXPECT_EQ(Headline(stall).find(clause) != std::string::npos, c.is_part) << Headline(stall);
  }
}

// A little of the same on both sides, a second long, makes it neither longer nor less sure.
TEST(Explain, AStallIsWhereMostOfItIs) {
  GpuRows rows;
  for (int64_t ms = 0; ms < 5000; ms++) {
    const bool is_hit = ms >= 2000 && ms < 2400;
    const bool is_touched = ms >= 1000 && ms < 3400 && ms % 400 < 20;
    rows.Add(ms, 10, "trainer", 500'000,
             is_hit ? "1000000,950000,50000,50000,500000,50000" : "100000,0,100000,50000,500000,50000");
    rows.Add(ms, 20, "loader", 100'000, ",,,,,", is_hit || is_touched ? 900'000 : 0);
  }
  const auto stalls = FindStalls(rows.Read(), {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].from_ns, kUnix + 2000 * kMs) << Headline(stalls[0]);
  EXPECT_EQ(stalls[0].to_ns, kUnix + 2420 * kMs);
  EXPECT_NE(Headline(stalls[0]).find("; meanwhile the GPU of trainer (10) "), std::string::npos);
}

// Of a server whose GPU has nothing to do most of the time that is no moment.
TEST(Explain, AGpuThatIsIdleAsUsualIsNotStarved) {
  GpuRows rows;
  for (int64_t ms = 0; ms < 6000; ms++) {
    const bool serves = ms % 2000 < 70;
    rows.Add(ms, 10, "server", serves ? 500'000 : 0,
             serves ? "100000,0,100000,50000,500000,50000" : "1000000,1000000,0,0,0,0");
  }
  EXPECT_TRUE(FindStalls(rows.Read(), {}).empty());
}

// Of what is in no row nothing is said, not even 0.
TEST(Explain, WhatWasNotMeasuredOfAGpuIsNull) {
  std::string text = fmt::format("# nr_cpus: 2\n{},gpu_no_work_ns\n", kColumns);
  for (int64_t ms = 0; ms < 2000; ms++)
    text += fmt::format("{},{},10,7,trainer,user,500000,1000000,0,0,0,0,0,0,0,,,,asleep,0,1,0,400000\n",
                        ms * kMs, kUnix + ms * kMs);
  const History history = HistoryOf(text);
  const auto stalls = StallsIn(history, {{10}, {}, {}, {}}, kUnix + 1000 * kMs, kUnix + 1100 * kMs, 1);
  ASSERT_EQ(stalls.size(), 1u);
  const auto json = StallJson(stalls[0], {});
  EXPECT_EQ(json["gpu_no_work_ns"], 40'000'000);
  for (const char* name : {"gpu_no_work_ran_ns", "gpu_no_work_throttled_ns", "gpu_launcher_ran_ns"})
    EXPECT_TRUE(json[name].is_null()) << name;
}

// Where calls were lost it may have waited for them all.
TEST(Explain, WhatWasLostIsNotTakenForWhatNeverWaits) {
  GpuRows rows;
  for (int64_t ms = 0; ms < 2000; ms++)
    rows.Add(ms, 10, "trainer", 900'000, ",,,,900000,300000", 0, false);
  const auto stalls =
      StallsIn(rows.Read(), {{10}, {}, {}, {}}, kUnix + 1000 * kMs, kUnix + 1100 * kMs, 1);
  ASSERT_EQ(stalls.size(), 1u);
  std::string text;
  for (const std::string& line : DetailLines(stalls[0], {})) text += line + "\n";
  EXPECT_EQ(text.find("never waited"), std::string::npos) << text;
  EXPECT_NE(text.find("when its GPU had no work is not known: calls of CUDA were lost"),
            std::string::npos)
      << text;
  EXPECT_TRUE(StallJson(stalls[0], {})["gpu_no_work_ns"].is_null());
}

// Nobody knows when the GPU of a loop that never waits for it has work; never that it always has.
TEST(Explain, WhatIsNotVisibleFromTheHostIsNotNothing) {
  GpuRows rows;
  for (int64_t ms = 0; ms < 2000; ms++) rows.Add(ms, 10, "trainer", 900'000, ",,,,900000,300000");
  const auto stalls =
      StallsIn(rows.Read(), {{10}, {}, {}, {}}, kUnix + 1000 * kMs, kUnix + 1100 * kMs, 1);
  ASSERT_EQ(stalls.size(), 1u);
  std::string text;
  for (const std::string& line : DetailLines(stalls[0], {})) text += line + "\n";
  EXPECT_NE(
      text.find("never waited for all that it had launched: when its GPU had no work is not visible"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("90.0 ms  its launching thread ran, 33% of that in calls of CUDA"),
            std::string::npos)
      << text;
  const auto json = StallJson(stalls[0], {});
  EXPECT_TRUE(json["gpu_no_work_ns"].is_null());
  EXPECT_EQ(json["gpu_launcher_ran_ns"], 90'000'000);
}

// As of a process that uses a GPU, which has rows while it sleeps.
TEST(Explain, RowsOfOneSleepAreOneSleep) {
  Rows rows;
  for (int64_t ms = 0; ms < 1000; ms++) {
    rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
    rows.Add(ms, 10, "train", ms < 100 ? 500'000 : 0, 0, 0, "asleep", ms < 100 ? ms : 100);
  }
  Selection selection;
  selection.pids = {10};
  const auto stalls = StallsIn(rows.Read(), selection, kUnix + 400 * kMs, kUnix + 500 * kMs, 1);
  for (const Stall& stall : stalls) {
    EXPECT_EQ(stall.asleep_ns, 100'000'000u);
    EXPECT_EQ(stall.asleep_since_ns, kUnix + 100 * kMs);
  }
  EXPECT_EQ(stalls.size(), 1u);
}

TEST(Explain, ASelectionIsObeyed) {
  const History history = WithHog().Read();
  Selection selection;
  selection.comms = {"other"};
  EXPECT_TRUE(FindStalls(history, selection).empty());
  selection.comms = {"web"};
  EXPECT_EQ(FindStalls(history, selection).size(), 1u);
  selection.comms.clear();
  selection.pids = {10};
  EXPECT_EQ(FindStalls(history, selection).size(), 1u);
}

// Who was where, as the table processes says.
ProcessPlaces PlacesOf(const std::vector<std::pair<int32_t, std::string>>& pods) {
  ProcessPlaces places;
  places.OnLine("slot_start_ns,tgid,start_time_ns,cgroup,container_id,pod_uid,pod,unit");
  for (const auto& [tgid, pod] : pods)
    places.OnLine(fmt::format("1,{},7,/kubepods/{},,uid-of-{},{},", tgid, pod, pod, pod));
  return places;
}

TEST(Explain, SaysInWhichPodsTheyAre) {
  History history = WithHog().Read();
  history.SetPlaces(PlacesOf({{10, "ml/web-0"}, {20, "db/pg-1"}}));
  const std::vector<Stall> stalls = FindStalls(history, {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(Headline(stalls[0]),
            "web (10, pod ml/web-0) waited 80.0 of 100 ms for a CPU while hog (20, pod db/pg-1) ran");
  history.SetPlaces(PlacesOf({}));
  EXPECT_EQ(Headline(FindStalls(history, {}).at(0)),
            "web (10) waited 80.0 of 100 ms for a CPU while hog (20) ran");
}

TEST(Explain, SpeaksOfPodsIfAsked) {
  Rows rows;  // as WithHog(), by one process after the other
  for (int64_t ms = 0; ms < 2000; ms++) {
    const bool hog = ms >= 1000 && ms < 1100;
    const auto tgid = static_cast<int32_t>(100 + ms % 7);
    if (hog) rows.Add(ms, tgid, "part" + std::to_string(tgid), 800'000, 0, 0, "running");
    if (ms % 10 == 0 || hog)
      rows.Add(ms, 10, "web", hog ? 200'000 : 1'000'000, hog ? 800'000 : 0, hog ? tgid : 0);
    rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
  }
  History history = rows.Read();
  std::vector<std::pair<int32_t, std::string>> pods = {{10, "ml/web-0"}};
  for (int32_t i = 0; i < 7; i++) pods.emplace_back(100 + i, "db/pg-1");
  history.SetPlaces(PlacesOf(pods));
  Selection by_pod;
  by_pod.group_by = GroupBy::kPod;
  const std::vector<Stall> stalls = FindStalls(history, by_pod);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(Headline(stalls[0]),
            "pod ml/web-0 waited 80.0 of 100 ms for a CPU while pod db/pg-1 (7 processes) ran");
  const std::string text = StoryText(stalls, {});
  EXPECT_NE(text.find("--pod ml/web-0"), text.npos) << text;
  by_pod.members = {{10, 7}};
  by_pod.groups.pods = {"web-0"};
  EXPECT_EQ(FindStalls(history, by_pod).size(), 1u);
  by_pod.members = {{30, 7}};
  EXPECT_TRUE(FindStalls(history, by_pod).empty());
}

// The other pod is busy all the time: of what it usually takes its newcomer is a part.
TEST(Explain, OfAnotherPodTheNewcomerIsToldWithItsOwnTimes) {
  Rows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    const bool hog = ms >= 1000 && ms < 1100;
    rows.Add(ms, 10, "web", hog ? 200'000 : 1'000'000, hog ? 800'000 : 0, hog ? 20 : 0);
    if (hog) rows.Add(ms, 20, "hog", 800'000, 0, 0, "running");
    rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
  }
  History history = rows.Read();
  history.SetPlaces(PlacesOf({{10, "ml/web-0"}, {20, "db/pg-1"}, {30, "db/pg-1"}}));
  Selection by_pod;
  by_pod.group_by = GroupBy::kPod;
  const std::vector<Stall> stalls = FindStalls(history, by_pod);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(Headline(stalls[0]), "pod ml/web-0 waited 80.0 of 100 ms for a CPU while pod db/pg-1 ran");
  const std::string text = StoryText(stalls, {});
  EXPECT_NE(text.find("(hog: CPU time 80.0 ms, usually"), text.npos) << text;
}

// Both are in one pod, with one that is busy all the time: the pod takes hardly more than it usually
// does.
TEST(Explain, ANewcomerInTheSamePodIsNamed) {
  const auto history_of = [](bool has_newcomer) {
    Rows rows;
    for (int64_t ms = 0; ms < 3000; ms++) {
      const bool hog = has_newcomer && ms >= 1000 && ms < 1400;
      // They take turns on CPU 0; another CPU is busy all the time.
      rows.Add(ms, 10, "web", hog ? 500'000 : 900'000, hog ? 500'000 : 0, hog ? 20 : 0);
      if (hog) rows.Add(ms, 20, "hog", 500'000, 500'000, 10, "running");
      rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
    }
    History history = rows.Read();
    history.SetPlaces(PlacesOf({{10, "ml/all"}, {20, "ml/all"}, {30, "ml/all"}}));
    return history;
  };
  Selection by_pod;
  by_pod.group_by = GroupBy::kPod;
  const std::vector<Stall> stalls = FindStalls(history_of(true), by_pod);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(Headline(stalls[0]),
            "pod ml/all (2 processes) waited 400 of 400 ms for a CPU while hog (20, pod ml/all) ran");
  EXPECT_TRUE(FindStalls(history_of(false), by_pod).empty());
}

TEST(Explain, WhoIsStoppedHasNoRowsMeanwhile) {
  Rows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
    if (ms < 500 || ms >= 800)
      rows.Add(ms, 10, "web", 500'000, 0, 0, ms == 499 ? "stopped" : "asleep", 499);
  }
  const std::vector<Stall> stalls = FindStalls(rows.Read(), {});
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(Headline(stalls[0]), "web (10) was stopped (SIGSTOP or frozen) for 301 of 310 ms");
}

TEST(Explain, WhatWasToldTooLateIsOfWhoRanThere) {
  History with;
  SlotRow row;
  for (int64_t ms = 0; ms < 1000; ms++) {
    row.start_ns = kUnix + ms * kMs;
    row.slot_ns = kMs;
    row.key = {20, 7};
    row.comm = "hog";
    row.kind = "user";
    row.cpu_ns = 1'000'000;
    row.nr_cpus = 1;
    row.main_cpu = ms < 500 ? 1 : 0;
    with.OnSlot(row);
  }
  WaitTableRow earlier;  // as an older recording has it
  earlier.start_ns = kUnix + 999 * kMs;
  earlier.waiter = {10, 7};
  earlier.cpu = 1;
  earlier.ns = 200 * kMs;
  earlier.wait_start_ns = kUnix + 400 * kMs;
  with.OnEarlierWait(earlier);
  with.Finish();
  const auto waiter = std::find_if(with.processes().begin(), with.processes().end(),
                                   [](const ProcessHistory& one) { return one.key.tgid == 10; });
  ASSERT_NE(waiter, with.processes().end());
  Hindered sum = {};
  for (const ProcessBin& bin : waiter->bins)
    for (size_t why = 0; why < kNrHindrances; why++) sum[why] += bin.ns[why];
  EXPECT_EQ(sum[kByOthers], 100u * kMs);   // while the hog was on that CPU
  EXPECT_EQ(sum[kByUnknown], 100u * kMs);  // nobody was
}

// Of a file of slots alone nobody knows who ran; it is a guess, and says so, and nobody waits for longer
// than there is.
TEST(Explain, OfAFileOfSlotsALongWaitIsAGuess) {
  Rows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    rows.Add(ms, 20, "hog", 1'000'000, 0, 0, "running");
    if (ms % 100 == 0 && ms != 1000 && ms != 1100) rows.Add(ms, 10, "web", 100'000);
    if (ms == 1180)
      rows.AddLine(
          fmt::format("{},{},10,7,web,user,100000,1000000,250000000,0,0,0,0,0,0,,,,asleep,0,1,0",
                      ms * kMs, kUnix + ms * kMs));
  }
  const History history = rows.Read();
  const auto stalls = StallsIn(history, {{10}, {}, {}, {}}, kUnix + 900 * kMs, kUnix + 1200 * kMs, 1);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_TRUE(stalls[0].guesses);
  EXPECT_EQ(stalls[0].confidence(), Confidence::kLow);
  EXPECT_EQ(StallJson(stalls[0], {})["guesses"], true);
  EXPECT_EQ(stalls[0].waited_ns(), 250u * kMs);
  for (const ProcessHistory& process : history.processes())
    for (const ProcessBin& bin : process.bins) {
      uint64_t waited_ns = 0;
      for (size_t why = 0; why < kNrWaitHindrances; why++) waited_ns += bin.ns[why];
      EXPECT_LE(waited_ns, static_cast<uint64_t>(kBinNs)) << process.comm;
    }
  EXPECT_FALSE(StallsIn(WithHog().Read(), {}, kUnix + 900 * kMs, kUnix + 1200 * kMs, 1).at(0).guesses);
}

// Of what passed in retired slots the recording says who ran, and for how long; not when.
TEST(Explain, WhatWasToldTooLateHasItsCauses) {
  History with;
  SlotRow row;
  for (int64_t ms = 0; ms < 1000; ms++) {
    row.start_ns = kUnix + ms * kMs;
    row.slot_ns = kMs;
    row.key = {30, 7};
    row.comm = "innocent";
    row.kind = "user";
    row.cpu_ns = 1'000'000;
    row.nr_cpus = 1;
    row.main_cpu = 1;
    with.OnSlot(row);
  }
  WaitTableRow earlier;
  earlier.start_ns = kUnix + 999 * kMs;
  earlier.waiter = {10, 7};
  earlier.cpu = 1;
  earlier.wait_start_ns = kUnix + 400 * kMs;
  earlier.wait_until_ns = kUnix + 600 * kMs;
  earlier.ns = 150 * kMs;
  earlier.earlier_cause = "others";
  earlier.ran = {20, 7};
  earlier.ran_comm = "hog";
  with.OnEarlierWait(earlier);
  earlier.ns = 50 * kMs;
  earlier.earlier_cause = "throttled";
  earlier.ran = {};
  with.OnEarlierWait(earlier);
  with.Finish();
  const std::vector<ProcessHistory>& processes = with.processes();
  const auto waiter = std::find_if(processes.begin(), processes.end(),
                                   [](const ProcessHistory& one) { return one.key.tgid == 10; });
  ASSERT_NE(waiter, processes.end());
  ASSERT_EQ(waiter->bins.size(), 20u);
  for (const ProcessBin& bin : waiter->bins) {
    EXPECT_EQ(bin.ns[kByOthers], 7'500'000u);
    EXPECT_EQ(bin.ns[kByQuota], 2'500'000u);
    EXPECT_EQ(bin.ns[kByUnknown], 0u);
  }
  uint64_t ran_ns = 0;
  for (const RanWhile& ran : with.ran_instead()) {
    EXPECT_EQ(processes.at(ran.ran).key.tgid, 20);
    ran_ns += ran.ns;
  }
  EXPECT_EQ(ran_ns, 150u * kMs);
}

// The recording ends first: whoever ran on its last CPU is in its way.
TEST(Explain, AWaitThatHasNotEndedIsOfWhoRanThere) {
  History with;
  SlotRow row;
  const auto add = [&](int64_t ms, int32_t tgid, const char* comm, int32_t cpu, const char* state) {
    row.start_ns = kUnix + ms * kMs;
    row.slot_ns = kMs;
    row.key = {tgid, 7};
    row.comm = comm;
    row.kind = "user";
    row.cpu_ns = 1'000'000;
    row.nr_cpus = 1;
    row.main_cpu = cpu;
    row.state = state;
    with.OnSlot(row);
  };
  for (int64_t ms = 0; ms < 1000; ms++) {
    if (ms <= 500) add(ms, 10, "web", 1, ms == 500 ? "waiting" : "running");
    if (ms > 500) add(ms, 20, "hog", 1, "running");
    add(ms, 30, "other", 0, "running");
  }
  with.Finish();
  const auto waiter = std::find_if(with.processes().begin(), with.processes().end(),
                                   [](const ProcessHistory& one) { return one.key.tgid == 10; });
  Hindered sum = {};
  for (const ProcessBin& bin : waiter->bins)
    for (size_t why = 0; why < kNrHindrances; why++) sum[why] += bin.ns[why];
  EXPECT_GE(sum[kByOthers], 498u * kMs);
  EXPECT_EQ(sum[kByUnknown], 0u);
  for (const RanWhile& ran : with.ran_instead()) EXPECT_EQ(with.processes().at(ran.ran).key.tgid, 20);
}

// Blocked for a moment, then woken up; that it waited from then on is told when it runs at last.
TEST(Explain, AStateLastsNoLongerThanTheNextRowSays) {
  for (const bool is_in_table : {true, false}) {
    for (const char* state : {"disk", "asleep", "blocked"}) {
      History history;
      SlotRow row;
      row.slot_ns = kMs;
      row.kind = "user";
      row.nr_cpus = 1;
      const auto add = [&](int64_t ms, int32_t tgid, uint64_t cpu_ns, const char* then, int64_t since) {
        row.start_ns = kUnix + ms * kMs;
        row.key = {tgid, 7};
        row.cpu_ns = cpu_ns;
        row.main_cpu = tgid == 20 ? 1 : 0;
        row.state = then;
        row.state_since_ns = kUnix + since;
        history.OnSlot(row);
      };
      for (int64_t ms = 0; ms < 1000; ms++) {
        if (ms == 500) add(ms, 10, 500'000, state, 500 * kMs + 500'000);
        if (ms == 740) {
          // With the beginning of the wait, or with that of what it did before that row.
          add(ms, 10, 500'000, "asleep", is_in_table ? ms * kMs + 500'000 : 501 * kMs);
          WaitTableRow earlier;
          earlier.start_ns = row.start_ns;
          earlier.waiter = {10, 7};
          earlier.cpu = 1;
          earlier.ns = 239 * kMs;
          earlier.wait_start_ns = kUnix + 501 * kMs;
          if (is_in_table) history.OnEarlierWait(earlier);
        }
        add(ms, 20, 1'000'000, "running", ms * kMs);
      }
      history.Finish();
      Selection selection;
      selection.pids = {10};
      const std::vector<Stall> stalls =
          StallsIn(history, selection, kUnix + 500 * kMs, kUnix + 740 * kMs, 1);
      ASSERT_EQ(stalls.size(), 1u);
      const Stall& stall = stalls[0];
      EXPECT_EQ(stall.ns[kByDisk] + stall.ns[kBlocked], state == std::string("asleep") ? 0 : 500'000u)
          << state;
      EXPECT_LE(stall.asleep_ns, is_in_table ? 500'000u : 239 * kMs + 500'000u) << state;
      if (!is_in_table) continue;
      EXPECT_EQ(stall.why, kByOthers) << state;
      EXPECT_EQ(stall.ns[kByOthers], 239u * kMs);
      EXPECT_GE(stall.told_until_ns, kUnix + 741 * kMs) << "its rows are behind it";
      uint64_t all_ns = stall.cpu_ns + stall.asleep_ns;
      for (const uint64_t ns : stall.ns) all_ns += ns;
      EXPECT_LE(all_ns, static_cast<uint64_t>(stall.length_ns())) << state;
    }
  }
}

// Of some waiting it is not known for whom; in all it is as long as ever.
TEST(Explain, WaitingThatIsOnlyUnknownIsNoMoment) {
  for (const bool is_more : {false, true}) {
    History history;
    SlotRow row;
    row.slot_ns = kMs;
    row.kind = "user";
    row.key = {10, 7};
    row.comm = "web";
    row.has_waits = true;
    for (int64_t ms = 0; ms < 3000; ms++) {
      const bool is_then = ms >= 1000 && ms < 1200;
      row.start_ns = kUnix + ms * kMs;
      row.wait_ns = {};
      row.wait_ns[is_then ? kByUnknown : kByOthers] = is_then && is_more ? 1'600'000 : 800'000;
      history.OnSlot(row);
    }
    history.Finish();
    const std::vector<Stall> stalls = FindStalls(history, {});
    ASSERT_EQ(stalls.size(), is_more ? 1u : 0u);
    if (is_more) {
      EXPECT_NEAR(stalls[0].severity_ns, 80e6, 1e6) << "half of what is more than usual";
    }
  }
}

TEST(Explain, ALossIsTold) {
  Rows rows = WithHog();
  for (int64_t ms = 1500; ms < 1700; ms++)
    rows.AddLine(fmt::format("{},{},,,,lost,1500000,1000000,,,,,,,,,,,,,,", ms * kMs, kUnix + ms * kMs));
  const std::vector<Stall> stalls = FindStalls(rows.Read(), {});
  const auto lost =
      std::find_if(stalls.begin(), stalls.end(), [](const Stall& one) { return one.who.nr == 0; });
  ASSERT_NE(lost, stalls.end());
  EXPECT_NE(Headline(*lost).find("lost"), std::string::npos);
  EXPECT_EQ(lost->confidence(), Confidence::kLow);
}

TEST(Explain, ARangeIsToldWhateverIsUsual) {
  const History history = WithHog().Read();
  const auto stalls = StallsIn(history, {}, kUnix + 500 * kMs, kUnix + 600 * kMs, 5);
  EXPECT_TRUE(stalls.empty());  // nobody was held up
  Selection selection;
  selection.comms = {"web"};
  const auto of_web = StallsIn(history, selection, kUnix + 500 * kMs, kUnix + 600 * kMs, 5);
  ASSERT_EQ(of_web.size(), 1u);
  EXPECT_NE(Headline(of_web[0]).find("was not held up"), std::string::npos);
}

// How long it was there, and not how long the range is.
TEST(Explain, OfARangeItIsToldHowLongItWasThere) {
  Rows rows;
  const auto add = [&](int64_t ms, int32_t tgid, int64_t born_ms, const char* comm, const char* state) {
    rows.AddLine(
        fmt::format("{},{},{},{},{},user,500000,1000000,0,500000,0,0,0,0,0,30,7,500000,{},{},1,0",
                    ms * kMs, kUnix + ms * kMs, tgid, born_ms * kMs, comm, state, ms * kMs));
  };
  for (int64_t ms = 100'000; ms < 110'000; ms++) {
    rows.Add(ms, 30, "hog", 500'000, 0, 0, "running");
    if (ms >= 104'000 && ms < 107'000)
      add(ms, 10, 104'000, "brief", ms == 106'999 ? "ended" : "running");
    if (ms >= 104'000 && ms < 107'000) add(ms, 11, 50'000, "old", ms == 106'999 ? "asleep" : "running");
  }
  const History history = rows.Read();
  const auto headline = [&](const char* comm) {
    Selection selection;
    selection.comms = {comm};
    const auto stalls = StallsIn(history, selection, kUnix + 100'000 * kMs, kUnix + 110'000 * kMs, 1);
    return stalls.empty() ? "" : Headline(stalls[0]);
  };
  EXPECT_EQ(headline("brief"), "brief (10) waited 1500 of 3000 ms for a CPU while hog (30) ran");
  EXPECT_EQ(headline("old"), "old (11) waited 1500 of 10000 ms for a CPU while hog (30) ran");
}

// What explain says of rows, all of them.
std::string ToldOf(const Rows& rows, const ReaderOptions& reader = {}, bool json = false) {
  const TempFolder folder;
  folder.Write("slots.csv", rows.text());
  ExplainOptions options;
  options.reader = reader;
  options.reader.path = folder.At("slots.csv");
  options.reader.json = json;
  testing::internal::CaptureStdout();
  EXPECT_EQ(Explain(options), 0);
  return testing::internal::GetCapturedStdout();
}

// Nothing stands out where all of it is bad: who waits is told, and nobody accused of it.
TEST(Explain, OfARecordingThatIsAllBadItIsToldWhoWaits) {
  Rows rows;
  for (int64_t ms = 0; ms < 2000; ms++) {
    rows.Add(ms, 10, "web", 300'000, 700'000, 20);
    rows.Add(ms, 20, "hog", 700'000, 10'000, 10, "running");
    if (ms == 700) rows.Add(ms, 30, "brief", 100'000, 900'000, 20);  // much of its own, little of all
  }
  const std::string told = ToldOf(rows);
  EXPECT_NE(told.find("Quiet: no process was held up"), told.npos) << told;
  EXPECT_NE(told.find("Usual here: web (10) waited for a CPU 70% of the time in which it wanted one."),
            told.npos)
      << told;
  EXPECT_EQ(told.find("hog"), told.npos) << told;
  EXPECT_EQ(told.find("brief"), told.npos) << told;
  const auto json = nlohmann::json::parse(ToldOf(rows, {}, true));
  EXPECT_TRUE(json["quiet"]);
  ASSERT_EQ(json["usual_waiting"].size(), 1u);
  EXPECT_EQ(json["usual_waiting"][0]["pid"], 10);
  EXPECT_EQ(json["usual_waiting"][0]["waited_ns"], 1'400'000'000);
  EXPECT_EQ(ToldOf(WithHog()).find("Usual here"), std::string::npos);
}

TEST(Explain, AMomentThatIsLongerThanTheRangeSaysSo) {
  ReaderOptions reader;
  const auto at = [](int64_t ms) {
    return fmt::format("@{:.3f}", static_cast<double>(kUnix / kMs + ms) / 1e3);
  };
  reader.since = at(1'050);
  std::string told = ToldOf(WithHog(), reader);
  EXPECT_NE(told.find("it began in front of the range"), told.npos) << told;
  EXPECT_EQ(told.find("it went on behind"), told.npos) << told;
  reader.since = at(500);
  reader.until = at(1'050);
  told = ToldOf(WithHog(), reader);
  EXPECT_EQ(told.find("it began in front"), told.npos) << told;
  EXPECT_NE(told.find("it went on behind the range"), told.npos) << told;
}

TEST(Explain, ARecordingSaysThatItDoesNotObserveCuda) {
  const TempFolder folder;
  folder.Write("with.csv", WithHog().text());
  folder.Write("without.csv",
               "# not_measured: cycles gpu_mem_bytes gpu_launches straggle\n" + WithHog().text());
  for (const bool observes : {true, false}) {
    RecordingTables tables;
    ASSERT_TRUE(tables.Open(folder.At(observes ? "with.csv" : "without.csv")).ok());
    EXPECT_EQ(tables.facts().observes_cuda, observes);
  }
}

TEST(Explain, ARangeThatIsNoneIsRefused) {
  const TempFolder folder;
  folder.Write("slots.csv", WithHog().text());
  const auto error = [&](const char* since, const char* until) {
    ExplainOptions options;
    options.reader.path = folder.At("slots.csv");
    options.reader.since = since;
    options.reader.until = until;
    testing::internal::CaptureStderr();
    EXPECT_EQ(Explain(options), static_cast<int>(Exit::kUsage));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(error("-1s", "-1s").find("are the same moment: --at"), std::string::npos);
  EXPECT_NE(error("-1s", "-1500ms").find("ends before it begins"), std::string::npos);
}

TEST(Explain, AroundAMomentIsAHundredMilliseconds) {
  for (const int64_t ms : {1'050, 1'053, 1'059}) {
    ReaderOptions reader;
    reader.at = fmt::format("@{:.3f}", static_cast<double>(kUnix / kMs + ms) / 1e3);
    const std::string told = ToldOf(WithHog(), reader);
    EXPECT_NE(told.find("web (10) waited 80.0 of 100 ms"), told.npos) << told;
  }
}

TEST(Explain, StoriesFitTheScreenAndParse) {
  const History history = WithHog().Read();
  const std::vector<Stall> stalls = FindStalls(history, {});
  StoryContext context;
  context.path = "slotscope.rec";
  context.host = "box";
  context.from_ns = history.from_ns();
  context.to_ns = history.to_ns();
  context.nr_found = stalls.size();
  context.nr_rows = 1;
  context.read_ns = context.to_ns - context.from_ns;
  context.has_waits = context.has_states = context.has_waits_table = true;
  const std::string text = StoryText(stalls, context);
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    EXPECT_LE(end - at, 80u) << text.substr(at, end - at);
  }
  EXPECT_NE(text.find("--rows waits --pid 10"), text.npos) << text;
  const auto json = nlohmann::json::parse(StoryJson(stalls, context));
  EXPECT_EQ(json["moments"][0]["who"]["pid"], 10);
  EXPECT_EQ(json["moments"][0]["cause"], "others");
  EXPECT_EQ(json["moments"][0]["neighbors"][0]["name"], "hog");
  EXPECT_FALSE(json["quiet"]);
  EXPECT_NE(StoryText({}, context).find("Nobody is accused"), std::string::npos);
}

TEST(Explain, WhatCouldNotBeReadIsNotQuiet) {
  StoryContext context;
  context.nr_rows = 1;
  for (const bool is_damaged : {false, true}) {
    context.is_damaged = is_damaged;
    const auto json = nlohmann::json::parse(StoryJson({}, context));
    EXPECT_EQ(json["damaged"], is_damaged);
    EXPECT_EQ(json["quiet"], !is_damaged);
    const std::string text = StoryText({}, context);
    EXPECT_EQ(text.find("Quiet:") == text.npos, is_damaged) << text;
    EXPECT_EQ(text.find("could not be read") != text.npos, is_damaged) << text;
  }
}

// Nothing was recorded for 20 s: nobody slept, was stopped or took no CPU time meanwhile.
TEST(Explain, AGapIsNoTime) {
  Rows rows;
  for (int64_t ms = 0; ms < 24'000; ms++) {
    if (ms >= 2'000 && ms < 22'000) continue;
    const bool waits = ms >= 23'000 && ms < 23'100;
    rows.Add(ms, 20, "busy", 400'000, 0, 0, "running");
    if (ms % 10 == 0 || waits) rows.Add(ms, 10, "web", 300'000, waits ? 600'000 : 0, waits ? 20 : 0);
    if (ms < 2'000) rows.Add(ms, 30, "gone", 100'000, 0, 0, ms == 1'999 ? "stopped" : "asleep", 1'999);
  }
  const History history = rows.Read();
  for (const Stall& stall : FindStalls(history, {})) ADD_FAILURE() << Headline(stall);
  EXPECT_EQ(history.SumOf(kUnix + 5'000 * kMs, kUnix + 6'000 * kMs).slots_ns, 0u);
}

TEST(Explain, WhatWasNotMeasuredIsSaid) {
  const TempFolder folder;
  std::string text = "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns\n";
  for (int64_t ms = 0; ms < 500; ms++)
    text += fmt::format("{},{},10,7,web,user,500000\n", ms * kMs, kUnix + ms * kMs);
  folder.Write("old.csv", text + "500");
  RecordingTables tables;
  ASSERT_TRUE(tables.Open(folder.At("old.csv")).ok());
  EXPECT_TRUE(tables.facts().is_cut);
  History history;
  ASSERT_TRUE(tables.ReadHistory({}, &history).ok());
  EXPECT_FALSE(history.has_waits());
  Selection selection;
  selection.pids = {10};
  const auto stalls = StallsIn(history, selection, history.from_ns(), history.to_ns(), 1);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_FALSE(stalls[0].has_usual);
  StoryContext context;
  context.nr_rows = 1;
  context.told = StoryContext::Told::kAt;
  const std::string story = StoryText(stalls, context);
  EXPECT_NE(story.find("Waiting was not measured"), story.npos) << story;
  EXPECT_EQ(story.find("usual:"), story.npos) << story;
  EXPECT_EQ(story.find("confidence: high"), story.npos) << story;
  const auto json = nlohmann::json::parse(StoryJson(stalls, context));
  EXPECT_TRUE(json["moments"][0]["ns"]["others"].is_null());
  EXPECT_TRUE(json["moments"][0]["usual_cpu_ns"].is_null());
}

// They are blocked whenever they wait for anything.
TEST(Explain, ABlockedThreadOfTheKernelIsNoStallUnlessItIsAskedFor) {
  for (const char* kind : {"kernel", "user"}) {
    Rows rows;
    for (int64_t ms = 0; ms < 2000; ms++) {
      rows.Add(ms, 30, "other", 1'000'000, 0, 0, "running");
      if (ms < 500 || ms >= 800)
        rows.AddLine(fmt::format("{},{},10,7,worker,{},100000,1000000,0,0,0,0,0,0,0,,,,{},{},1,0",
                                 ms * kMs, kUnix + ms * kMs, kind, ms == 499 ? "blocked" : "asleep",
                                 499 * kMs));
    }
    const History history = rows.Read();
    EXPECT_EQ(FindStalls(history, {}).size(), kind == std::string("user") ? 1u : 0u);
    Selection selection;
    selection.comms = {"worker"};
    EXPECT_EQ(FindStalls(history, selection).size(), 1u);
  }
}

// Of a part that is longer than a minute no sums are told; it has rows, and they were quiet.
TEST(Explain, AQuietPartIsNotSaidToHaveNoRows) {
  Rows rows;
  for (int64_t ms = 0; ms < 100'000; ms += 5) rows.Add(ms, 10, "web", 500'000);
  const TempFolder folder;
  folder.Write("slots.csv", rows.text());
  for (const char* since : {"-90s", "-10s"}) {
    ExplainOptions options;
    options.reader.path = folder.At("slots.csv");
    options.reader.since = since;
    testing::internal::CaptureStdout();
    EXPECT_EQ(Explain(options), 0);
    const std::string told = testing::internal::GetCapturedStdout();
    EXPECT_EQ(told.find("has a row"), told.npos) << since << "\n" << told;
  }
}

// It is pasted into a shell.
TEST(Explain, CommandsAreQuoted) {
  Stall stall;
  stall.who.name = "x';reboot;'";
  stall.who.nr = 2;
  stall.who.tgid = 7;
  stall.why = kStopped;
  StoryContext context;
  context.path = "my run's rec";
  const auto json = nlohmann::json::parse(StoryJson({stall}, context));
  const std::string command = json["moments"][0]["command"];
  EXPECT_NE(command.find(R"(explain 'my run'\''s rec' )"), command.npos) << command;
  EXPECT_NE(command.find(R"(--comm 'x'\'';reboot;'\''' )"), command.npos) << command;
}

TEST(Explain, APipeIsReadOnce) {
  const TempFolder folder;
  const std::string fifo = folder.At("pipe");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(fifo) << WithHog().text(); });
  RecordingTables tables;
  EXPECT_TRUE(tables.Open(fifo).ok());
  writer.join();
  for (int times = 0; times < 2; times++) {
    History history;
    ASSERT_TRUE(tables.ReadHistory({}, &history).ok());
    EXPECT_EQ(FindStalls(history, {}).size(), 1u);
  }
}

TEST(Explain, OfALongRecordingTheWorstSecondsAreRead) {
  const TempFolder folder;
  folder.Write("slots.csv", WithHog().text());
  RecordingTables tables;
  ASSERT_TRUE(tables.Open(folder.At("slots.csv")).ok());
  std::vector<UnixRange> ranges;
  ASSERT_TRUE(FindWorstSeconds(tables, {}, {}, 1, &ranges).ok());
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].from_ns, kUnix + 1000 * kMs - kContextNs);
}

TEST(Explain, OfVeryManyRowsLessIsReadAtOnce) {
  EXPECT_EQ(ContextOf(1'000 * kMs, 100, 4'000), kContextNs);
  EXPECT_EQ(ContextOf(1'000 * kMs, 1'000, 4'000), 1'500 * kMs);
  EXPECT_EQ(ContextOf(1'000 * kMs, 1e9, 4'000), kLeastContextNs);
  EXPECT_EQ(ContextOf(1'000 * kMs, 0, 4'000), kContextNs);
  Rows rows;  // a hog in the seconds 10 and 15
  for (int64_t ms = 0; ms < 30'000; ms++) {
    const bool hog = (ms / 1000 == 10 || ms / 1000 == 15) && ms % 1000 < 100;
    rows.Add(ms, 10, "web", hog ? 200'000 : 1'000'000, hog ? 800'000 : 0, hog ? 20 : 0);
  }
  const TempFolder folder;
  folder.Write("slots.csv", rows.text());
  RecordingTables tables;
  ASSERT_TRUE(tables.Open(folder.At("slots.csv")).ok());
  const int64_t first = kUnix / (1000 * kMs) * (1000 * kMs);
  std::vector<UnixRange> ranges;
  ASSERT_TRUE(FindWorstSeconds(tables, {}, {}, 2, &ranges).ok());
  ASSERT_EQ(ranges.size(), 1u);  // all of it has room
  // There is room for 8 s of each: they are apart.
  ASSERT_TRUE(FindWorstSeconds(tables, {}, {}, 2, &ranges, 8'000).ok());
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].to_ns, ranges[1].from_ns);
  EXPECT_LE(ranges[0].from_ns, first + 7'500 * kMs);
  EXPECT_EQ(ranges[0].to_ns, first + 13'000 * kMs);
  EXPECT_EQ(ranges[1].to_ns, first + 19'500 * kMs);
}

TEST(Explain, ARowOfSecondsSaysHowManyItAddsUp) {
  const TempFolder folder;
  folder.Write(
      "seconds.csv",
      fmt::format("slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns,slot_ns,"
                  "slots\n0,{},10,7,web,user,5000,1000000000,731\n",
                  kUnix));
  RecordingTables tables;
  ASSERT_TRUE(tables.Open(folder.At("seconds.csv")).ok());
  uint64_t nr = 0;
  const auto add = [&](const SlotRow& row) { nr += row.nr_slots; };
  ASSERT_TRUE(tables.ReadSlotRows("slots", {}, add).ok());
  EXPECT_EQ(nr, 731u);
  folder.Write("slots.csv", WithHog().text());
  ASSERT_TRUE(tables.Open(folder.At("slots.csv")).ok());
  nr = 0;
  uint64_t nr_rows = 0;
  ASSERT_TRUE(tables
                  .ReadSlotRows("slots", {},
                                [&](const SlotRow& row) {
                                  add(row);
                                  nr_rows++;
                                })
                  .ok());
  EXPECT_GT(nr_rows, 1000u);
  EXPECT_EQ(nr, nr_rows);
}

TEST(Explain, NonsenseInRowsIsSurvived) {
  Rows rows = WithHog();
  for (const char* number :
       {"9223372036854775807", "-9223372036854775808", "18446744073709551615", "", "x"})
    rows.AddLine(
        fmt::format("{0},{0},{0},{0},web,user,{0},{0},{0},{0},{0},{0},{0},{0},{0},{0},{0},{0},"
                    "stopped,{0},1,{0}",
                    number));
  const History history = rows.Read({kUnix, kUnix + 3'000 * kMs});
  EXPECT_EQ(FindStalls(history, {}).size(), 1u);
  const TempFolder folder;
  folder.Write("none.csv", "a,b,c\n1,2,3\n");
  RecordingTables tables;
  EXPECT_EQ(tables.Open(folder.At("none.csv")).code(), Exit::kBadInput);
  EXPECT_EQ(tables.Open(folder.At("absent")).code(), Exit::kBadInput);
}

}  // namespace
}  // namespace slotscope
