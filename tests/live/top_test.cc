// SPDX-License-Identifier: MIT
// slotscope top: against the recording that it reads, and in a terminal.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "harness.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

struct Sums {
  uint64_t cpu_ns = 0, wait_ns = 0;
  uint64_t earlier_ns = 0;  // told late, of any time
  bool operator==(const Sums&) const = default;
};
using SumsByPid = std::map<int64_t, Sums>;

// What the slots of that time add up to, each taken to be later than it was.
SumsByPid SumsOf(const CsvFile& csv, int64_t from_ns, int64_t to_ns, int64_t later_ns) {
  SumsByPid sums;
  for (const CsvRow& row : csv.rows) {
    const auto start_ns = static_cast<int64_t>(Number(row.at("slot_start_unix_ns"))) + later_ns;
    if (row.at("tgid").empty() || row.at("tgid") == "0") continue;
    Sums& its = sums[static_cast<int64_t>(Number(row.at("tgid")))];
    its.earlier_ns += row.at("wait_earlier_ns").empty() ? 0 : Number(row.at("wait_earlier_ns"));
    if (start_ns < from_ns || start_ns >= to_ns) continue;
    its.cpu_ns += Number(row.at("cpu_ns"));
    its.wait_ns += Number(row.at("wait_ns"));
  }
  return sums;
}

