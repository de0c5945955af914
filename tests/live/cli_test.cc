// SPDX-License-Identifier: MIT
// The program as its users meet it: exit codes, sentences, and what is left behind.
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "harness.h"
#include "ring/bpf_object.h"
#include "run/capabilities.h"

namespace slotscope {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

struct BadCase {
  const char* name;
  const char* script;
  int code;
  const char* says;  // a part of the sentence
};
void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name; }

class BadInputTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadInputTest, SaysWhatToDoAndLeavesNothing) {
  std::string dir = TempDir() + "/bad";
  mkdir(dir.c_str(), 0755);
  std::string output;
  int code = Shell("cd " + dir + " && rm -rf * && " + GetParam().script, &output);
  EXPECT_EQ(code, GetParam().code) << output;
  EXPECT_NE(output.find(GetParam().says), std::string::npos) << output;
  EXPECT_FALSE(Exists(dir + "/slotscope.rec"));
  EXPECT_FALSE(Exists(dir + "/slots.csv"));
  EXPECT_FALSE(Exists(dir + "/slots.csv.part"));
}

INSTANTIATE_TEST_SUITE_P(
    BadInput, BadInputTest,
    testing::Values(
        BadCase{"NoArguments", "$S", 2, "slotscope record"},
        BadCase{"UnknownVerb", "$S recrod", 2, "recrod"},
        BadCase{"UnknownOption", "$S record --durration 1", 2, "durration"},
        BadCase{"SlotZero", "$S record --slot 0", 2, "--slot 0"},
        BadCase{"WindowZero", "$S record --window 0", 2, "--window 0"},
        BadCase{"DurationText", "$S record --duration soon", 2, "--duration soon"},
        BadCase{"DurationNegative", "$S record --duration=-1", 2, "--duration"},
        BadCase{"UnknownSource", "$S record --source ebpf", 2, "--source ebpf"},
        BadCase{"UnknownEvent", "$S record --events cycles=nope", 2, "nope"},
        BadCase{"NoCommand", "$S record --", 2, "command"},
        BadCase{"OutputInMissingFolder", "$S record --source $SRC --duration 1 -o missing/x.csv", 6,
                "missing/x.csv.part"},
        BadCase{"OutputIsAFolder", "mkdir d && touch d/x && $S record --source $SRC --duration 1 -o d",
                6, "is no recording"},
        BadCase{"OutputIsALink", "ln -s t l && $S record --source $SRC --duration 1 -o l", 6,
                "is no recording"},
        BadCase{"RawInMissingFolder", "$S record --source $SRC --duration 1 --raw missing/x.raw", 6,
                "missing/x.raw.part"},
        BadCase{"ReplayOfNothing", "$S replay no.raw", 9, "no.raw"},
        BadCase{"ReplayOfAFolder", "mkdir d && $S replay d", 9, "d"},
        BadCase{"ReplayOfText", "$S replay /etc/passwd", 9, "no raw file"},
        BadCase{"ReplayOfAnEmptyFile", "$S replay /dev/null", 9, "no raw file"},
        BadCase{"GenIntoMissingFolder", "$S gen missing/g.raw", 6, "missing/g.raw.part"},
        BadCase{"CommandNotFound", "$S record --source $SRC -- /no/such/program", 127,
                "/no/such/program"},
        BadCase{"CommandNotExecutable", "$S record --source $SRC -- /etc/passwd", 126, "/etc/passwd"}),
    [](const auto& c) { return c.param.name; });

