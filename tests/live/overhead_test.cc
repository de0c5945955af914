// SPDX-License-Identifier: MIT
// What a recording costs: what it says of that, and what it does when it is too much.
#include <bpf/bpf.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <slotscope/cost.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <regex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cuda/calls.h"
#include "cuda/library.h"
#include "cuda/probes.h"
#include "cuda/trap_cost.h"
#include "harness.h"

namespace slotscope {
namespace {

// By id: time of all BPF programs of our kind that are loaded, by the kernel's statistics.
std::map<uint32_t, uint64_t> ProgramTimes() {
  std::map<uint32_t, uint64_t> times;
  for (const LoadedProgram& program : LoadedPrograms("ss_")) times[program.id] = program.run_time_ns;
  return times;
}

// The kernel knows, too, what programs take, with some ns more of each run, to get there. The module's
// probes are more than the relay that runs within.
TEST(Overhead, WhatProbesTakeIsWhatTheKernelSays) {
  const auto before = ProgramTimes();
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  const UniqueFd statistics(bpf_enable_stats(BPF_STATS_RUN_TIME));
  ASSERT_TRUE(statistics.valid());
  const auto sum_of = [&] {
    uint64_t sum_ns = 0;
    for (const auto& [id, ns] : ProgramTimes()) sum_ns += before.contains(id) ? 0 : ns;
    return sum_ns;
  };
  // Where a virtual CPU stands still within a program the kernel counts that as well, and we do if we
  // time that run: of ten rounds the least that each has counted is looked at.
  uint64_t truth_ns = UINT64_MAX, said_ns = UINT64_MAX;
  for (int round = 0; round < 10; round++) {
    const uint64_t truth_begin_ns = sum_of(), begin_ns = recorder.source().probe_ns();
    ASSERT_EQ(RunWorkload({"ping-pong", "10000"}).exit_code, 0);
    truth_ns = std::min(truth_ns, sum_of() - truth_begin_ns);
    said_ns = std::min(said_ns, recorder.source().probe_ns() - begin_ns);
  }
  recorder.Stop();
  ASSERT_GT(truth_ns, 100'000u);
  RecordProperty("said_percent", static_cast<int>(100 * said_ns / truth_ns));
  EXPECT_GE(said_ns, truth_ns / 2) << truth_ns;
  if (!UsesModule()) {
    EXPECT_LE(said_ns, truth_ns + truth_ns / 4) << truth_ns;
  }
}

constexpr int kCalls = 610;  // ten of each program are timed
uint64_t CallsNs(void* function) {
  const auto call = reinterpret_cast<int (*)(void*)>(function);
  const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < kCalls; i++) call(nullptr);
  return ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

// With what a function begins makes half of what it costs to probe it, or more: each kind has its price.
TEST(Overhead, WhatTrapsTakeIsWhatTheirCallerPays) {
  const std::string path = StandinFolder() + "/prologues/libcudart.so.13";
  void* const cudart = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(cudart) << dlerror();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CudaLibrary library;
  ASSERT_TRUE(ReadCudaLibrary(fd.get(), &library).ok());
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  CudaProbes probes;
  probes.AskKernel();
  ASSERT_TRUE(
      probes.Load(recorder.source().rings().map_fd(), recorder.source().output_errors_fd(), false).ok());
  CudaAttachment attachment;
  ASSERT_TRUE(probes.Attach(path, library, &attachment).ok());
  TrapCosts costs;
  ASSERT_TRUE(costs.Measure(&probes, library).ok());
  std::map<ss_cuda_prologue, uint64_t> truths_ns;
  for (const CudaLibrary::Target& target : library.targets) {
    const char* const name = CudaCalls()[target.call].name.c_str();
    SCOPED_TRACE(name);
    // Its thread may stand still, or be where another one's interrupts are: the quickest of many is
    // looked at.
    uint64_t truth_ns = UINT64_MAX, said_ns = 0;
    CudaEntries entered{};
    for (int round = 0; round < 40; round++) {
      const CudaEntries before = probes.entries();
      const uint64_t programs_ns = probes.costs().ns;
      const uint64_t round_ns = CallsNs(dlsym(cudart, name));
      if (round_ns >= truth_ns) continue;
      truth_ns = round_ns;
      entered = probes.entries();
      for (size_t i = 0; i < entered.size(); i++) entered[i] -= before[i];
      said_ns = probes.costs().ns - programs_ns + costs.SumNs(entered);
    }
    for (size_t i = 0; i < entered.size(); i++)
      EXPECT_NEAR(static_cast<double>(entered[i]), i == target.prologue ? kCalls : 0, 2 * SS_TIMED_RUNS);
    const uint64_t percent = IsEmulated() ? 60 : 30;
    const auto is_near = [&](uint64_t ns) {
      return 100 * ns > truth_ns * (100 - percent) && 100 * ns < truth_ns * (100 + percent);
    };
    EXPECT_TRUE(is_near(said_ns)) << said_ns << ", not " << truth_ns;
    EXPECT_FALSE(is_near((IsEmulated() ? 4 : 2) * said_ns));
    truths_ns[target.prologue] = truth_ns;
  }
  ASSERT_EQ(truths_ns.size(), size_t{SS_NR_PROLOGUES});
  RecordProperty("push_ns", static_cast<int>(truths_ns[SS_PROLOGUE_PUSH] / kCalls));
  RecordProperty("other_ns", static_cast<int>(truths_ns[SS_PROLOGUE_OTHER] / kCalls));
  fmt::print("a call takes {}, {}, {} ns\n", truths_ns[SS_PROLOGUE_OTHER] / kCalls,
             truths_ns[SS_PROLOGUE_PUSH] / kCalls, truths_ns[SS_PROLOGUE_ENDBR] / kCalls);
  attachment = {};
  recorder.Stop();
}

// How often the recorder's thread that looks for CUDA has slept, while files are mapped all the time,
// from when it waits for the first time: how often it slept until then is the kernel's affair.
std::string WatcherSleeps(const std::string& dir, const std::string& options) {
  std::string output;
  EXPECT_EQ(
      Shell(
          "cd " + dir + " && $S record --source $SRC " + options +
              " -o a.csv >out 2>err & recorder=$!; cd " + dir +
              "; until grep -qs recording err && grep -qs ss-cuda /proc/$recorder/task/*/comm; do sleep "
              "0.05; done; t=$(grep -ls ss-cuda /proc/$recorder/task/*/comm); t=${t%/comm}; until grep "
              "-q poll $t/wchan; do sleep 0.05; done; sleeps() { sed -n "
              "'s/^voluntary_ctxt_switches:\t//p' $t/status; }; before=$(sleeps); n=0; while [ $n -lt "
              "50 ]; do /bin/true; sleep 0.02; n=$((n + 1)); done; echo $(($(sleeps) - before)); kill "
              "$recorder; wait $recorder",
          &output),
      0)
      << output << Text(dir + "/err");
  return output;
}

// A machine without a GPU pays nothing for it.
TEST(Overhead, WithoutADriverNobodyLooksForCuda) {
  if (access("/proc/driver/nvidia", F_OK) == 0) GTEST_SKIP() << "there is a driver";
  const std::string dir = MakeDir("no-driver");
  EXPECT_LE(std::stoul(WatcherSleeps(dir, "")), 3u);
  EXPECT_GT(std::stoul(WatcherSleeps(dir, "--gpu on")), 20u);
}

// How often all threads of a recorder have slept in five seconds, behind its first three.
size_t RecorderSleeps(const std::string& dir, const std::string& options) {
  std::string output;
  EXPECT_EQ(
      Shell("cd " + dir + " && $S record --source $SRC " + options +
                " -o a.csv >out 2>err & recorder=$!; cd " + dir + "; " + UntilRecording("err") +
                "sleeps() { cat "
                "/proc/$recorder/task/*/status | sed -n 's/^voluntary_ctxt_switches:\t//p' | tr '\n' "
                "'+'; echo 0; }; sleep 3; before=$(($(sleeps))); sleep 5; echo $(($(sleeps) - before)); "
                "kill $recorder; wait $recorder",
            &output),
      0)
      << output << Text(dir + "/err");
  return std::stoul(output);
}

// Where nothing happens a recorder hardly wakes up; where somebody acts on the rows, it does.
TEST(Overhead, AnIdleMachineIsLeftAlone) {
  if (!IsEmulated()) GTEST_SKIP() << "others may run here";
  const std::string dir = MakeDir("idle");
  const size_t nr = RecorderSleeps(dir, ""), nr_prompt = RecorderSleeps(dir, "--window 2");
  RecordProperty("wakeups", static_cast<int>(nr));
  fmt::print("{} and {} wake-ups in 5 s\n", nr, nr_prompt);
  EXPECT_LE(nr, 5u * 20);
  EXPECT_GT(nr_prompt, 5u * 50);
}

std::string OverheadCommand(const std::string& dir, const std::string& limit, int seconds = 300) {
  const char* source = UsesModule() ? "kmod" : "bpf";
  return fmt::format(
      "cd {} && $S record --source {} --max-overhead {} --duration {} --raw r.raw -o a.csv", dir, source,
      limit, seconds);
}

constexpr const char* kLoad = "head -c 100000000 /dev/zero | cksum >x";

// Nobody is watched at any price, if that is what the user wants: it does without what it can, says so
// where it happens, and ends; all before the end of its duration. Replay reads of it in the file.
TEST(Overhead, ARecordingThatCostsTooMuchStopsIfItShall) {
  const std::string dir = MakeDir("overhead");
  std::string output;
  ASSERT_EQ(Shell(OverheadCommand(dir, "0.1,stop") + " & cd " + dir +
                      "; sleep 0.2; while kill -0 $! 2>/dev/null; do " + kLoad +
                      "; done; wait $!; [ $? = 11 ] && $S replay r.raw -o b.csv && cmp a.csv b.csv",
                  &output),
            0)
      << output;
  EXPECT_NE(output.find("more than --max-overhead 0.1%,stop allows"), std::string::npos) << output;
  CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const std::string text = Text(dir + "/a.csv");
  const size_t slowed = text.find("the buffers are drained less often"),
               causes = text.find("who ran while a process waited for a CPU is not looked for"),
               longer = text.find("slots are longer"), stopped = text.find("the recording stops");
  ASSERT_NE(stopped, std::string::npos) << output;
  EXPECT_LT(slowed, causes);
  EXPECT_LT(causes, longer);
  EXPECT_LT(longer, stopped);
  std::map<std::string, size_t> nr_rows;  // by length
  std::map<std::string, uint64_t> others_ns, unknown_ns;
  for (const auto& row : csv.rows) {
    nr_rows[row.at("slot_ns")]++;
    if (row.at("wait_others_ns").empty()) continue;
    others_ns[row.at("slot_ns")] += Number(row.at("wait_others_ns"));
    unknown_ns[row.at("slot_ns")] += Number(row.at("wait_unknown_ns"));
  }
  EXPECT_GT(others_ns["1000000"], 0u);
  EXPECT_EQ(others_ns["10000000"], 0u) << "that came later";
  EXPECT_GT(unknown_ns["10000000"], 0u) << "how long, it says still";
  EXPECT_GT(nr_rows["1000000"], 0u);
  EXPECT_GT(nr_rows["10000000"], 0u);
  EXPECT_EQ(nr_rows.size(), 2u);
  EXPECT_GT(slowed, text.find("slot_start_ns")) << "it is where it happened, not in the header";
}

// Where the first slot begins behind a note in a CSV.
uint64_t SlotBehind(const std::string& text, std::string_view note) {
  size_t at = text.find(note);
  EXPECT_NE(at, std::string::npos) << note;
  do at = text.find('\n', at) + 1;
  while (at > 0 && at < text.size() && text[at] == '#');
  return at > 0 && at < text.size() ? std::stoull(text.substr(at, 20)) : 0;
}

// As a rule it does not: at its cheapest it says so, and records on until somebody ends it.
TEST(Overhead, ARecordingThatCostsTooMuchGoesOnAtItsCheapest) {
  const std::string dir = MakeDir("cheapest");
  std::string output;
  ASSERT_EQ(Shell(OverheadCommand(dir, "0.1") + " 2>err & recorder=$!; cd " + dir + "; " +
                      UntilRecording("err") +
                      "until grep -qs 'so it records on' err; do kill -0 "
                      "$recorder || exit 1; " +
                      kLoad +
                      "; done; for i in $(seq 30); do kill -0 $recorder || exit 1; sleep 0.1; done; "
                      "kill $recorder; wait $recorder && $S replay r.raw -o b.csv && cmp a.csv b.csv",
                  &output),
            0)
      << output << Text(dir + "/err");
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const uint64_t cheapest_ns = SlotBehind(Text(dir + "/a.csv"), "so it records on");
  ASSERT_GT(cheapest_ns, 0u);
  uint64_t last_ns = 0;
  for (const auto& row : csv.rows) last_ns = std::max(last_ns, Number(row.at("slot_start_ns")));
  EXPECT_GT(last_ns, cheapest_ns + 2'000'000'000) << "what comes behind that is in it";
}

// What a recording costs here when nothing happens, % of all CPUs: some tenths; ten times that where the
// host takes back whatever memory is not used.
double IdleCostPercent() {
  std::string output;
  EXPECT_EQ(Shell("$S check --json", &output), 0) << output;
  std::smatch found;
  const std::regex cost("\"cost\",\"state\":\"size\",\"what\":\"([0-9.]+)%");
  if (!std::regex_search(output, found, cost)) {
    ADD_FAILURE() << output;
    return 0;
  }
  return std::strtod(found[1].str().c_str(), nullptr);
}

// A burst (ping-pongs) takes twice of that, and what others do beside this test does not take half of
// it.
std::string LimitOfABurst() {
  return fmt::format("{:.1f}", std::clamp(3 * IdleCostPercent(), 5.0, 7.0));
}

// What is not probed is not known, and who comes when it is probed again is. (How much is known of a
// process that was there the whole time the gap says: tests/unit.)
TEST(Overhead, CudaIsNotProbedForAsLongAsThatCostsTooMuch) {
  const std::string dir = MakeDir("unprobed");
  std::string output;
  const std::string limit = LimitOfABurst();
  // Who is there the whole time does little, so that without probes it costs less than half of the
  // limit.
  const std::string launches = "$T --workload cuda-launches ", seldom = "$T --workload cuda-seldom ";
  const int code = Shell(
      OverheadCommand(dir, limit + " --gpu on --all", 300) + " 2>err & recorder=$!; cd " + dir + "; " +
          UntilRecording("err") + seldom +
          "300000 & there=$!; "
          "until grep -qs 'CUDA is not probed' err; do kill -0 $recorder || exit 1; $T --workload "
          "ping-pongs 100000 >/dev/null; done; sleep 2; until grep -qs 'CUDA is probed again' err; "
          "do kill -0 $recorder || exit 1; sleep 0.1; done; " +
          launches +
          "2000 & later=$!; echo $there $later >tgids; wait $later; kill $there; kill $recorder; "
          "wait $recorder && $S replay r.raw -o b.csv && cmp a.csv b.csv",
      &output);
  ASSERT_EQ(code, 0) << "limit " << limit << "%\n" << output << Text(dir + "/err");
  std::string there, later;
  std::istringstream(Text(dir + "/tgids")) >> there >> later;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const std::string text = Text(dir + "/a.csv");
  const uint64_t off_ns = SlotBehind(text, "CUDA is not probed"),
                 on_ns = SlotBehind(text, "CUDA is probed again");
  ASSERT_GT(on_ns, off_ns);
  constexpr uint64_t kTakesNs = 1'000'000'000;  // to detach
  enum Part { kBefore, kWithout, kAgain };
  std::map<std::pair<std::string, Part>, size_t> known, unknown;  // rows of who launches
  for (const auto& row : csv.rows) {
    const uint64_t slot_ns = Number(row.at("slot_start_ns"));
    if (slot_ns >= off_ns && slot_ns < off_ns + kTakesNs) continue;
    const Part part = slot_ns < off_ns ? kBefore : slot_ns < on_ns ? kWithout : kAgain;
    (row.at("gpu_launches").empty() ? unknown : known)[{row.at("tgid"), part}]++;
  }
  EXPECT_GT((known[{there, kBefore}]), 100u);
  EXPECT_EQ((known[{there, kWithout}]), 0u);
  EXPECT_GT((unknown[{there, kWithout}]), 100u);
  EXPECT_GT((known[{later, kAgain}]), 100u);
}

// As a rule it records on: through a burst, and as before once that is over. (Beside others it may not
// be over for as long as they are there.) What it does without has empty columns meanwhile.
TEST(Overhead, ABurstIsRecordedAndThenAllIsAsBefore) {
  const std::string dir = MakeDir("burst");
  std::string output;
  // It is as before when it costs half of the limit.
  const std::string limit = LimitOfABurst();
  ASSERT_EQ(
      Shell(
          OverheadCommand(dir, limit, IsEmulated() ? 300 : 120) +
              " --events cycles=task-clock,instructions=page-faults 2>err & recorder=$!; cd " + dir +
              "; until grep -qs recording err; do kill -0 $recorder || exit 1; sleep 0.05; done; "
              // The recorder ends by itself, if it comes to that: what is looked for has not come then.
              "until grep -qs 'counters are not read' err; do kill -0 $recorder || exit 1; "
              "$T --workload ping-pongs 100000 >/dev/null; done; "
              "until grep -qs 'as often as before' err; do kill -0 $recorder || exit 1; sleep 0.2; "
              "done; "
              "sleep 0.2; kill $recorder; wait $recorder && $S replay r.raw -o b.csv && cmp a.csv b.csv",
          &output),
      0)
      << "limit " << limit << "%\n"
      << output << Text(dir + "/err");
  CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const std::string text = Text(dir + "/a.csv");
  const uint64_t slowed = SlotBehind(text, "less often"),
                 without = SlotBehind(text, "are not read any more"),
                 counted = SlotBehind(text, "are read again"),
                 again = SlotBehind(text, "as often as before");
  EXPECT_LT(slowed, without);
  EXPECT_LT(without, counted);
  EXPECT_LT(counted, again);
  // A note is in the slot in which it was said, or in one of the next.
  constexpr uint64_t kBeside = 100'000'000;
  std::map<std::string, std::pair<uint64_t, uint64_t>> rows;  // with counts, without
  for (const CsvRow& row : csv.rows) {
    if (row.at("kind") != "user" || row.at("cpu_ns") == "0") continue;  // who does not run counts 0
    const uint64_t at = std::stoull(row.at("slot_start_ns"));
    const char* const when = at + kBeside < without                             ? "before"
                             : at > without + kBeside && at + kBeside < counted ? "meanwhile"
                             : at > counted + kBeside                           ? "after"
                                                                                : "beside";
    (row.at("cycles").empty() ? rows[when].second : rows[when].first)++;
  }
  // A row whose first measure is its only one has none.
  EXPECT_GT(rows["before"].first, 100u);
  EXPECT_LT(rows["before"].second, rows["before"].first);
  EXPECT_EQ(rows["meanwhile"].first, 0u);
  EXPECT_GT(rows["meanwhile"].second, 10u);
  EXPECT_GT(rows["after"].first, 10u);
}

}  // namespace
}  // namespace slotscope
