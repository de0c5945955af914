// SPDX-License-Identifier: MIT
// What is recorded of processes that use CUDA is what they did, by the stand-in libraries' own account.
#include <bpf/bpf.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cuda/uretprobe_safety.h"
#include "harness.h"
#include "recording/reader.h"

namespace slotscope {
namespace {

struct Recorded {
  CsvFile csv;
  WorkloadResult truth;
  std::string output;
  std::string dir;
};

// Records `--workload cuda WHICH`. The libraries are in LD_LIBRARY_PATH, so they are probed before it
// begins.
void RecordCuda(const std::string& name, const std::string& which, Recorded* recorded,
                const std::string& folders = StandinFolder(), bool loses_calls = false) {
  recorded->dir = MakeDir("cuda-" + name);
  const std::string script =
      "cd " + recorded->dir + " && LD_LIBRARY_PATH=" + folders +
      " $S record --source $SRC --gpu on --raw r.raw --spans s.csv --gpu-csv g.csv -o a.csv -- sh -c '" +
      which + "'";
  ASSERT_EQ(Shell(script, &recorded->output), 0) << recorded->output;
  recorded->csv = ReadCsv(recorded->dir + "/a.csv");
  recorded->truth = ParseWorkload(recorded->dir + "/truth");
  CheckIdentity(recorded->csv);
  // An emulated machine whose host is busy may be too slow for its buffers, and loses calls with them;
  // or it stands still, and takes who made a call for ended.
  const std::string& lost_records = recorded->csv.comments.at("lost_records");
  const bool stood_still = IsEmulated() && recorded->csv.comments.at("stalls") != "0";
  if (loses_calls || (lost_records == "0" && !stood_still)) {
    EXPECT_EQ(recorded->csv.comments.at("lost_cuda_calls") != "0", loses_calls);
  }
  if (!IsEmulated()) {
    EXPECT_EQ(lost_records, "0");
  }
}

// What the recording has counted, for whoever reads that a test has failed.
std::string CountsOf(const Recorded& recorded) {
  std::string text;
  for (const auto& [key, value] : recorded.csv.comments)
    if (value != "0" && value.find_first_not_of("0123456789") == value.npos)
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, value);
  return text;
}

// Those that found no room: that of others is a defect, see RecordCuda().
uint64_t NrLostCalls(const Recorded& recorded) {
  return IsEmulated() ? Number(recorded.csv.comments.at("lost_cuda_calls")) : 0;
}

std::string Workload(int which) { return "$T --workload cuda " + std::to_string(which) + " >>truth"; }

std::vector<CsvRow> RowsOf(const Recorded& recorded, int32_t tgid) {
  const std::string text = std::to_string(tgid);
  std::vector<CsvRow> rows;
  for (const CsvRow& row : recorded.csv.rows)
    if (row.at("tgid") == text) rows.push_back(row);
  return rows;
}

// Of spans.csv, which has columns and comments as slots.csv.
std::vector<CsvRow> SpansOf(const Recorded& recorded, const std::string& kind) {
  std::vector<CsvRow> spans;
  for (const auto& span : ReadCsv(recorded.dir + "/s.csv").rows)
    if (span.at("span") == kind) spans.push_back(span);
  return spans;
}

uint64_t LaunchesOf(const CsvFile& csv, int32_t tgid) {
  uint64_t nr = 0;
  for (const CsvRow& row : csv.rows)
    if (row.at("tgid") == std::to_string(tgid)) nr += Number(row.at("gpu_launches"));
  return nr;
}

// Launches and calls, to the unit. Where calls were lost no slot has too many launches, and in sum as
// many calls are missing as the recording says.
void CheckSums(const Recorded& recorded) {
  uint64_t nr_calls = 0;
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "sum") continue;
    const uint64_t nr_launches = LaunchesOf(recorded.csv, line.tgid);
    EXPECT_LE(nr_launches, line.values.at(0)) << line.tgid;
    if (!NrLostCalls(recorded)) {
      EXPECT_EQ(nr_launches, line.values.at(0)) << line.tgid << ": " << CountsOf(recorded);
    }
    nr_calls += line.values.at(1);
  }
  // With each process's cuInit, which the runtime makes per device.
  EXPECT_GE(Number(recorded.csv.comments.at("cuda_calls")) + NrLostCalls(recorded), nr_calls)
      << CountsOf(recorded);
}

// An emulated machine whose host is busy can keep the recorder from its buffers, or from its heartbeat,
// for seconds, and one CPU behind the others. What is lost or late then, and said, may be anybody's.
bool LostOfEverybody(const Recorded& recorded) {
  const auto& said = recorded.csv.comments;
  return IsEmulated() && (said.at("lost_records") != "0" || said.at("bypassed_cuda_calls") != "0" ||
                          said.at("late_cuda_calls") != "0");
}

// In each slot it is what the process has said, or nothing where everybody's calls were lost.
void CheckMemory(const Recorded& recorded, int32_t tgid, size_t min_steps) {
  size_t nr_checked = 0;
  std::vector<std::pair<uint64_t, uint64_t>> truth;  // from when, bytes
  for (const auto& line : recorded.truth.lines)
    if (line.key == "mem" && line.tgid == tgid) truth.emplace_back(line.values.at(0), line.values.at(1));
  ASSERT_GE(truth.size(), min_steps);
  for (const auto& row : RowsOf(recorded, tgid)) {
    const uint64_t end_ns = Number(row.at("slot_start_ns")) + 1'000'000;
    // Between two calls, and not while one is made.
    for (size_t i = 0; i < truth.size(); i++) {
      if (end_ns <= truth[i].first || end_ns > truth[i].first + 2'000'000) continue;
      nr_checked++;
      if (row.at("gpu_mem_bytes").empty() && LostOfEverybody(recorded)) continue;
      EXPECT_EQ(row.at("gpu_mem_bytes"), std::to_string(truth[i].second)) << "behind step " << i;
    }
  }
  EXPECT_GT(nr_checked, truth.size() / 2);
}

TEST(Cuda, MemoryOfEveryKindInEverySlot) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("memory", Workload(0), &recorded));
  CheckSums(recorded);
  const int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  const auto rows = RowsOf(recorded, tgid);
  ASSERT_FALSE(rows.empty());
  CheckMemory(recorded, tgid, 20);
  EXPECT_EQ(recorded.csv.comments.at("unknown_cuda_frees"), "0");
  EXPECT_EQ(rows.back().at("gpu_mem_bytes"), "0");  // it has ended
  size_t nr_leaked = 0;
  for (const auto& span : SpansOf(recorded, "memory")) nr_leaked += span.at("end") == "leaked";
  EXPECT_EQ(nr_leaked, 1u);  // an array of the driver's
  EXPECT_EQ(SpansOf(recorded, "memory").size(), 12u);
}