TEST(TopLive, OnceShowsWhatTheRecordingHas) {
  const std::string dir = MakeDir("top-once");
  std::string output;
  ASSERT_EQ(
      Shell(
          "cd " + dir +
              " && $S record --source $SRC --all -o r.rec -- sh -c '$T --workload wait-mix 2500 >truth'",
          &output),
      0)
      << output;
  ASSERT_EQ(Shell("cd " + dir + " && $S top r.rec --json -n 100000 >once.json", &output), 0) << output;
  const auto json = nlohmann::json::parse(Text(dir + "/once.json"));
  const int64_t from_ns = json["from_unix_ns"], to_ns = json["to_unix_ns"];
  EXPECT_EQ(to_ns - from_ns, 1'000'000'000);
  const CsvFile csv = ReadCsv(dir + "/r.rec");
  const SumsByPid truth = SumsOf(csv, from_ns, to_ns, 0);
  const SumsByPid late = SumsOf(csv, from_ns, to_ns, 1'000'000);
  size_t nr_checked = 0, nr_right = 0, nr_late = 0, nr_doubled = 0;
  for (const auto& row : json["rows"]) {
    if (!row.contains("pid") || !row.contains("wait_ns")) continue;
    const int64_t pid = row["pid"];
    const Sums shown = {row["cpu_ns"], row["wait_ns"], 0};
    if (!truth.contains(pid)) continue;
    const std::string state = row.value("state", "");
    // What is told late of a wait may have passed in this second; who waits still has no row of that.
    const auto fits = [&](const Sums& its, uint64_t times) {
      const uint64_t more_ns =
          its.earlier_ns + (state == "waiting" || state == "throttled" ? 1'000'000'000 : 0);
      return shown.cpu_ns * times == its.cpu_ns && shown.wait_ns * times >= its.wait_ns &&
             shown.wait_ns * times <= its.wait_ns + more_ns;
    };
    nr_checked++;
    nr_right += fits(truth.at(pid), 1);
    nr_late += late.contains(pid) && fits(late.at(pid), 1);
    nr_doubled += fits(truth.at(pid), 2);
  }
  EXPECT_GT(nr_checked, 3u);
  EXPECT_EQ(nr_right, nr_checked);
  // A second that is one slot late would be seen, and one of doubled values.
  EXPECT_LT(nr_late, nr_checked);
  EXPECT_LT(nr_doubled, nr_checked);
  ASSERT_EQ(Shell("cd " + dir + " && $S top r.rec --once -n 3", &output), 0) << output;
  EXPECT_NE(output.find("RAN INSTEAD"), std::string::npos);
}

// A terminal of that size with slotscope top in it.
class Terminal {
 public:
  Terminal(const std::string& dir, const std::string& arguments, uint16_t rows, uint16_t columns) {
    const std::string binary = std::filesystem::absolute(SlotscopeBinary());
    const winsize size = {rows, columns, 0, 0};
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      setenv("TERM", "xterm", 1);
      setenv("TMPDIR", dir.c_str(), 1);
      const std::string script = "cd " + dir + " && exec " + binary + " top " + arguments;
      execl("/bin/sh", "sh", "-c", script.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    tcgetattr(fd_, &before_);
  }
  ~Terminal() {
    if (fd_ >= 0) close(fd_);
    if (pid_ > 0) kill(pid_, SIGKILL);
  }

  // Until it has shown that, since the last call.
  bool Shows(const std::string& wanted) {
    std::string shown;
    const uint64_t until_ns = MonotonicNs() + 40'000'000'000;
    while (shown.find(wanted) == shown.npos && MonotonicNs() < until_ns) {
      pollfd waiting = {fd_, POLLIN, 0};
      if (poll(&waiting, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t got = read(fd_, bytes, sizeof(bytes));
      if (got <= 0) break;
      shown.append(bytes, static_cast<size_t>(got));
    }
    last_ = shown;
    return shown.find(wanted) != shown.npos;
  }
  void Type(const std::string& keys) const {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void Resize(uint16_t rows, uint16_t columns) const {
    const winsize size = {rows, columns, 0, 0};
    ASSERT_EQ(ioctl(fd_, TIOCSWINSZ, &size), 0);
  }
  void HangUp() {
    close(fd_);
    fd_ = -1;
  }
  int ExitCode() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool IsAsBefore() const {
    termios now;
    tcgetattr(fd_, &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag;
  }
  const std::string& last() const { return last_; }

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  termios before_ = {};
  std::string last_;
};

bool IsEmpty(const std::string& dir) { return fs::directory_iterator(dir) == fs::directory_iterator(); }

TEST(TopLive, RecordsShowsAndEndsWithoutATrace) {
  const std::string dir = MakeDir("top-terminal");
  Terminal terminal(dir, "", 24, 80);
  ASSERT_TRUE(terminal.Shows("RAN INSTEAD")) << terminal.last();
  EXPECT_FALSE(IsEmpty(dir));  // what it records
  terminal.Type("?");
  ASSERT_TRUE(terminal.Shows("memory traffic")) << terminal.last();
  terminal.Type("q");
  ASSERT_TRUE(terminal.Shows("Enter its 10 s")) << terminal.last();
  terminal.Type("\r");
  ASSERT_TRUE(terminal.Shows("by the millisecond")) << terminal.last();
  terminal.Resize(8, 50);
  ASSERT_TRUE(terminal.Shows("top needs 64x18, and has 50x8")) << terminal.last();
  terminal.Resize(30, 120);
  ASSERT_TRUE(terminal.Shows("a step is 10 ms")) << terminal.last();
  terminal.Type("q");
  ASSERT_TRUE(terminal.Shows("find")) << terminal.last();
  terminal.Type("q");
  EXPECT_TRUE(terminal.Shows("\x1b[?1049l")) << terminal.last();  // what was there before is back
  EXPECT_EQ(terminal.ExitCode(), 0);
  EXPECT_TRUE(terminal.IsAsBefore());
  EXPECT_TRUE(IsEmpty(dir));
}

TEST(TopLive, EndsWithItsTerminal) {
  const std::string dir = MakeDir("top-gone");
  Terminal terminal(dir, "", 24, 80);
  ASSERT_TRUE(terminal.Shows("RAN INSTEAD")) << terminal.last();
  terminal.HangUp();
  EXPECT_EQ(terminal.ExitCode(), 0);
  EXPECT_TRUE(IsEmpty(dir));
}

// However it ends nothing is left, at the latest when the next one begins.
TEST(TopLive, LeavesNothingBehind) {
  const std::string dir = MakeDir("top-leaves");
  std::string output;
  const std::string once = "cd " + dir +
                           " && { TMPDIR=$PWD $S top --once >/dev/null 2>&1 & p=$!; "
                           "until ls -d slotscope-top.* >/dev/null 2>&1; do sleep 0.05; done; ";
  EXPECT_EQ(Shell(once + "kill -TERM $p; wait $p; }", &output), 130) << output;
  EXPECT_TRUE(IsEmpty(dir));
  EXPECT_EQ(Shell(once + "kill -9 $p; wait $p; }", &output), 137) << output;
  EXPECT_FALSE(IsEmpty(dir));
  // Its recorder ends with it; then the folder is nobody's.
  EXPECT_EQ(Shell("cd " + dir +
                      " && for i in $(seq 200); do TMPDIR=$PWD $S top --once >out 2>&1; rm out; "
                      "ls -d slotscope-top.* >/dev/null 2>&1 || exit 0; done; exit 1",
                  &output),
            0);
  // One that has ended is told of as such.
  ASSERT_EQ(Shell("cd " + dir +
                      " && $S record --source $SRC --duration 1.2 >/dev/null 2>&1 && $S top --once "
                      "slotscope.rec",
                  &output),
            0);
  EXPECT_NE(output.find("is not being written"), std::string::npos) << output;
}

TEST(TopLive, FollowsARecordingThatIsBeingWritten) {
  const std::string dir = MakeDir("top-follows");
  std::string output;
  ASSERT_EQ(
      Shell("cd " + dir +
                " && mkdir t && { $S record --source $SRC --duration 60 >out 2>err & echo $! >pid; } && "
                "until grep -qs recording err || ! kill -0 $(cat pid); do sleep 0.01; done; "
                "TMPDIR=$PWD/t $S top --json >early; "
                "for i in $(seq 200); do $S top --json slotscope.rec >first 2>/dev/null && grep -q "
                "'\"pid\"' first && break; "
                "sleep 0.1; done; TMPDIR=$PWD/t $S top --json >second; kill -INT $(cat pid)",
            &output),
      0)
      << output;
  const auto first = nlohmann::json::parse(Text(dir + "/first")),
             second = nlohmann::json::parse(Text(dir + "/second"));
  // It is found, also before it has a row, and none is made beside it.
  EXPECT_EQ(second["recording"], "slotscope.rec");
  EXPECT_EQ(nlohmann::json::parse(Text(dir + "/early"))["recording"], "slotscope.rec");
  EXPECT_GE(second["to_unix_ns"], first["to_unix_ns"]);
  EXPECT_TRUE(IsEmpty(dir + "/t"));
}

TEST(TopLive, SaysWhatIsWrong) {
  const std::string dir = MakeDir("top-wrong");
  std::string output;
  EXPECT_EQ(Shell("cd " + dir + " && $S top </dev/null 2>&1", &output), 2);
  EXPECT_NE(output.find("--once"), std::string::npos) << output;
  EXPECT_EQ(Shell("cd " + dir + " && echo x >x.csv && $S top --once x.csv 2>&1", &output), 9) << output;
  EXPECT_EQ(Shell("cd " + dir + " && $S top --sort weight 2>&1", &output), 2) << output;
  EXPECT_EQ(Shell("cd " + dir + " && $S top --group-by size 2>&1", &output), 2) << output;
  EXPECT_NE(output.find("process"), std::string::npos) << output;
}

}  // namespace
}  // namespace slotscope
