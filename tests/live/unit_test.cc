// SPDX-License-Identifier: MIT
// The service, as its unit (debian/slotscope.service) has it confined and started again.
#include <cap-ng.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "harness.h"
#include "run/capabilities.h"

namespace slotscope {
namespace {

constexpr const char* kSyscallNumbers = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// By key; of one that is there several times all values, with a space between them.
using Unit = std::map<std::string, std::string>;
Unit ReadUnit() {
  Unit unit;
  const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::ifstream file(build.parent_path() / "debian/slotscope.service");
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == line.npos) continue;
    std::string& value = unit[line.substr(0, equals)];
    value += (value.empty() ? "" : " ") + line.substr(equals + 1);
  }
  return unit;
}

std::set<std::string> NamesIn(const std::string& group) {
  std::string output;
  EXPECT_EQ(Shell("systemd-analyze --no-pager syscall-filter " + group, &output), 0) << output;
  std::set<std::string> names;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = WordsOf(line);
    if (words.size() != 1 || words[0] == group) continue;
    if (words[0].starts_with('@'))
      names.merge(NamesIn(words[0]));
    else
      names.insert(words[0]);
  }
  EXPECT_FALSE(names.empty()) << group;
  return names;
}

// The calls that the unit refuses. Names of other architectures have no number here.
std::set<uint32_t> RefusedCalls(std::string filter) {
  EXPECT_TRUE(filter.starts_with('~'));
  std::set<std::string> names;
  for (const std::string& word : WordsOf(filter.substr(1)))
    if (word.starts_with('@'))
      names.merge(NamesIn(word));
    else
      names.insert(word);
  std::set<uint32_t> numbers = {SYS_unshare, SYS_setns};  // RestrictNamespaces
  std::ifstream file(kSyscallNumbers);
  for (std::string define, name, number; file >> define;) {
    if (define != "#define" || !(file >> name >> number) || !name.starts_with("__NR_")) continue;
    if (names.contains(name.substr(5))) numbers.insert(static_cast<uint32_t>(std::stoul(number)));
  }
  return numbers;
}

bool Refuse(const std::set<uint32_t>& calls) {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),  // SystemCallArchitectures
      BPF_STMT(BPF_RET | BPF_K, kRefuse),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const uint32_t call : calls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, kRefuse));
  }
  // RestrictAddressFamilies
  constexpr uint32_t kFamilies[] = {AF_UNIX, AF_NETLINK, AF_INET, AF_INET6};
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, std::size(kFamilies) * 2 + 2));
  code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)));
  for (const uint32_t family : kFamilies) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, family, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool KeepCapabilities() {
  capng_clear(CAPNG_SELECT_ALL);
  const auto all = static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_BOUNDING_SET);
  for (int one : kRecordingCapabilities) capng_update(CAPNG_ADD, all, static_cast<unsigned>(one));
  // For kernels that want that.
  capng_update(CAPNG_ADD, all, CAP_SYS_ADMIN);
  // What sets the bounding set is gone then, too.
  return capng_apply(CAPNG_SELECT_ALL) == 0;
}