TEST(Cuda, AProcessWhoseFirstCallIsALaunchIsWhollyKnown) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("launch-first", Workload(7), &recorded));
  CheckSums(recorded);
  const int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  CheckMemory(recorded, tgid, 2);
  const auto spans = SpansOf(recorded, "kernels");
  ASSERT_EQ(spans.size(), 1u) << CountsOf(recorded);
  EXPECT_EQ(spans[0].at("device"), "0");
  uint64_t calling_ns = 0, launched_ns = 0, waited_ns = 0;
  for (const auto& line : recorded.truth.lines) {
    if (line.key == "calling") calling_ns = line.values.at(0);
    if (line.key == "launched") launched_ns = line.values.at(0);
    if (line.key == "waited") waited_ns = line.values.at(0);
  }
  EXPECT_LT(Number(spans[0].at("start_ns")), launched_ns);
  EXPECT_GE(Number(spans[0].at("start_ns")), calling_ns + 30'000'000)
      << "what it sets up takes that long";
  EXPECT_LT(Number(spans[0].at("end_ns")), waited_ns);
  EXPECT_GE(Number(spans[0].at("end_ns")), launched_ns);
  EXPECT_EQ(SpansOf(recorded, "memory").at(0).at("device"), "0");
}

// The program that comes after holds nothing, and nobody knows anything of its GPU until it uses one.
TEST(Cuda, AnExecEndsWhatTheProgramHeld) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("exec", Workload(6), &recorded));
  const int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  EXPECT_EQ(recorded.truth.TgidsOf("busy"), std::vector<int32_t>{tgid}) << "the same process";
  uint64_t exec_ns = 0;
  for (const auto& line : recorded.truth.lines)
    if (line.key == "exec") exec_ns = line.values.at(0);
  // The exec itself takes a while.
  size_t nr_holding = 0, nr_after = 0, nr_ended = 0;
  for (const CsvRow& row : RowsOf(recorded, tgid)) {
    const std::string& bytes = row.at("gpu_mem_bytes");
    nr_holding += bytes == "1000";
    nr_after += Number(row.at("slot_start_ns")) > exec_ns && bytes.empty();
    nr_ended += bytes == "0" && Number(row.at("slot_start_ns")) + 1'000'000 > exec_ns;
  }
  EXPECT_GT(nr_holding, 0u);
  EXPECT_EQ(nr_ended, 1u) << CountsOf(recorded);
  EXPECT_GT(nr_after, 50u) << CountsOf(recorded);
  EXPECT_TRUE(RowsOf(recorded, tgid).back().at("gpu_mem_bytes").empty());
}

// That workload with the runtime that misbehaves, as a shell's command.
std::string Hostile(const std::string& workload) {
  return "SLOTSCOPE_TEST_LIBRARIES=" + StandinFolder() + ":hostile/libcudart.so.13 $T --workload " +
         workload;
}

TEST(Cuda, CallsThatCannotBeReadHideOnlyTheirProcessesMemory) {
  Recorded recorded;
  const std::string ms = IsEmulated() ? "6000" : "1500";
  ASSERT_NO_FATAL_FAILURE(
      RecordCuda("unreadable",
                 Hostile("cuda-unreadable " + ms) + " >hostile & sleep 0.5; " + Workload(0) + "; wait",
                 &recorded, StandinFolder() + ":" + StandinFolder() + "/hostile", true));
  CheckMemory(recorded, recorded.truth.TgidsOf("proc").at(0), 20);
  const auto hostile = RowsOf(recorded, ParseWorkload(recorded.dir + "/hostile").TgidsOf("proc").at(0));
  ASSERT_GT(hostile.size(), 20u);
  for (size_t i = hostile.size() / 2; i + 1 < hostile.size(); i++)
    EXPECT_EQ(hostile[i].at("gpu_mem_bytes"), "") << i;
  std::string output;
  EXPECT_EQ(Shell("cd " + recorded.dir + " && $S replay -o b.csv r.raw && cmp a.csv b.csv", &output), 0)
      << output;
}

// So fast that there is one in each moment in which somebody looks whose they are. When they are over it
// shows whether one of them is nobody's.
TEST(Cuda, AFloodOfCallsThatCannotBeReadHidesOnlyItsProcessesMemory) {
  Recorded recorded;
  const int flood_ms = IsEmulated() ? 6'000 : 3'000;
  ASSERT_NO_FATAL_FAILURE(
      RecordCuda("unreadable-flood",
                 fmt::format("{} >hostile & $T --workload cuda-holder {} >truth; wait",
                             Hostile(fmt::format("cuda-unreadable-flood {}", flood_ms)), 2 * flood_ms),
                 &recorded, StandinFolder() + ":" + StandinFolder() + "/hostile", true));
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "holds") continue;
    const uint64_t bytes = line.values.at(0), end_ns = line.values.at(1);
    size_t nr_rows = 0;
    for (const auto& row : RowsOf(recorded, line.tgid)) {
      const uint64_t start_ns = Number(row.at("slot_start_ns"));
      if (start_ns + 500'000'000 < end_ns || start_ns + 1'000'000 > end_ns) continue;
      EXPECT_EQ(row.at("gpu_mem_bytes"), std::to_string(bytes)) << start_ns;
      nr_rows++;
    }
    EXPECT_GT(nr_rows, 20u);
  }
  ASSERT_EQ(recorded.truth.TgidsOf("holds").size(), 1u);
  const auto hostile = RowsOf(recorded, ParseWorkload(recorded.dir + "/hostile").TgidsOf("proc").at(0));
  ASSERT_GT(hostile.size(), 20u);
  for (size_t i = hostile.size() / 2; i + 1 < hostile.size(); i++)
    EXPECT_EQ(hostile[i].at("gpu_mem_bytes"), "") << i;
}

