// SPDX-License-Identifier: MIT
// slots.csv of a known workload against the kernel's own accounting of the same processes.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "harness.h"

namespace slotscope {
namespace {

struct RowSums {
  uint64_t cpu_ns = 0, wait_ns = 0, switches = 0, preemptions = 0;
  std::set<std::string> comms;
  size_t nr_rows = 0;
};

// Of the slots that had ended by until_ns.
std::map<int32_t, RowSums> SumByTgid(const CsvFile& csv, uint64_t until_ns = UINT64_MAX) {
  std::map<int32_t, RowSums> sums;
  const uint64_t slot_ns = std::stoull(csv.comments.at("slot_ns"));
  for (const auto& row : csv.rows) {
    if (row.at("tgid").empty() || std::stoull(row.at("slot_start_ns")) + slot_ns > until_ns) continue;
    RowSums& sum = sums[std::stoi(row.at("tgid"))];
    sum.cpu_ns += std::stoull(row.at("cpu_ns"));
    sum.wait_ns += std::stoull(row.at("wait_ns"));
    if (!row.at("wait_earlier_ns").empty()) sum.wait_ns += std::stoull(row.at("wait_earlier_ns"));
    sum.switches += std::stoull(row.at("switches"));
    sum.preemptions += std::stoull(row.at("preemptions"));
    sum.comms.insert(row.at("comm"));
    sum.nr_rows++;
  }
  return sums;
}

// The workload's truth lines: cpu_ns, run_delay_ns, voluntary, involuntary, and when that was read.
void CheckAgainstTruth(const Recorded& recorded) {
  CheckIdentity(recorded.csv);
  // An emulated machine whose host is busy can keep the reader from its buffers for seconds. What was
  // lost is then said in time; of the counts in it only the upper bound is left to check.
  const bool has_lost = recorded.csv.comments.at("lost_records") != "0";
  ASSERT_TRUE(!has_lost || IsEmulated()) << recorded.csv.comments.at("lost_records") << " lost records";
  auto sums = SumByTgid(recorded.csv);
  size_t nr_checked = 0;
  uint64_t missed = std::stoull(recorded.csv.comments.at("missed_switches"));
  uint64_t lost_ns = std::stoull(recorded.csv.comments.at("lost_ns"));
  if (has_lost) {
    ASSERT_GT(lost_ns, 0u);
  }
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "truth") continue;
    ASSERT_EQ(line.values.size(), 5u);
    nr_checked++;
    ASSERT_TRUE(sums.contains(line.tgid)) << "no row of " << line.tgid;
    const RowSums& seen = sums[line.tgid];
    auto cpu_ns = static_cast<double>(line.values[0]);
    double allowed =
        1e6 + 0.01 * cpu_ns + static_cast<double>(lost_ns) + static_cast<double>(recorded.stolen_ns);
    // Emulated machine: the kernel's scheduler clock and its monotonic clock drift apart, and it splits
    // time at its own look at the clock, microseconds before the tracepoint where we do. Between the two
    // the host may run something else, which is steal time that nobody tells the guest about.
    if (IsEmulated()) allowed += 0.2 * cpu_ns + 5e3 * static_cast<double>(seen.switches);
    EXPECT_LE(std::abs(static_cast<double>(seen.cpu_ns) - cpu_ns), allowed)
        << "tgid " << line.tgid << ": " << seen.cpu_ns << " ns, the kernel says " << line.values[0];
    // A zombie has its last switches still to come when it is read: one of its own will, and as many
    // preemptions as a busy host makes. What came before is in what the kernel said. (A tick's counts
    // stand in the slot in front of it, and in a guest ticks are late.)
    constexpr uint64_t kTickLateNs = 20'000'000;
    const RowSums before = SumByTgid(recorded.csv, line.values[4] - kTickLateNs)[line.tgid];
    // A switch that the kernel hid takes its neighbours with it.
    uint64_t switches = line.values[2] + line.values[3];
    EXPECT_LE(before.switches, switches) << "tgid " << line.tgid;
    EXPECT_LE(before.preemptions, line.values[3]) << "tgid " << line.tgid;
    if (has_lost) continue;
    EXPECT_GE(seen.switches + 2 * missed, switches) << "tgid " << line.tgid;
    EXPECT_GE(seen.preemptions + 2 * missed, line.values[3]) << "tgid " << line.tgid;
    EXPECT_GE(2 * before.switches + 10, seen.switches)
        << "tgid " << line.tgid << " rested before its end";
  }
  EXPECT_GT(nr_checked, 0u) << recorded.truth.output;
}