TEST(Cli, WithoutRootSaysSo) {
  std::string dir = TempDir() + "/user";
  mkdir(dir.c_str(), 0777);
  chmod(dir.c_str(), 0777);
  chmod(TempDir().c_str(), 0755);
  std::string binary = TempDir() + "/slotscope";
  std::string output;
  RunProgram({"/bin/cp", SlotscopeBinary(), binary}, &output);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open((dir + "/out").c_str(), O_CREAT | O_WRONLY, 0666);
    dup2(fd, 2);
    if (setgid(65534) || setuid(65534) || chdir(dir.c_str())) _exit(1);
    execl(binary.c_str(), "slotscope", "record", "--source", "bpf", "--duration", "1", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  RunProgram({"/bin/cat", dir + "/out"}, &output);
  EXPECT_EQ(WEXITSTATUS(status), 3) << output;
  EXPECT_NE(output.find("root"), std::string::npos) << output;
  EXPECT_FALSE(Exists(dir + "/slotscope.rec"));
}

// What a machine can measure, by a recording of seconds of which nothing is left.
TEST(Cli, CheckSaysWhatThisMachineCanMeasure) {
  const std::string dir = TempDir() + "/try";
  mkdir(dir.c_str(), 0755);
  const std::string in_dir = "cd " + dir + " && export TMPDIR=" + dir + " && ";
  std::string output;
  ASSERT_EQ(Shell(in_dir + "$S check && ls -A", &output), 0) << output;
  std::istringstream lines(output);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    last = line;
  }
  EXPECT_EQ(last, "A recording can be made: slotscope record") << "and nothing is left";
  const std::string module = UsesModule() ? "yes     module" : "no      module";
  EXPECT_NE(output.find(module), std::string::npos) << output;
  for (const char* name : {"yes     kernel", "yes     waiting", "cost", "ring", "complete"})
    EXPECT_NE(output.find(name), std::string::npos) << output;

  output.clear();
  ASSERT_EQ(Shell(in_dir + "$S check --json", &output), 0) << output;
  EXPECT_TRUE(output.starts_with("{\"slotscope\":")) << output;
  EXPECT_NE(output.find("\"can_record\":true"), std::string::npos) << output;
  EXPECT_EQ(output.find('\n'), output.size() - 1) << output;
  output.clear();
  // What cannot be recorded has the exit code of a recording.
  EXPECT_EQ(
      Shell(in_dir + "unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && $S check'", &output), 4)
      << output;
  EXPECT_NE(output.find("no      kernel"), std::string::npos) << output;
  EXPECT_EQ(Shell("$S check now", &output), 2);
}

TEST(Cli, ModuleAbsentSaysHowToLoadIt) {
  if (UsesModule()) GTEST_SKIP() << "the module is loaded here";
  std::string output;
  EXPECT_EQ(Shell("cd " + TempDir() + " && $S record --source kmod --duration 1", &output), 5);
  EXPECT_NE(output.find("modprobe slotscope"), std::string::npos) << output;
  EXPECT_EQ(Shell("$S rmids", &output), 5);
}

TEST(Cli, KernelWithoutBtfIsRefused) {
  std::string output;
  int code =
      Shell("cd " + TempDir() +
                " && unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && $S record --source bpf "
                "--duration 1 -o btf.csv'",
            &output);
  if (output.find("unshare") != std::string::npos) GTEST_SKIP() << output;
  EXPECT_EQ(code, 4) << output;
  EXPECT_NE(output.find("BTF"), std::string::npos) << output;
  EXPECT_FALSE(Exists(TempDir() + "/btf.csv.part"));
}

// Records with that type information instead of the kernel's own, in a mount namespace of its own.
int RecordWithBtf(const std::string& bytes, const std::string& csv, const std::string& arguments,
                  std::string* output) {
  std::ofstream(TempDir() + "/other-btf") << bytes;
  return Shell("cd " + TempDir() +
                   " && unshare -m sh -c 'mount -o bind other-btf /sys/kernel/btf/vmlinux && "
                   "$S record --source bpf -o " +
                   csv + " " + arguments + "'",
               output);
}

TEST(Cli, KernelWithoutANeededHookIsRefused) {
  std::string output;
  const int code =
      RecordWithBtf(BtfWithout("btf_trace_task_rename"), "hook.csv", "--duration 1", &output);
  if (output.find("unshare") != std::string::npos) GTEST_SKIP() << output;
  EXPECT_EQ(code, 4) << output;
  EXPECT_NE(output.find("no tracepoint task_rename"), std::string::npos) << output;
  EXPECT_FALSE(Exists(TempDir() + "/hook.csv.part"));
}