// Where the kernel can preempt whoever is in that storage, and before 7.0, it has none for who comes
// then. (The guests make theirs preemptible for this.)
TEST(Cuda, WithoutStorageOnlyItsProcessesMemoryIsHidden) {
  const bool is_expected = Text("/sys/kernel/debug/sched/preempt").find("(full)") != std::string::npos &&
                           Text("/proc/kallsyms").find(" bpf_task_storage_busy\n") != std::string::npos;
  if (!is_expected) GTEST_SKIP() << "this kernel always has storage: it is not preemptible, or too new";
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(
      RecordCuda("storage",
                 "$T --workload storage-holder 8000 & $T --workload cuda-threads 6000 "
                 ">threads & sleep 0.5; taskset 2 " +
                     Workload(0) + "; wait",
                 &recorded, StandinFolder(), true));
  CheckMemory(recorded, recorded.truth.TgidsOf("proc").at(0), 20);
  const auto rows = RowsOf(recorded, ParseWorkload(recorded.dir + "/threads").TgidsOf("proc").at(0));
  ASSERT_GT(rows.size(), 20u);
  for (size_t i = rows.size() / 2; i + 1 < rows.size(); i++)
    EXPECT_EQ(rows[i].at("gpu_mem_bytes"), "") << i;
}

TEST(Cuda, CallsThatNeverReturnHideNothing) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("stacks", Hostile("cuda-stacks 0") + " >truth", &recorded,
                                     StandinFolder() + ":" + StandinFolder() + "/hostile"));
  CheckMemory(recorded, recorded.truth.TgidsOf("proc").at(0), 6);
}

// What seemed to be made by a call that had been left may have been a call of its own.
TEST(Cuda, WhatIsWithinACallThatNeverReturnsIsNotTakenForKnown) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("jump", Hostile("cuda-jump 0") + " >truth", &recorded,
                                     StandinFolder() + ":" + StandinFolder() + "/hostile", true));
  uint64_t dropped_ns = 0;
  for (const auto& line : recorded.truth.lines)
    if (line.key == "dropped") dropped_ns = line.values.at(0);
  ASSERT_GT(dropped_ns, 0u);
  size_t nr_known = 0, nr_hidden = 0;
  for (const auto& row : RowsOf(recorded, recorded.truth.TgidsOf("proc").at(0))) {
    nr_known += row.at("gpu_mem_bytes") == "1000";
    if (Number(row.at("slot_start_ns")) < dropped_ns) continue;
    EXPECT_EQ(row.at("gpu_mem_bytes"), "") << row.at("slot_start_ns");
    nr_hidden++;
  }
  EXPECT_GT(nr_known, 0u);
  EXPECT_GT(nr_hidden, 20u);
}

// In each slot, to the nanosecond: active is the union of the spans of kernels.
void CheckActiveAgainstSpans(const Recorded& recorded) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const auto& span : SpansOf(recorded, "kernels"))
    spans.emplace_back(Number(span.at("start_ns")), Number(span.at("end_ns")));
  std::sort(spans.begin(), spans.end());
  for (const auto& row : recorded.csv.rows) {
    if (row.at("gpu_active_ns").empty()) continue;
    const uint64_t from_ns = Number(row.at("slot_start_ns")), to_ns = from_ns + 1'000'000;
    uint64_t union_ns = 0, done_ns = from_ns;
    for (const auto& [start_ns, end_ns] : spans) {
      const uint64_t begin_ns = std::max(start_ns, done_ns);
      if (std::min(end_ns, to_ns) <= begin_ns) continue;
      done_ns = std::min(end_ns, to_ns);
      union_ns += done_ns - begin_ns;
    }
    EXPECT_EQ(row.at("gpu_active_ns"), std::to_string(union_ns)) << "slot " << from_ns;
  }
}

TEST(Cuda, ActiveFromLaunchToWait) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("streams", Workload(1), &recorded));
  CheckSums(recorded);
  CheckActiveAgainstSpans(recorded);
  const auto rows = RowsOf(recorded, recorded.truth.TgidsOf("proc").at(0));
  uint64_t active_ns = 0, truth_ns = 0, nr_phases = 0, nr_whole_slots = 0;
  for (const auto& row : rows) {
    active_ns += Number(row.at("gpu_active_ns"));
    EXPECT_LE(Number(row.at("gpu_active_ns")), 1'000'000u);
  }
  for (const auto& line : recorded.truth.lines) {
    if (line.key == "active") {
      truth_ns += line.values.at(1) - line.values.at(0);
      nr_phases++;
    }
    // Slots that are wholly between its first launch and the end of the GPU's work are wholly active.
    if (line.key != "surely") continue;
    const uint64_t from_ns = line.values.at(0), to_ns = line.values.at(1);
    for (const auto& row : rows) {
      const uint64_t start_ns = Number(row.at("slot_start_ns"));
      if (start_ns < from_ns || start_ns + 1'000'000 > to_ns) continue;
      EXPECT_EQ(row.at("gpu_active_ns"), "1000000");
      nr_whole_slots++;
    }
  }
  EXPECT_EQ(nr_phases, 7u);
  EXPECT_GT(nr_whole_slots, 0u);
  uint64_t nr_launches = 0;
  for (const auto& span : SpansOf(recorded, "kernels")) {
    nr_launches += Number(span.at("launches"));
    EXPECT_EQ(span.at("end"), "waited");
    EXPECT_EQ(span.at("device"), "0");
    EXPECT_TRUE(span.at("avg_threads") == "192" || span.at("avg_threads") == "")
        << span.at("avg_threads");
    const auto within = [&](const auto& line) {
      return line.key == "active" && line.values.at(0) <= Number(span.at("start_ns")) &&
             line.values.at(1) >= Number(span.at("end_ns"));
    };
    EXPECT_EQ(std::count_if(recorded.truth.lines.begin(), recorded.truth.lines.end(), within), 1);
  }
  EXPECT_EQ(nr_launches, recorded.truth.lines.back().values.at(0));
  // What is measured lies within what the process saw, but for its own calls around it.
  EXPECT_LE(active_ns, truth_ns);
  EXPECT_GE(2 * active_ns, truth_ns) << "active " << active_ns << " of " << truth_ns;
}

// Each device's launches and bytes, by the GPU that the library used.
void CheckDevices(const std::string& name, const std::string& environment, size_t nr_expected) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda(name, environment + " " + Workload(2), &recorded));
  CheckSums(recorded);
  const int32_t tgid = recorded.truth.TgidsOf("proc").at(0);
  const auto rows = ReadCsv(recorded.dir + "/g.csv").rows;
  size_t nr_devices = 0;
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "device") continue;
    const std::string device = std::to_string(line.values.at(0)),
                      gpu = std::to_string(line.values.at(1));
    uint64_t nr_launches = 0, bytes = 0;
    for (const auto& row : rows) {
      if (row.at("kind") != "process" || row.at("tgid") != std::to_string(tgid)) continue;
      if (row.at("cuda_device") != device) continue;
      EXPECT_EQ(row.at("gpu"), gpu) << "device " << device;
      nr_launches += Number(row.at("gpu_launches"));
      bytes = std::max(bytes, Number(row.at("gpu_mem_bytes")));
    }
    EXPECT_EQ(bytes, line.values.at(2)) << "device " << device;
    EXPECT_EQ(nr_launches, line.values.at(3)) << "device " << device;
    uint64_t nr_all = 0;
    for (const auto& row : rows)
      if (row.at("kind") == "gpu" && row.at("gpu") == gpu) nr_all += Number(row.at("gpu_launches"));
    EXPECT_EQ(nr_all, nr_launches) << "nobody else is there";
    nr_devices++;
  }
  EXPECT_EQ(nr_devices, nr_expected);
}