TEST(Accuracy, SharesOfOneCpuAgreeWithTheKernel) {
  Recorded recorded = RecordWorkload({"shares", "1500"});
  CheckAgainstTruth(recorded);
  auto sums = SumByTgid(recorded.csv);
  auto tgids = recorded.truth.TgidsOf("proc");
  ASSERT_EQ(tgids.size(), 3u);
  for (size_t i = 0; i < 3; i++) {
    const char* names[] = {"share6", "share3", "share0"};
    EXPECT_TRUE(sums[tgids[i]].comms.contains(names[i]));
  }
  // Pinned to one CPU, they wait for each other: what each waited agrees with sched_info, also where a
  // switch was hidden.
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "truth") continue;
    const auto wait_ns = static_cast<double>(line.values[1]);
    const double excess_ns = static_cast<double>(sums[line.tgid].wait_ns) - wait_ns;
    const double allowed_ns =
        2e6 + 0.02 * wait_ns + static_cast<double>(recorded.stolen_ns) +
        (IsEmulated() ? 0.2 * wait_ns + 5e3 * static_cast<double>(sums[line.tgid].switches) : 0);
    EXPECT_LE(recorded.csv.comments.at("lost_records") == "0" ? std::abs(excess_ns) : excess_ns,
              allowed_ns)
        << "tgid " << line.tgid << " of " << wait_ns << ": missed_switches "
        << recorded.csv.comments.at("missed_switches") << ", steal " << recorded.stolen_ns;
  }
}

TEST(Accuracy, EverySwitchOfAPingPongIsCounted) {
  Recorded recorded = RecordWorkload({"ping-pong", "3000"});
  CheckAgainstTruth(recorded);
  auto sums = SumByTgid(recorded.csv);
  for (int32_t tgid : recorded.truth.TgidsOf("proc")) EXPECT_GE(sums[tgid].switches, 2900u);
}

// The table of the eBPF source has room for pid_max processes: here for 100 more than there are. What
// those do that find none is measured all the same, and who comes when there is room again is known.
TEST(FullTable, WhoFindsNoRoomIsMeasured) {
  if (UsesModule()) GTEST_SKIP() << "its table is another one (tests/vm/in-guest.sh)";
  const std::string dir = MakeDir("full-table");
  const auto nr_now =
      std::ranges::count_if(std::filesystem::directory_iterator("/proc"), [](const auto& entry) {
        return std::isdigit(static_cast<unsigned char>(entry.path().filename().c_str()[0]));
      });
  std::ofstream(dir + "/pid_max") << nr_now + 100 << "\n";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
        mount((dir + "/pid_max").c_str(), "/proc/sys/kernel/pid_max", nullptr, MS_BIND, nullptr))
      _exit(99);
    const Recorded recorded = RecordWorkload({"full-table", "300"}, {"--all"});
    CheckAgainstTruth(recorded);
    EXPECT_GE(std::stoi(recorded.csv.comments.at("untracked_processes")), 150);
    std::vector<int32_t> workers = recorded.truth.TgidsOf("truth");
    // At first: who goes may make room for one of them.
    std::map<std::string, bool> is_known;  // by tgid
    for (const auto& row : recorded.csv.rows) {
      EXPECT_NE(row.at("start_time_ns"), "0");
      is_known.try_emplace(row.at("tgid"), !row.at("start_time_ns").empty());
    }
    EXPECT_EQ(workers.size(), 7u);
    size_t nr_known = 0;
    for (int32_t tgid : workers) nr_known += is_known.at(std::to_string(tgid));
    EXPECT_LE(nr_known, 3u);
    EXPECT_TRUE(is_known.at(std::to_string(workers.back())));
    _exit(testing::Test::HasFailure());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << "what it says is above";
}