// The kernel's own type information, in which sched_switch has the arguments that it had before 5.18:
// its pointer is led to some function with one argument less. Nothing moves, so that all ids stay.
std::string BtfWithoutSwitchState() {
  std::unique_ptr<btf, decltype(&btf__free)> types(btf__load_vmlinux_btf(), btf__free);
  const auto at = [&](uint32_t id) { return const_cast<btf_type*>(btf__type_by_id(types.get(), id)); };
  const int id = btf__find_by_name_kind(types.get(), "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
  if (id < 0) return {};
  btf_type* pointer = at(at(static_cast<uint32_t>(id))->type);
  const uint32_t wanted = btf_vlen(at(pointer->type)) - 1u;
  for (uint32_t other = 1; other < btf__type_cnt(types.get()); other++)
    if (btf_is_func_proto(at(other)) && btf_vlen(at(other)) == wanted) {
      pointer->type = other;
      break;
    }
  uint32_t size;
  const void* bytes = btf__raw_data(types.get(), &size);
  return {static_cast<const char*>(bytes), size};
}

TEST(Cli, AKernelWhoseSwitchesHaveNoStateIsRecorded) {
  std::string output;
  const int code = RecordWithBtf(BtfWithoutSwitchState(), "stateless.csv", "--duration 1", &output);
  ASSERT_EQ(code, 0) << output;
  const CsvFile csv = ReadCsv(TempDir() + "/stateless.csv");
  CheckIdentity(csv);
  EXPECT_EQ(Shell("grep 'note: .*does not pass the state of the thread that is switched out' " +
                      TempDir() + "/stateless.csv",
                  &output),
            0);
  uint64_t nr_preemptions = 0, nr_switches = 0;
  for (const auto& row : csv.rows) {
    nr_preemptions += std::strtoull(row.at("preemptions").c_str(), nullptr, 10);
    nr_switches += std::strtoull(row.at("switches").c_str(), nullptr, 10);
  }
  EXPECT_GT(nr_switches, 0u);
  EXPECT_LT(nr_preemptions, nr_switches);
}

TEST(Cli, OnAKernelWhoseSwitchesHaveNoStateThreadsAreFollowed) {
  std::string output;
  const int code = RecordWithBtf(
      BtfWithoutSwitchState(), "stateless-cuda.csv",
      "--gpu on -- env LD_LIBRARY_PATH=" + StandinFolder() + " $T --workload cuda-train 0", &output);
  ASSERT_EQ(code, 0) << output;
  uint64_t no_work_ns = 0, ran_ns = 0, unknown_ns = 0;
  for (const auto& row : ReadCsv(TempDir() + "/stateless-cuda.csv").rows) {
    no_work_ns += Number(row.at("gpu_no_work_ns"));
    ran_ns += Number(row.at("gpu_no_work_ran_ns"));
    unknown_ns += Number(row.at("gpu_no_work_unknown_ns"));
  }
  // Before each of 50 steps it computes for 2 ms.
  EXPECT_GT(ran_ns, 50'000'000u) << no_work_ns << " of them not known: " << unknown_ns;
  EXPECT_LT(unknown_ns, no_work_ns / 4);
}

// Instructions that the verifier has followed, of the programs for switches that are new. (The kernel
// frees those of an earlier recorder a little after its end.)
uint64_t VerifiedForSwitches(const std::set<uint32_t>& before) {
  uint64_t nr = 0;
  for (const LoadedProgram& program : LoadedPrograms("ss_sched_switch"))
    if (!before.contains(program.id)) nr += program.verified_insns;
  return nr;
}

// Without the helper bpf_loop(), which came in 5.17; enough switches that sums are sent. That it is not
// used the verifier shows: a loop of ours it follows to its end.
TEST(Cli, AKernelWithoutLoopsIsRecorded) {
  constexpr int kRounds = 20'000;
  std::map<std::string, uint64_t> nr_verified;
  for (const std::string name : {"loops", "loopless"}) {
    std::string output;
    std::set<uint32_t> before;
    for (const LoadedProgram& program : LoadedPrograms("ss_sched_switch")) before.insert(program.id);
    std::atomic<bool> over{false};
    std::thread looks([&] {
      for (; !over; usleep(10'000))
        nr_verified[name] = std::max(nr_verified[name], VerifiedForSwitches(before));
    });
    const int code =
        RecordWithBtf(BtfWithout(name == "loops" ? "BPF_FUNC_no_such" : "BPF_FUNC_loop"), name + ".csv",
                      fmt::format("--max-overhead 100 -- $T --workload ping-pong {}", kRounds), &output);
    over = true;
    looks.join();
    ASSERT_EQ(code, 0) << output;
    const CsvFile csv = ReadCsv(TempDir() + "/" + name + ".csv");
    CheckIdentity(csv);
    uint64_t nr_switches = 0;
    for (const auto& row : csv.rows)
      if (row.at("kind") == "user" || row.at("kind") == "unassigned")
        nr_switches += Number(row.at("switches"));
    EXPECT_GT(nr_switches + Number(csv.comments.at("missed_switches")), 2u * kRounds * 95 / 100) << name;
  }
  RecordProperty("loops", std::to_string(nr_verified["loops"]));
  RecordProperty("loopless", std::to_string(nr_verified["loopless"]));
  EXPECT_GT(nr_verified["loops"], 0u);
  EXPECT_GT(nr_verified["loopless"], 2 * nr_verified["loops"]);
}

TEST(Cli, PidNamespaceRefusesWhatCannotWork) {
  std::string output;
  int code = Shell(
      "cd " + TempDir() + " && unshare -p -f $S record --source $SRC --duration 1 --pid 1 -o ns.csv",
      &output);
  if (output.find("unshare") != std::string::npos) GTEST_SKIP() << output;
  EXPECT_EQ(code, 2) << output;
  EXPECT_NE(output.find("pid namespace"), std::string::npos) << output;
}

TEST(Cli, FullDiskKeepsWholeRowsAndSaysSo) {
  std::string dir = TempDir() + "/small";
  mkdir(dir.c_str(), 0755);
  ASSERT_EQ(mount("none", dir.c_str(), "tmpfs", 0, "size=64k"), 0) << strerror(errno);
  std::string output;
  int code = Shell("cd " + dir + " && $S record --source $SRC --duration 20 -o full.csv", &output);
  EXPECT_EQ(code, 6) << output;
  EXPECT_NE(output.find("full.csv.part"), std::string::npos) << output;
  EXPECT_FALSE(Exists(dir + "/full.csv"));
  std::string part;
  RunProgram({"/bin/cat", dir + "/full.csv.part"}, &part);
  EXPECT_FALSE(part.empty());
  EXPECT_EQ(part.back(), '\n');
  umount(dir.c_str());
}

TEST(Cli, MaxSizeStopsInTime) {
  std::string output, path = TempDir() + "/max.csv";
  EXPECT_EQ(Shell("$S record --source $SRC --duration 60 --max-size 64K -o " + path, &output), 0)
      << output;
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_LE(info.st_size, 65536);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_NE(output.find("--max-size"), std::string::npos) << output;
}

TEST(Cli, CommandsStatusIsOurs) {
  std::string output, csv = TempDir() + "/status.csv";
  EXPECT_EQ(Shell("$S record --source $SRC -o " + csv + " -- /bin/sh -c 'exit 7'", &output), 7)
      << output;
  EXPECT_EQ(Shell("$S record --source $SRC -o " + csv + " -- /bin/sh -c 'kill -TERM $$'", &output),
            128 + SIGTERM);
}

TEST(Cli, CommandThatOutlivesTheRecordingIsWaitedFor) {
  std::string output, csv = TempDir() + "/outlives.csv";
  EXPECT_EQ(
      Shell("$S record --source $SRC --duration 0.2 -o " + csv + " -- /bin/sh -c 'sleep 1; exit 9'",
            &output),
      9)
      << output;
  CheckIdentity(ReadCsv(csv));
}

TEST(Cli, InterruptFinishesTheFile) {
  for (int signal : {SIGINT, SIGTERM}) {
    std::string csv = TempDir() + "/interrupted.csv", output;
    unlink(csv.c_str());
    // The recorder is told once it says that it records.
    int code = Shell("$S record --source $SRC -o " + csv + " 2> " + TempDir() + "/err & pid=$!; " +
                         UntilRecording(TempDir() + "/err") + "sleep 0.5; " + "kill -" +
                         std::to_string(signal) + " $pid; wait $pid",
                     &output);
    EXPECT_EQ(code, 0) << output;
    CheckIdentity(ReadCsv(csv));
    EXPECT_FALSE(Exists(csv + ".part"));
  }
}

TEST(Cli, AFileThatCannotBeNamedIsNotSaidToBeWritten) {
  const std::string csv = TempDir() + "/in-the-way.csv", err = TempDir() + "/in-the-way-err";
  std::string output;
  const int code =
      Shell("$S record --source $SRC -o " + csv + " 2>" + err + " & pid=$!; " + UntilRecording(err) +
                "mkdir " + csv + "; kill -TERM $pid; wait $pid; code=$?; rmdir " + csv + "; cat " + err +
                "; exit $code",
            &output);
  EXPECT_EQ(code, 6) << output;
  EXPECT_EQ(output.find("wrote "), output.npos) << output;
  EXPECT_NE(output.find("cannot rename " + csv + ".part"), output.npos) << output;
  EXPECT_TRUE(Exists(csv + ".part"));
}

// A terminal that is closed does not end what nohup has started, which ignores that: it writes on.
TEST(Cli, NohupIsRespected) {
  const std::string csv = TempDir() + "/nohup.csv", err = TempDir() + "/nohup-err";
  unlink(csv.c_str());
  std::string output;
  const int code = Shell(
      "(trap '' HUP; exec $S record --source $SRC -o " + csv + " 2>" + err + ") & pid=$!; " +
          UntilRecording(err) + "kill -HUP $pid; size() { wc -c <" + csv +
          ".part || echo 0; }; for i in 1 2; do n=$(size); until [ $(size) -gt $n ]; do kill -0 $pid || "
          "{ echo it has ended; exit 9; }; sleep 0.1; done; done; kill -TERM $pid; wait $pid",
      &output);
  EXPECT_EQ(code, 0) << output;
  CheckIdentity(ReadCsv(csv));
}

std::set<uint32_t> ProgramIds() {
  std::set<uint32_t> ids;
  for (const LoadedProgram& program : LoadedPrograms("ss_")) ids.insert(program.id);
  return ids;
}

// The kernel frees programs a little after their last user is gone. Those that were there before may be
// of another recorder, such as this machine's service.
bool NoProgramsLeftBut(const std::set<uint32_t>& before) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!std::ranges::includes(before, ProgramIds())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

// Of root's capabilities the recorder keeps what it needs, in each of its threads; the command has all.
TEST(Cli, RootsCapabilitiesAreGivenUp) {
  const std::string dir = MakeDir("capabilities");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir +
                      " && $S record --source $SRC -o a.csv -- sh -c '"
                      "grep -h CapEff /proc/$$/status; echo of recorder; "
                      "grep -h CapEff /proc/$PPID/task/*/status' 2>err",
                  &output),
            0)
      << output;
  std::istringstream lines(output);
  const auto mask_of = [](const std::string& line) {
    return std::stoull(line.substr(line.find_first_of("0123456789abcdef", 7)), nullptr, 16);
  };
  constexpr uint64_t kSysAdmin = 1ull << 21, kSysModule = 1ull << 16, kPerfmon = 1ull << 38;
  const uint64_t given_up = kSysModule | (NeedsSysAdmin() ? 0 : kSysAdmin);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(mask_of(line) & (kSysAdmin | kSysModule), kSysAdmin | kSysModule)
      << "the command's: " << line;
  std::getline(lines, line);
  ASSERT_EQ(line, "of recorder");
  size_t nr_threads = 0;
  while (std::getline(lines, line) && line.starts_with("CapEff")) {
    nr_threads++;
    EXPECT_EQ(mask_of(line) & given_up, 0u) << line;
    EXPECT_NE(mask_of(line) & kPerfmon, 0u) << line;
  }
  EXPECT_GE(nr_threads, 4u);
  CheckIdentity(ReadCsv(dir + "/a.csv"));
}

TEST(Cli, KilledLeavesDataAndNothingInTheKernel) {
  const std::set<uint32_t> before = ProgramIds();
  std::string csv = TempDir() + "/killed.csv", output;
  Shell(
      "$S record --source $SRC -o " + csv + " 2>/dev/null & pid=$!; n=0; " + "until [ $(cat " + csv +
          ".part 2>/dev/null | wc -c) -gt 20000 ] || [ $n -gt 200 ]; do n=$((n+1)); sleep 0.1; done; " +
          "kill -9 $pid; wait $pid",
      &output);
  EXPECT_TRUE(NoProgramsLeftBut(before));
  CsvFile part = ReadCsv(csv + ".part");
  EXPECT_GT(part.rows.size(), 100u);
  // The next recording of that name moves it away and says so.
  EXPECT_EQ(Shell("$S record --source $SRC --duration 0.3 -o " + csv, &output), 0) << output;
  EXPECT_TRUE(Exists(csv + ".part.1"));
  EXPECT_NE(output.find(".part.1"), std::string::npos) << output;
}

TEST(Cli, TwoCollectorsSideBySide) {
  std::string a = TempDir() + "/a.csv", b = TempDir() + "/b.csv", output;
  int code = Shell("$S record --source $SRC --duration 2 -o " + a +
                       " & one=$!; $S record --source $SRC --duration 1 -o " + b +
                       "; second=$?; wait $one; first=$?; echo exit codes $first $second; "
                       "[ $first = 0 ] && [ $second = 0 ]",
                   &output);
  EXPECT_EQ(code, 0) << output;
  CheckIdentity(ReadCsv(a));
  CheckIdentity(ReadCsv(b));
}

TEST(Cli, TwoCollectorsOnOneFileAreRefused) {
  std::string a = TempDir() + "/same.csv", output;
  int code = Shell("$S record --source $SRC -o " + a + " 2>" + TempDir() + "/err2 & one=$!; " +
                       UntilRecording(TempDir() + "/err2") + "$S record --source $SRC --duration 1 -o " +
                       a + "; code=$?; kill $one; wait $one; exit $code",
                   &output);
  EXPECT_EQ(code, 7) << output;
  EXPECT_NE(output.find("another recording"), std::string::npos) << output;
  CheckIdentity(ReadCsv(a));
}

TEST(Cli, CoarserSlotsAndFiltersKeepTheIdentity) {
  std::string csv = TempDir() + "/coarse.csv", output;
  EXPECT_EQ(Shell("$S record --source $SRC --duration 2 --slot 100 --top 2 -o " + csv, &output), 0)
      << output;
  CsvFile file = ReadCsv(csv);
  CheckIdentity(file);
  std::map<std::string, int> processes_of;
  for (const auto& row : file.rows)
    processes_of[row.at("slot_start_ns")] += row.at("kind") == "user" || row.at("kind") == "kernel";
  for (const auto& [slot, count] : processes_of) EXPECT_LE(count, 2);
}

}  // namespace
}  // namespace slotscope