TEST(Cuda, DevicesAreTheMachinesGpus) {
  CheckDevices("all", "", 2);
  CheckDevices("second", "CUDA_VISIBLE_DEVICES=1", 1);
  CheckDevices("turned", "CUDA_VISIBLE_DEVICES=1,0", 2);
  CheckDevices("uuid", "CUDA_VISIBLE_DEVICES=GPU-51075c09-0102-0304-0506-0708090a0100", 1);
  // The process chooses itself: only the driver knows.
  CheckDevices("chosen", "SLOTSCOPE_TEST_CHOOSES=1,0", 2);
}

TEST(Cuda, ReplayGivesTheSameFile) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("replay", Workload(1), &recorded));
  std::string output;
  EXPECT_EQ(Shell("cd " + recorded.dir +
                      " && $S replay r.raw --spans t.csv --gpu-csv h.csv -o b.csv >/dev/null && "
                      "cmp a.csv b.csv && cmp s.csv t.csv && cmp g.csv h.csv",
                  &output),
            0)
      << output;
}

// The rows of a table.
std::string RowsOf(const std::string& recording, const std::string& table) {
  RecordingReader reader;
  std::string text, rows;
  Status status = reader.Open(recording);
  if (status.ok()) status = reader.Read(table, {}, [&](std::string_view piece) { text += piece; });
  EXPECT_TRUE(status.ok()) << status.message();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#") && !line.starts_with("s")) rows += line + "\n";  // no names of columns
  return rows;
}

// Memory that was allocated before these segments began, by a process that was born and named before.
// (It may have ended before the last one began.)
TEST(Cuda, TheLastRawSegmentsReplayAsTheWholeRecording) {
  const std::string dir = MakeDir("cuda-segments");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && LD_LIBRARY_PATH=" + StandinFolder() +
                      " $S record --source $SRC --gpu on --segment 1 --raw-table -o r.rec -- sh -c '"
                      "SLOTSCOPE_TEST_WAIT_FOR_FILE=$PWD/go $T --workload cuda -1 >truth & sleep " +
                      std::to_string(IsEmulated() ? 6 : 3) + "; touch go; wait'",
                  &output),
            0)
      << output;
  const std::string rows = RowsOf(dir + "/r.rec", "slots"), spans = RowsOf(dir + "/r.rec", "spans");
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(dir + "/r.rec").ok());
  const auto segments = reader.FilesOf("raw");
  ASSERT_GE(segments.size(), 3u);
  for (size_t i = 0; i + 2 < segments.size(); i++) std::filesystem::remove(segments[i]);
  ASSERT_EQ(Shell("cd " + dir + " && $S replay r.rec --segment 1 -o last.rec", &output), 0) << output;
  const std::string last = RowsOf(dir + "/last.rec", "slots");
  const std::string last_spans = RowsOf(dir + "/last.rec", "spans");
  EXPECT_GT(last.size(), 1000u);
  EXPECT_LT(last.size(), rows.size());
  EXPECT_TRUE(rows.ends_with(last)) << "they are kept in " << dir;
  EXPECT_FALSE(last_spans.empty());
  EXPECT_TRUE(spans.ends_with(last_spans)) << "they are kept in " << dir;
  size_t nr_holding = 0;
  for (const CsvRow& row : ReadCsv(dir + "/last.rec").rows)
    nr_holding += row.at("comm") == "live_tests" && row.at("gpu_mem_bytes") == "1000";
  EXPECT_GT(nr_holding, 3u);
}

TEST(Cuda, ManyProcessesWithManyThreadsLoseNothing) {
  const int kProcesses = IsEmulated() ? 4 : 64, kRounds = 25;
  std::string script;
  for (int i = 0; i < kProcesses; i++) script += Workload(kRounds) + "." + std::to_string(i) + " & ";
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("threads", script + "wait; cat truth.* >truth", &recorded));
  CheckSums(recorded);
  EXPECT_EQ(recorded.truth.TgidsOf("proc").size(), static_cast<size_t>(kProcesses));
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "mem") continue;
    const auto rows = RowsOf(recorded, line.tgid);
    ASSERT_FALSE(rows.empty()) << line.tgid;
    if (LostOfEverybody(recorded)) continue;
    uint64_t most = 0;
    for (const auto& row : rows) most = std::max(most, Number(row.at("gpu_mem_bytes")));
    EXPECT_GE(most, line.values.at(1)) << CountsOf(recorded);
    EXPECT_EQ(rows.back().at("gpu_mem_bytes"), "0") << "it has ended; " << CountsOf(recorded);
  }
}

// As many as there can be: on most machines more than 200,000 a second. (Where a busy host has kept the
// recorder away, calls are lost, and it says so: then it is recorded again.)
TEST(Cuda, AFloodOfLaunchesLosesNone) {
  const int thousands = IsEmulated() ? 10 : 400;
  for (int tries = 0; tries < 5; tries++) {
    Recorded recorded;
    recorded.dir = MakeDir("cuda-flood");
    ASSERT_EQ(
        Shell(fmt::format("cd {} && LD_LIBRARY_PATH={} $S record --source $SRC --gpu on -o a.csv -- "
                          "sh -c '$T --workload cuda-flood {} >truth'",
                          recorded.dir, StandinFolder(), thousands),
              &recorded.output),
        0)
        << recorded.output;
    recorded.csv = ReadCsv(recorded.dir + "/a.csv");
    recorded.truth = ParseWorkload(recorded.dir + "/truth");
    CheckIdentity(recorded.csv);
    const auto& lines = recorded.truth.lines;
    const auto flood =
        std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.key == "flood"; });
    ASSERT_NE(flood, lines.end());
    const uint64_t nr = flood->values.at(0), ns = flood->values.at(1);
    fmt::print("{} launches, {:.0f} a second\n", nr,
               static_cast<double>(nr) * 1e9 / static_cast<double>(ns));
    const auto& said = recorded.csv.comments;
    if (said.at("lost_cuda_calls") != "0" || said.at("lost_records") != "0") continue;
    EXPECT_EQ(LaunchesOf(recorded.csv, flood->tgid), nr) << CountsOf(recorded) << "\n"
                                                         << recorded.output;
    EXPECT_NE(LaunchesOf(recorded.csv, flood->tgid + 1), nr) << "that of another one";
    return;
  }
  FAIL() << "each time calls were lost";
}