// ProtectSystem, ProtectKernelTunables, ProtectProc.
bool ProtectAllBut(const std::string& folder) {
  const char* const dir = folder.c_str();
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(dir, dir, nullptr, MS_BIND, nullptr) == 0 &&
         mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0 &&
         mount(nullptr, "/sys", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0 &&
         mount("proc", "/proc", "proc", 0, "hidepid=invisible") == 0;
}

// A recording of a second in the folder `dir`, by a child that has done `confine` before: its exit code.
template <typename Confine>
int RecordConfined(const std::string& dir, Confine confine) {
  const pid_t child = fork();
  if (child == 0) {
    if (!confine()) _exit(99);
    std::string output;
    _exit(Shell("cd " + dir + " && $S record --source $SRC --duration 1 --gpu auto -o a.csv >out 2>&1",
                &output));
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void CheckRecorded(const std::string& dir) {
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  std::set<std::string> tgids;
  for (const auto& row : csv.rows) tgids.insert(row.at("tgid"));
  EXPECT_GT(tgids.size(), 3u);
}

TEST(Unit, ItRecordsWithItsCapabilities) {
  const std::string dir = MakeDir("confined");
  ASSERT_EQ(RecordConfined(dir, KeepCapabilities), 0) << Text(dir + "/out");
  CheckRecorded(dir);
}

// Its filter of system calls, its view of the file systems, and its capabilities, all at once.
TEST(Unit, ItRecordsInItsSandbox) {
  const Unit unit = ReadUnit();
  if (unit.empty() || access(kSyscallNumbers, R_OK) || access("/usr/bin/systemd-analyze", X_OK))
    GTEST_SKIP() << "there is no unit here, or no systemd-analyze to ask what is in it";
  const std::set<uint32_t> refused = RefusedCalls(unit.at("SystemCallFilter"));
  EXPECT_TRUE(refused.contains(SYS_mount)) << "or nothing would be refused here";
  EXPECT_TRUE(refused.contains(SYS_init_module));
  for (const char* yes : {"NoNewPrivileges", "ProtectKernelTunables", "RestrictNamespaces",
                          "MemoryDenyWriteExecute", "RestrictSUIDSGID", "PrivateTmp", "ProtectHome"})
    EXPECT_EQ(unit.at(yes), "yes") << yes;
  EXPECT_EQ(unit.at("ProtectSystem"), "strict");
  EXPECT_EQ(unit.at("ProtectProc"), "invisible");
  EXPECT_EQ(unit.at("RestrictAddressFamilies"), "AF_UNIX AF_NETLINK AF_INET AF_INET6");
  EXPECT_EQ(unit.at("SystemCallArchitectures"), "native");
  const std::string dir = MakeDir("sandbox");
  const auto confine = [&](const std::set<uint32_t>& calls) {
    constexpr int kSetMdwe = 65;  // since 6.3
    return ProtectAllBut(dir) && KeepCapabilities() &&
           (prctl(kSetMdwe, 1, 0, 0, 0) == 0 || errno == EINVAL) && Refuse(calls);
  };
  ASSERT_EQ(RecordConfined(dir, [&] { return confine(refused); }), 0) << Text(dir + "/out");
  CheckRecorded(dir);
  // One call more, and it says so.
  std::set<uint32_t> too_many = refused;
  too_many.insert(SYS_bpf);
  EXPECT_EQ(RecordConfined(dir, [&] { return confine(too_many); }), static_cast<int>(Exit::kPrivilege))
      << Text(dir + "/out");
}

// It says when it records and that it lives, has a folder under /run, and is started again wherever that
// may help.
TEST(Unit, SystemdKeepsItAlive) {
  const Unit unit = ReadUnit();
  if (unit.empty()) GTEST_SKIP() << "there is no unit here";
  EXPECT_EQ(unit.at("Type"), "notify");
  EXPECT_EQ(unit.at("WatchdogSec"), "60");
  EXPECT_EQ(unit.at("RuntimeDirectory"), "slotscope");
  EXPECT_EQ(unit.at("StateDirectory"), "slotscope");
  EXPECT_EQ(unit.at("Restart"), "always");
  const std::vector<std::string> words = WordsOf(unit.at("RestartPreventExitStatus"));
  const std::set<std::string> ends(words.begin(), words.end());
  for (const Exit code :
       {Exit::kUsage, Exit::kPrivilege, Exit::kKernel, Exit::kModule, Exit::kBadInput, Exit::kTooCostly})
    EXPECT_TRUE(ends.contains(std::to_string(static_cast<int>(code)))) << static_cast<int>(code);
  EXPECT_EQ(ends.size(), 6u) << "of the others it may be another time";
  EXPECT_NE(unit.at("ExecStart").find("--keep="), std::string::npos) << "or the disk fills";
}

// What the machine was short of may be there again in a while.
TEST(Unit, WhatMayBeThereLaterIsToldApart) {
  std::string output;
  EXPECT_EQ(
      Shell("cd " + TempDir() + " && ulimit -n 24 && $S record --source $SRC --duration 1 -o a.csv",
            &output),
      static_cast<int>(Exit::kTryAgain))
      << output;
  EXPECT_NE(output.find("Too many open files"), std::string::npos) << output;
}

}  // namespace
}  // namespace slotscope