TEST(Accuracy, ShortLivedProcessesEachHaveTheirRow) {
  Recorded recorded = RecordWorkload({"many-short", "500"});
  CheckIdentity(recorded.csv);
  auto sums = SumByTgid(recorded.csv);
  size_t nr_missing = 0;
  for (int32_t tgid : recorded.truth.TgidsOf("proc"))
    nr_missing += !sums.contains(tgid) || sums[tgid].cpu_ns == 0;
  EXPECT_LE(nr_missing, std::stoull(recorded.csv.comments.at("missed_switches"))) << "of 500";
}

TEST(Accuracy, CommandRecordsItsDescendantsAndFoldsTheRest) {
  Recorded recorded = RecordWorkload({"many-short", "20"});
  auto tgids = recorded.truth.TgidsOf("proc");
  std::set<int32_t> own(tgids.begin(), tgids.end());
  size_t nr_own = 0, nr_foreign = 0;
  for (const auto& row : recorded.csv.rows) {
    if (row.at("kind") != "user" && row.at("kind") != "unassigned") continue;
    if (own.contains(std::stoi(row.at("tgid"))))
      nr_own++;
    else
      nr_foreign += row.at("comm") != "sh" && row.at("comm") != "live_tests" &&
                    row.at("comm") != "slotscope" && row.at("comm") != "exe";
  }
  EXPECT_GT(nr_own, 0u);
  EXPECT_EQ(nr_foreign, 0u);
}

TEST(Accuracy, HostileNamesStayInTheirField) {
  Recorded recorded = RecordWorkload({"rename"});
  CheckIdentity(recorded.csv);
  auto sums = SumByTgid(recorded.csv);
  int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  EXPECT_TRUE(sums[tgid].comms.contains("a\\x2cb\\x22c\\x5cd\\x0a\\x1b[2J"));
}