// While the recorder stands still calls are lost: what a GPU does then is not known, and no span goes on
// across that. What their process holds is not known any more, and what another one holds is.
TEST(Cuda, ASpanEndsUnknownWhereCallsAreLost) {
  WaitForDetachers();
  Recorded recorded;
  recorded.dir = MakeDir("cuda-gap");
  const std::string uptime = "read now rest </proc/uptime; echo $now";
  ASSERT_EQ(
      Shell(fmt::format("cd {} && LD_LIBRARY_PATH={} $S record --source $SRC --gpu on -o a.rec -- sh -c "
                        "'(sleep 0.5; kill -STOP $PPID; {}; sleep 1.5; {}; kill -CONT $PPID) >times & "
                        "$T --workload cuda-holder {} >holder & $T --workload cuda-flood {} >truth; "
                        "wait'",
                        recorded.dir, StandinFolder(), uptime, uptime, IsEmulated() ? 20'000 : 6'000,
                        IsEmulated() ? 40 : 600),
            &recorded.output),
      0)
      << recorded.output;
  WriteTable(recorded.dir + "/a.rec", "spans", recorded.dir + "/s.csv");
  const CsvFile csv = ReadCsv(recorded.dir + "/a.rec");
  CheckIdentity(csv);
  ASSERT_NE(csv.comments.at("lost_cuda_calls"), "0") << "there was no gap";
  std::ifstream times(recorded.dir + "/times");
  double stopped_s = 0, went_on_s = 0;
  ASSERT_TRUE(times >> stopped_s >> went_on_s);
  const int32_t tgid = ParseWorkload(recorded.dir + "/truth").TgidsOf("flood").at(0);
  bool is_unknown = false, goes_on = false;
  for (const CsvRow& span : SpansOf(recorded, "kernels")) {
    if (span.at("tgid") != std::to_string(tgid)) continue;
    const double start_s = static_cast<double>(Number(span.at("start_ns"))) / 1e9,
                 end_s = static_cast<double>(Number(span.at("end_ns"))) / 1e9;
    EXPECT_FALSE(start_s < stopped_s && end_s > went_on_s)
        << "it goes across the gap: " << span.at("end");
    is_unknown |= span.at("end") == "unknown" && end_s > stopped_s - 0.1 && end_s < went_on_s;
    goes_on |= start_s > went_on_s - 0.1;
  }
  EXPECT_TRUE(is_unknown);
  EXPECT_TRUE(goes_on) << "launches behind the gap are known";
  const WorkloadResult holder = ParseWorkload(recorded.dir + "/holder");
  ASSERT_EQ(holder.lines.size(), 1u);
  std::map<std::string, std::set<std::string>> held;  // by tgid, behind the gap, until the holder ends
  for (const CsvRow& row : csv.rows) {
    const uint64_t slot_ns = Number(row.at("slot_start_ns"));
    if (static_cast<double>(slot_ns) / 1e9 > went_on_s + 0.1 &&
        slot_ns + 1'000'000 < holder.lines[0].values.at(1))
      held[row.at("tgid")].insert(row.at("gpu_mem_bytes"));
  }
  using Texts = std::set<std::string>;
  EXPECT_EQ(held[std::to_string(tgid)], Texts{""}) << "any of these may have allocated";
  const auto& known = holder.lines.back();
  EXPECT_EQ(held[std::to_string(known.tgid)], Texts{std::to_string(known.values.at(0))});
}

// One that began before, in a mount namespace and with files that are not there any more, of which the
// maps alone tell.
TEST(Cuda, LibrariesOfOthersAndDeletedOnes) {
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-deleted");
  std::string output;
  const std::string script =
      "cd " + dir + " && { unshare -m sh -c 'mkdir m && mount -t tmpfs none m && cp " + StandinFolder() +
      "/libcud* m && SLOTSCOPE_TEST_WAIT_FOR_FILE=" + dir + "/go SLOTSCOPE_TEST_LIBRARIES=" + dir +
      "/m:libcudart.so.13 exec $T --workload cuda -1' "
      ">truth & }; until grep -qs m/libcudart /proc/$!/maps 2>/dev/null; do sleep 0.02; done; "
      "rm /proc/$!/root" +
      dir +
      "/m/*; grep -q 'libcudart.so.13 (deleted)' /proc/$!/maps || exit 9; "
      "$S record --source $SRC --gpu on --all -o a.csv -- "
      "sh -c 'touch go; while kill -0 '$!' 2>/dev/null; do sleep 0.1; done'; wait";
  ASSERT_EQ(Shell(script, &output), 0) << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const auto truth = ParseWorkload(dir + "/truth");
  EXPECT_EQ(LaunchesOf(csv, truth.TgidsOf("proc").at(0)), truth.lines.back().values.at(0)) << output;
}

// More probes than the limit has files for: the last library is seen, too. What is recorded keeps the
// limit that it was given. A kernel without uprobe_multi takes two files for each function and way.
void RecordMoreThanTheLimitOfFiles(const std::string& dir, int nr_copies, const std::string& before) {
  WaitForDetachers();
  const std::string last = std::to_string(nr_copies);
  std::ofstream(dir + "/x.sh")
      << before << "i=0; folders=$PWD; while [ $i -lt " << last << " ]; do i=$((i+1)); mkdir $i && cp "
      << StandinFolder() << "/libcud* $i || exit 9; folders=$folders:$PWD/$i; done; ulimit -Sn 128; "
      << "LD_LIBRARY_PATH=$folders $S record --source $SRC --gpu on -o a.csv -- sh -c 'echo; ulimit "
         "-Sn; "
      << "SLOTSCOPE_TEST_LIBRARIES=$PWD/" << last
      << ":libcudart.so.13 exec $T --workload cuda 0 >truth'";
  std::string output;
  EXPECT_EQ(Shell("cd " + dir + " && unshare -m sh x.sh", &output), 0) << output;
  EXPECT_NE(output.find("\n128\n"), output.npos) << output;
  EXPECT_EQ(output.find("cannot attach"), output.npos) << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  const auto truth = ParseWorkload(dir + "/truth");
  ASSERT_EQ(truth.TgidsOf("sum").size(), 1u) << output;
  for (const auto& line : truth.lines)
    if (line.key == "sum") {
      EXPECT_EQ(LaunchesOf(csv, line.tgid), line.values.at(0)) << output;
    }
}

TEST(Cuda, MoreLibrariesThanTheLimitOfFiles) {
  RecordMoreThanTheLimitOfFiles(MakeDir("cuda-limit"), IsEmulated() ? 2 : 30, "");
}

// As a kernel before 6.6 does it: by its type information it is one.
TEST(Cuda, MoreProbesThanTheLimitOfFiles) {
  const std::string dir = MakeDir("cuda-single");
  std::ofstream(dir + "/btf") << BtfWithout("bpf_uprobe_multi_link_attach");
  RecordMoreThanTheLimitOfFiles(dir, 2, "mount -o bind btf /sys/kernel/btf/vmlinux || exit 9; ");
}

// Files without number come and go, and the probes of none can be attached: each is tried once in ten
// seconds.
TEST(Cuda, WhatCannotBeProbedIsNotTriedAtEachEvent) {
  std::string output;
  if (Shell("strace -qq -o /dev/null true", &output) != 0) GTEST_SKIP() << "strace cannot trace here";
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-refused");
  std::ofstream(dir + "/btf") << BtfWithout("bpf_uprobe_multi_link_attach");
  std::ofstream(dir + "/x.sh") << "mount -o bind btf /sys/kernel/btf/vmlinux || exit 9; cp "
                               << StandinFolder() << "/libcud* . ; "
                               << "strace -f -qq --seccomp-bpf -e trace=perf_event_open -e "
                                  "inject=perf_event_open:error=EMFILE:when=10+ -o calls $S record "
                                  "--source $SRC --gpu on --events none "
                               << "-o a.csv -- sh -c 'i=0; while [ $i -lt 20 ]; do i=$((i+1)); "
                                  "SLOTSCOPE_TEST_LIBRARIES=$PWD:libcudart.so.13 "
                                  "$T --workload cuda 0 || exit 8; done >truth'";
  const uint64_t began_ns = MonotonicNs();
  ASSERT_EQ(Shell("cd " + dir + " && unshare -m sh x.sh", &output), 0) << output;
  const uint64_t most_tries = 1 + (MonotonicNs() - began_ns) / 10'000'000'000;  // of a file
  EXPECT_EQ(ParseWorkload(dir + "/truth").TgidsOf("sum").size(), 20u);
  uint64_t nr_refused = 0;
  std::ifstream calls(dir + "/calls");
  std::string refused;
  for (std::string line; std::getline(calls, line);)
    if (line.find("(INJECTED)") != line.npos) {
      nr_refused++;
      refused += line + "\n";
    }
  EXPECT_GE(nr_refused, 1u);
  EXPECT_LE(nr_refused, 4 * most_tries) << "of two libraries and the recorder's own\n" << refused;
  EXPECT_NE(output.find("cannot attach"), output.npos) << output;
  for (const CsvRow& row : ReadCsv(dir + "/a.csv").rows) EXPECT_EQ(row.at("gpu_launches"), "");
}

// Said when it happens, and the others are complete at the end.
TEST(Cuda, ASideFileThatCannotBeWrittenHoldsNoOtherBack) {
  const std::string dir = MakeDir("cuda-full");
  std::string output;
  const std::string script =
      "cd " + dir + " && mkdir small && mount -t tmpfs -o size=16k none small || exit 9; " +
      "export LD_LIBRARY_PATH=" + StandinFolder() +
      "; $S record --source $SRC --gpu on --spans small/s.csv --gpu-csv g.csv --raw r.raw -o a.csv "
      "2>err & "
      "pid=$!; " +
      UntilRecording("err") +
      "n=0; "
      "until grep -qs 'cannot write small/s.csv' err || [ $n -gt 50 ]; do n=$((n+1)); "
      "$T --workload cuda 25 >/dev/null; done; kill -0 $pid || echo it has ended; "
      "kill -TERM $pid; wait $pid; code=$?; cat err; umount small; exit $code";
  EXPECT_EQ(Shell(script, &output), 6) << output;
  EXPECT_EQ(output.find("it has ended"), output.npos) << output;
  EXPECT_NE(output.find("cannot write small/s.csv"), output.npos) << output;
  EXPECT_NE(output.find("wrote a.csv"), output.npos) << output;
  EXPECT_NE(output.find("wrote r.raw"), output.npos) << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  EXPECT_TRUE(csv.comments.contains("lost_records"));
  EXPECT_TRUE(std::filesystem::exists(dir + "/g.csv"));
  EXPECT_EQ(Shell("$S replay " + dir + "/r.raw -o " + dir + "/again.csv", &output), 0) << output;
}

// Whoever maps libraries all the time keeps nobody from being seen. He begins before the other one and
// goes on for some seconds behind it, so that somebody looks at him many times in one of them.
void CheckFlood(const std::string& flood) {
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-" + flood);
  std::string output;
  const std::string rest_s = IsEmulated() ? "5" : "2";
  ASSERT_EQ(
      Shell("cd " + dir + " && cp " + StandinFolder() +
                "/libcud* . && $S record --source $SRC --gpu on -o a.csv -- sh -c '" + "$T --workload " +
                flood + " 600000 & flood=$!; SLOTSCOPE_TEST_WAIT_FOR_PROBES=1 " +
                "SLOTSCOPE_TEST_LIBRARIES=$PWD:libcudart.so.13 " + Workload(0) + "; code=$?; sleep " +
                rest_s + "; kill $flood; exit $code'",
            &output),
      0)
      << output;
  Recorded recorded = {ReadCsv(dir + "/a.csv"), ParseWorkload(dir + "/truth"), output, dir};
  CheckIdentity(recorded.csv);
  EXPECT_NE(recorded.csv.comments.at("late_cuda_looks"), "0");
  EXPECT_EQ(recorded.csv.comments.at("lost_cuda_calls"), "0");
  CheckMemory(recorded, recorded.truth.TgidsOf("proc").at(0), 20);
}

TEST(Cuda, AFloodOfMappingsIsBoundedAndCounted) { CheckFlood("map-flood"); }

TEST(Cuda, AFloodOfProtectionsIsBoundedAndCounted) { CheckFlood("protect-flood"); }