TEST(Accuracy, AFloodOfNamesIsBoundedAndCountedAndTheLastOneIsKnown) {
  Recorded recorded = RecordWorkload({"rename-flood", "100000"});
  CheckIdentity(recorded.csv);
  EXPECT_EQ(recorded.csv.comments.at("lost_records"), "0");
  const uint64_t nr_untold = std::stoull(recorded.csv.comments.at("untold_renames"));
  EXPECT_GT(nr_untold, 10'000u);
  EXPECT_LT(nr_untold, 100'000u);
  const int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  std::string last;
  for (const auto& row : recorded.csv.rows)
    if (row.at("tgid") == std::to_string(tgid)) last = row.at("comm");
  EXPECT_EQ(last, "at last");
}

TEST(Accuracy, AThreadsNameIsNotItsProcesss) {
  Recorded recorded = RecordWorkload({"rename-thread"});
  auto sums = SumByTgid(recorded.csv);
  int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  EXPECT_TRUE(sums[tgid].comms.contains("the leader's"));
  EXPECT_FALSE(sums[tgid].comms.contains("a thread's"));
}

TEST(Accuracy, CountersAreDeltasOfTheInterval) {
  // No PMU here: the clock counts instead, in the same columns by the same path.
  Recorded recorded =
      RecordWorkload({"shares", "300"}, {"--events", "cycles=cpu-clock,instructions=task-clock"});
  CheckIdentity(recorded.csv);
  uint64_t cpu_ns = 0, clock_ns = 0;
  size_t nr_empty = 0;
  for (const auto& row : recorded.csv.rows) {
    if (row.at("cpu_ns") == "0") continue;  // it has only waited
    if (row.at("cycles").empty()) {
      nr_empty += row.at("kind") != "lost" && row.at("kind") != "offline";
      continue;
    }
    cpu_ns += std::stoull(row.at("cpu_ns"));
    clock_ns += std::stoull(row.at("cycles"));
    EXPECT_EQ(row.at("mux_pct"), "100.0");
    EXPECT_TRUE(row.at("llc_misses").empty());
  }
  EXPECT_GT(cpu_ns, 100'000'000u);
  // A row of one interval so short that the counter's clock did not advance is empty, not 0.
  EXPECT_LE(nr_empty, recorded.csv.rows.size() / 50);
  // The clocks of an emulated CPU drift apart when its host is busy.
  EXPECT_NEAR(static_cast<double>(clock_ns) / static_cast<double>(cpu_ns), 1.0,
              IsEmulated() ? 0.1 : 0.02);
}

// As many as there can be, and each of them the whole time: a column that was filled from another one's
// place, or not at all, is found out by its sum.
TEST(Accuracy, EightCountersAreEightColumns) {
  constexpr const char* kColumns[] = {"cycles",   "instructions",  "llc_misses",  "llc_references",
                                      "branches", "branch_misses", "dtlb_misses", "ref_cycles"};
  std::string events;
  for (const char* column : kColumns)
    events += fmt::format("{}{}={}", events.empty() ? "" : ",", column,
                          column == std::string("branches") ? "page-faults" : "cpu-clock");
  Recorded recorded = RecordWorkload({"shares", "300"}, {"--events", events});
  CheckIdentity(recorded.csv);
  uint64_t cpu_ns = 0;
  std::map<std::string, uint64_t> sums;
  for (const auto& row : recorded.csv.rows) {
    if (row.at("cycles").empty() || row.at("cpu_ns") == "0") continue;
    cpu_ns += std::stoull(row.at("cpu_ns"));
    for (const char* column : kColumns)
      if (!row.at(column).empty()) sums[column] += std::stoull(row.at(column));
    for (const char* column : {"branches", "ref_cycles"})
      if (!row.at(column).empty()) {
        EXPECT_EQ(row.at(column + std::string("_mux_pct")), "100.0");
      }
  }
  EXPECT_GT(cpu_ns, 100'000'000u);
  for (const char* column : kColumns) {
    SCOPED_TRACE(column);
    const double share = static_cast<double>(sums[column]) / static_cast<double>(cpu_ns);
    if (column == std::string("branches")) {
      EXPECT_LT(share, 0.01) << "faults are few";
    } else {
      EXPECT_NEAR(share, 1.0, IsEmulated() ? 0.1 : 0.02);
    }
  }
}

// With the cpu controller on v1, where it can be; else on v2.
TEST(Cgroups, AProcessIsInThatOfTheCpuController) {
  const std::string mounted = TempDir() + "/cgroups", folder = mounted + "/slotscope-test";
  ASSERT_EQ(mkdir(mounted.c_str(), 0755), 0);
  const bool is_v1 = mount("none", mounted.c_str(), "cgroup", 0, "cpu") == 0;
  if (!is_v1) {
    ASSERT_EQ(mount("none", mounted.c_str(), "cgroup2", 0, nullptr), 0) << strerror(errno);
  }
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0) << strerror(errno);
  struct stat found;
  ASSERT_EQ(stat(folder.c_str(), &found), 0);

  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  std::string output;
  EXPECT_EQ(Shell("sh -c 'echo $$ >" + folder + "/cgroup.procs && $T --workload simple'", &output), 0)
      << output;
  recorder.Stop();
  EXPECT_EQ(rmdir(folder.c_str()), 0) << strerror(errno);
  UnmountCpuController(mounted);

  std::istringstream lines(output);
  std::string key;
  int32_t tgid = 0;
  for (std::string line; std::getline(lines, line);)
    if (std::istringstream(line) >> key >> tgid && key == "proc") break;
  ASSERT_GT(tgid, 0) << output;
  int nr_births = 0;
  for (const ss_any_message& message : recorder.messages()) {
    const ss_task_meta& meta = message.task_meta;
    if (message.hdr.type != SS_TASK_META || meta.tgid != tgid || !(meta.flags & SS_TASK_BIRTH)) continue;
    nr_births++;
    EXPECT_EQ(meta.cgroup_id, found.st_ino) << (is_v1 ? "v1" : "v2");
  }
  EXPECT_EQ(nr_births, 1);
}

}  // namespace
}  // namespace slotscope