// A process of many libraries, each a file of its own, which are probed and let go of: who begins to use
// CUDA beside it is seen. SLOTSCOPE_COPIES: how many; to let go of one takes the kernel 0.1 s, for which
// the tests behind it wait.
TEST(Cuda, ManyCopiesOfALibrary) {
  if (IsEmulated()) GTEST_SKIP() << "there it takes minutes to let go of them";
  WaitForDetachers();
  const char* const text = std::getenv("SLOTSCOPE_COPIES");
  const uint64_t nr = text ? std::strtoull(text, nullptr, 10) : 200;
  const std::string dir = MakeDir("cuda-copies");
  std::string output;
  const std::string script =
      "cd " + dir + " && cp " + StandinFolder() +
      "/libcud* . && $S record --source $SRC --gpu on -o a.csv -- sh -c '$T --workload library-copies " +
      std::to_string(nr) + " & copies=$!; n=0; until [ $(ls /proc/$PPID/fd | wc -l) -gt " +
      std::to_string(2 * nr) +
      " ] || [ $n -gt 300 ]; do n=$((n+1)); sleep 0.1; done; sleep 1; ls /proc/$PPID/fd | wc -l >at; "
      "grep VmRSS /proc/$PPID/status >>at; SLOTSCOPE_TEST_WAIT_FOR_PROBES=" +
      std::to_string(nr + 1) + " SLOTSCOPE_TEST_LIBRARIES=$PWD:libcudart.so.13 " + Workload(0) +
      "; code=$?; kill $copies; exit $code'";
  ASSERT_EQ(Shell(script, &output), 0) << output;
  Recorded recorded = {ReadCsv(dir + "/a.csv"), ParseWorkload(dir + "/truth"), output, dir};
  CheckIdentity(recorded.csv);
  CheckMemory(recorded, recorded.truth.TgidsOf("proc").at(0), 20);
  std::ifstream at(dir + "/at");
  uint64_t nr_fds = 0, rss_kb = 0;
  std::string name;
  ASSERT_TRUE(at >> nr_fds >> name >> rss_kb) << Text(dir + "/at");
  EXPECT_GE(nr_fds, 2 * nr) << "they were not probed";
  EXPECT_LE(nr_fds, 2 * nr + 300);
  EXPECT_LE(rss_kb, 60'000 + 50 * nr);
}

// Files that cost whoever maps them nothing, and take us half a second each: who begins to use CUDA
// beside him is seen at once.
TEST(Cuda, FilesThatTakeLongToReadKeepNobodyFromBeingSeen) {
  if (IsEmulated()) GTEST_SKIP() << "there each takes too long";
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-heavy");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && $S record --source $SRC --gpu on -o a.csv -- sh -c '" +
                      "$T --workload heavy-libraries 40 & heavy=$!; sleep 2; cp " + StandinFolder() +
                      "/libcud* .; SLOTSCOPE_TEST_WAIT_FOR_PROBES=1 " +
                      "SLOTSCOPE_TEST_LIBRARIES=$PWD:libcudart.so.13 " + Workload(0) +
                      "; code=$?; kill $heavy; exit $code'",
                  &output),
            0)
      << output;
  Recorded recorded = {ReadCsv(dir + "/a.csv"), ParseWorkload(dir + "/truth"), output, dir};
  CheckIdentity(recorded.csv);
  EXPECT_NE(recorded.csv.comments.at("late_cuda_looks"), "0");
  EXPECT_NE(output.find("maps files that take long to read"), output.npos) << output;
  CheckMemory(recorded, recorded.truth.TgidsOf("proc").at(0), 20);
}

// Its calls count, and no text of ours is torn.
TEST(Cuda, AHostileName) {
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-hostile");
  std::string output;
  const std::string name = "libcudart.so.$(printf '13\\n,\"\\033[2J')";
  const std::string script =
      "cd " + dir + " && cp " + StandinFolder() + "/libcuda.so.1 . && N=\"" + name + "\" && cp " +
      StandinFolder() +
      "/libcudart.so.13 \"$N\" && "
      "SLOTSCOPE_TEST_LIBRARIES=\"$PWD:$N\" $S record --source $SRC --gpu on --raw r.raw -o a.csv -- "
      "sh -c '$T --workload cuda -1 >truth' && $S gpu r.raw";
  ASSERT_EQ(Shell(script, &output), 0) << output;
  EXPECT_EQ(output.find('\x1b'), std::string::npos);
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const auto truth = ParseWorkload(dir + "/truth");
  EXPECT_EQ(LaunchesOf(csv, truth.TgidsOf("proc").at(0)), truth.lines.back().values.at(0)) << output;
}

// Most end before they are looked at.
TEST(Cuda, HundredsOfProcesses) {
  if (IsEmulated()) GTEST_SKIP() << "a process takes too long there";
  Recorded recorded;
  const std::string script =
      "for i in 1 2 3 4 5 6 7 8; do (j=0; while [ $j -lt 50 ]; do $T --workload cuda 3; j=$((j+1)); "
      "done >t.$i) & done; wait; "
      "cat t.* >truth";
  ASSERT_NO_FATAL_FAILURE(RecordCuda("hundreds", script, &recorded));
  EXPECT_EQ(recorded.truth.TgidsOf("proc").size(), 400u);
  CheckSums(recorded);
  EXPECT_EQ(recorded.csv.comments.at("unknown_cuda_frees"), "0");
  EXPECT_TRUE(SpansOf(recorded, "memory").size() == 400 && SpansOf(recorded, "kernels").size() == 400);
}

TEST(Cuda, GpuOfARecordingTellsWhatWasLeaked) {
  Recorded recorded;
  ASSERT_NO_FATAL_FAILURE(RecordCuda("leaks", Workload(0), &recorded));
  std::string output;
  ASSERT_EQ(Shell("cd " + recorded.dir + " && $S gpu r.raw", &output), 0) << output;
  const std::string tgid = std::to_string(recorded.truth.TgidsOf("proc").at(0));
  uint64_t nr_leaks = 0;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
    if (word.size() != 10 || word[0] != tgid) continue;  // the last two: "1: 0.4", how many and MiB
    EXPECT_EQ(word[2], word[3]) << "device and GPU: " << line;
    nr_leaks += Number(word[8].substr(0, word[8].find(':')));
  }
  EXPECT_EQ(nr_leaks, 1u) << output;
  // The same by the tables, of a recording that does not have what the kernel sent.
  const std::string what = " | grep -E '^( *[0-9]+ |GPU )'";
  ASSERT_EQ(
      Shell("cd " + recorded.dir + " && $S replay r.raw -o x.rec >/dev/null && $S gpu r.raw" + what +
                " >raw.txt && $S gpu x.rec" + what + " | diff raw.txt - && grep -c . raw.txt",
            &output),
      0)
      << output;
  EXPECT_NE(output.find("GPU 1     Stand-in 1G, 1024.0 MiB, 00000000:02:00.0"), std::string::npos)
      << output;
}

TEST(Cuda, GpuTellsWhoUsesCudaAndWhatIsSeenOfIt) {
  const std::string dir = MakeDir("cuda-now");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir +
                      " && { CUDA_VISIBLE_DEVICES=1 $T --workload cuda -60000 >truth & }; "
                      "until grep -qs libcudart /proc/$!/maps; do sleep 0.05; done; "
                      "LD_LIBRARY_PATH=" +
                      StandinFolder() + " $S gpu; kill $!; echo pid $!",
                  &output),
            0)
      << output;
  const std::string pid = output.substr(output.rfind("pid ") + 4);
  const size_t line = output.find(" " + pid.substr(0, pid.find('\n')) + "  live_tests       1 ");
  ASSERT_NE(line, std::string::npos) << output;
  EXPECT_NE(output.find("libcudart.so.13: 37 functions probed", line), std::string::npos) << output;
  EXPECT_NE(output.find("512.0 / 1024.0"), std::string::npos) << output;
}

TEST(Cuda, AProcessThatWasThereBeforeHasNoBalance) {
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-late");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir +
                      " && { SLOTSCOPE_TEST_WAIT_FOR_FILE=$PWD/go $T --workload cuda -1 >truth & }; "
                      "until [ -s truth ]; do "
                      "sleep 0.02; done; $S record --source $SRC --gpu on --all -o a.csv -- "
                      "sh -c 'touch go; while kill -0 '$!' 2>/dev/null; do sleep 0.1; done'; wait",
                  &output),
            0)
      << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const auto truth = ParseWorkload(dir + "/truth");
  const int32_t tgid = truth.TgidsOf("proc").at(0);
  uint64_t nr_launches = 0;
  for (const auto& row : csv.rows) {
    if (row.at("tgid") != std::to_string(tgid)) continue;
    EXPECT_EQ(row.at("gpu_mem_bytes"), "");
    nr_launches += Number(row.at("gpu_launches"));
  }
  for (const auto& line : truth.lines)
    EXPECT_TRUE(line.key != "sum" || nr_launches == line.values.at(0)) << nr_launches;
}

size_t NrCudaPrograms() { return LoadedPrograms("ss_cuda_").size(); }

size_t NrLinks() {
  size_t nr = 0;
  uint32_t id = 0;
  while (bpf_link_get_next_id(id, &id) == 0) nr++;
  return nr;
}

// Whoever does not ask for GPUs has no probes loaded before there is a driver. (A service may begin
// first.)
TEST(Cuda, ADriverThatComesIsSeen) {
  if (!IsEmulated()) GTEST_SKIP() << "to others on this machine it would be one, too";
  WaitForDetachers();
  const std::string dir = MakeDir("cuda-driver"), driver = "/dev/nvidiactl";
  const size_t nr_before = NrCudaPrograms();
  std::string output;
  ASSERT_EQ(
      Shell(
          "cd " + dir + " && { LD_LIBRARY_PATH=" + StandinFolder() +
              " $S record --source $SRC -o a.csv -- sh -c 'touch begun; until [ -e go ]; do sleep 0.1; "
              "done; $T --workload cuda 0' >out 2>&1 & echo $! >pid; }; "
              "until [ -e begun ]; do kill -0 $(cat pid) || exit 1; sleep 0.1; done",
          &output),
      0)
      << output;
  EXPECT_EQ(NrCudaPrograms(), nr_before);
  const size_t nr_links = NrLinks();
  std::ofstream(driver).close();
  const uint64_t until_ns = MonotonicNs() + 120'000'000'000;
  // The libraries are probed behind that, function by function: until for 0.9 s there are no more.
  for (size_t before = nr_links; MonotonicNs() < until_ns; usleep(900'000))
    if (const size_t now = NrLinks(); now > nr_links && now == std::exchange(before, now)) break;
  unlink(driver.c_str());
  EXPECT_GT(NrCudaPrograms(), nr_before);
  ASSERT_EQ(
      Shell("cd " + dir + " && touch go && while kill -0 $(cat pid) 2>/dev/null; do sleep 0.1; done",
            &output),
      0)
      << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  ASSERT_TRUE(csv.comments.contains("cuda_calls")) << Text(dir + "/out");
  CheckIdentity(csv);
  EXPECT_GT(Number(csv.comments.at("cuda_calls")), 0u) << Text(dir + "/out");
}

TEST(Cuda, OffMeansOff) {
  const std::string dir = MakeDir("cuda-off");
  std::string output;
  ASSERT_EQ(
      Shell("cd " + dir + " && LD_LIBRARY_PATH=" + StandinFolder() +
                " $S record --source $SRC --gpu off -o a.csv -- sh -c '$T --workload cuda 1 >truth'",
            &output),
      0)
      << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  for (const auto& row : csv.rows) EXPECT_EQ(row.at("gpu_launches"), "");
  EXPECT_NE(csv.comments.at("not_measured").find("gpu_mem_bytes"), std::string::npos);
}

TEST(Uretprobes, WhereAFilterCanRefuseThemNothingIsProbed) {
  std::string output;
  const int code =
      Shell("cd " + TempDir() + " && LD_PRELOAD=" + StandinFolder() +
                "/librefused_uretprobe.so $S record --source $SRC --duration 0.5 -o refused.csv",
            &output);
  ASSERT_EQ(code, 0) << output;
  EXPECT_NE(output.find("GPUs are not observed: on this kernel a container's seccomp filter kills"),
            std::string::npos)
      << output;
  // Who insists is told so.
  EXPECT_EQ(
      Shell(
          "cd " + TempDir() + " && LD_PRELOAD=" + StandinFolder() +
              "/librefused_uretprobe.so $S record --source $SRC --gpu on --duration 0.5 -o refused.csv",
          &output),
      4);
}

// SLOTSCOPE_TEST_UNSAFE: whoever runs this has made a kernel where they are not.
TEST(Uretprobes, AreSafeOnThisKernelOrNotUsed) {
  const Status status = CheckUretprobesAreSafe();
  if (!std::getenv("SLOTSCOPE_TEST_UNSAFE")) {
    EXPECT_TRUE(status.ok()) << status.message();
    return;
  }
  EXPECT_FALSE(status.ok());
  std::string output;
  EXPECT_EQ(Shell("cd " + TempDir() + " && $S record --source $SRC -o unsafe.csv -- sh -c '" +
                      Workload(3) + "'",
                  &output),
            0)
      << output;
  EXPECT_NE(output.find("GPUs are not observed: on this kernel a container's seccomp filter kills"),
            std::string::npos)
      << output;
}

}  // namespace
}  // namespace slotscope
