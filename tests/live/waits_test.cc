// SPDX-License-Identifier: MIT
// Why processes waited for a CPU, against the kernel's account and what can be the only answer.
#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "harness.h"

namespace slotscope {
namespace {

struct Waited {
  uint64_t cpu_ns = 0, wait_ns = 0, earlier_ns = 0, others_ns = 0, self_ns = 0, wakeup_ns = 0,
           throttled_ns = 0, steal_ns = 0, unknown_ns = 0;
  std::map<std::string, uint64_t> ran_ns;  // by ran_instead_tgid
};

// Each row's causes add up, or the test fails. `until_ns`, by tgid: slots from then on do not count.
std::map<int32_t, Waited> WaitedBy(const CsvFile& csv,
                                   const std::map<int32_t, uint64_t>& until_ns = {}) {
  std::map<int32_t, Waited> waited;
  for (const auto& row : csv.rows) {
    const auto until =
        row.at("tgid").empty() ? until_ns.end() : until_ns.find(std::stoi(row.at("tgid")));
    if (until != until_ns.end() && Number(row.at("slot_start_ns")) >= until->second) continue;
    const std::string& kind = row.at("kind");
    if (kind != "user" && kind != "unassigned" && kind != "kernel") {
      if (kind != "other") {
        EXPECT_TRUE(row.at("wait_others_ns").empty()) << kind;
      }
      continue;
    }
    Waited& of = waited[std::stoi(row.at("tgid"))];
    const auto add = [&](const char* name, uint64_t* to) {
      EXPECT_TRUE(!row.at(name).empty() || to == &of.throttled_ns || to == &of.steal_ns) << name;
      *to += Number(row.at(name));
      return Number(row.at(name));
    };
    add("cpu_ns", &of.cpu_ns);
    const uint64_t wait_ns = add("wait_ns", &of.wait_ns);
    EXPECT_EQ(wait_ns,
              add("wait_others_ns", &of.others_ns) + add("wait_self_ns", &of.self_ns) +
                  add("wait_wakeup_ns", &of.wakeup_ns) + add("wait_unknown_ns", &of.unknown_ns) +
                  add("wait_throttled_ns", &of.throttled_ns) + add("wait_steal_ns", &of.steal_ns))
        << row.at("tgid") << " in " << row.at("slot_start_ns");
    add("wait_earlier_ns", &of.earlier_ns);
    EXPECT_EQ(row.at("ran_instead_tgid").empty(), Number(row.at("wait_others_ns")) == 0);
    EXPECT_LE(Number(row.at("ran_instead_ns")), Number(row.at("wait_others_ns")));
    EXPECT_NE(row.at("ran_instead_tgid"), row.at("tgid"));
    if (!row.at("ran_instead_tgid").empty())
      of.ran_ns[row.at("ran_instead_tgid")] += Number(row.at("ran_instead_ns"));
  }
  return waited;
}

// How much less a share may be than it should be, where a guest's clocks drift and its host is busy.
double Slack() { return IsEmulated() ? 0.2 : 0.01; }

// The longest time in which a process had no CPU between two of its runs: no wait of it was longer, if
// it always wants one.
uint64_t LongestWithoutCpuNs(const CsvFile& csv, int32_t tgid) {
  uint64_t last_ns = 0, longest_ns = 0;
  for (const auto& row : csv.rows) {
    if (row.at("tgid") != std::to_string(tgid) || Number(row.at("cpu_ns")) == 0) continue;
    const uint64_t start_ns = Number(row.at("slot_start_ns"));
    if (last_ns) longest_ns = std::max(longest_ns, start_ns - last_ns);
    last_ns = start_ns;
  }
  return longest_ns;
}

TEST(Waits, NeighboursOnOneCpuWaitForEachOther) {
  const Recorded recorded = RecordWorkload({"shares", "1200"});
  CheckIdentity(recorded.csv);
  auto waited = WaitedBy(recorded.csv);
  const auto tgids = recorded.truth.TgidsOf("proc");
  ASSERT_EQ(tgids.size(), 3u);
  for (const int32_t tgid : tgids) {
    const Waited& of = waited[tgid];
    const auto wait_ns = static_cast<double>(of.wait_ns);
    EXPECT_GT(wait_ns, 1e8);
    EXPECT_EQ(of.self_ns, 0u) << "it has one thread";
    // Of a wait that a hidden switch ended nothing is known, however long it was.
    const auto& comments = recorded.csv.comments;
    const uint64_t nr_hidden =
        comments.contains("hidden_waits") ? Number(comments.at("hidden_waits")) : 0;
    const uint64_t hidden_ns = nr_hidden * (LongestWithoutCpuNs(recorded.csv, tgid) + 1'000'000);
    EXPECT_LE(static_cast<double>(of.unknown_ns),
              Slack() * wait_ns + static_cast<double>(Number(comments.at("lost_ns")) + hidden_ns))
        << "of " << wait_ns << " ns; hidden waits: " << nr_hidden
        << ", lost ns: " << comments.at("lost_ns");
    uint64_t of_the_others_ns = 0;
    for (const int32_t other : tgids)
      if (other != tgid) of_the_others_ns += waited[tgid].ran_ns[std::to_string(other)];
    // On a busy machine others take their part as well: who they are stands there, too.
    uint64_t named_ns = 0;
    for (const auto& [who, ns] : of.ran_ns) named_ns += ns;
    EXPECT_GT(of_the_others_ns * 3, named_ns) << tgid;
    EXPECT_GT(named_ns * 4, of.others_ns) << "of each slot it is the one that ran longest";
  }
}

TEST(Waits, ThreadsOfOneProcessWaitForEachOther) {
  const Recorded recorded = RecordWorkload({"wait-threads", "800"});
  CheckIdentity(recorded.csv);
  auto waited = WaitedBy(recorded.csv);
  const Waited& of = waited[recorded.truth.TgidsOf("threads").at(0)];
  // While one of the three runs the two others wait for it, whoever else there is.
  const auto expected_ns = 2 * static_cast<double>(of.cpu_ns);
  EXPECT_GT(expected_ns, 1e8);
  // (While the CPU switches very often, it is known only for how long who ran in a millisecond.)
  EXPECT_LE(static_cast<double>(of.self_ns),
            (IsEmulated() ? 1.2 : 1.05) * expected_ns + 2 * static_cast<double>(recorded.stolen_ns));
  EXPECT_GE(static_cast<double>(of.self_ns),
            0.75 * expected_ns - 2 * static_cast<double>(recorded.stolen_ns));
}

// With threads that are moved while they wait, and among several queues.
TEST(Waits, NothingThatWasWaitedIsLost) {
  const Recorded recorded = RecordWorkload({"wait-mix", "1200"});
  CheckIdentity(recorded.csv);
  if (IsEmulated() && recorded.csv.comments.at("lost_records") != "0")
    GTEST_SKIP() << "records were lost";
  std::map<int32_t, uint64_t> looked_ns;  // how it ends is not in the account
  for (const auto& line : recorded.truth.lines)
    if (line.key == "waited") looked_ns[line.tgid] = line.values.at(1);
  auto waited = WaitedBy(recorded.csv, looked_ns);
  size_t nr = 0;
  for (const auto& line : recorded.truth.lines) {
    if (line.key != "waited") continue;
    nr++;
    const auto truth_ns = static_cast<double>(line.values.at(0));
    const Waited& of = waited[line.tgid];
    const auto seen_ns = static_cast<double>(of.wait_ns + of.earlier_ns);
    EXPECT_NEAR(seen_ns, truth_ns,
                (IsEmulated() ? 0.2 : 0.01) * truth_ns + 2e6 + static_cast<double>(recorded.stolen_ns))
        << line.tgid;
  }
  EXPECT_EQ(nr, 4u);
}

// What a process whose quota is used up waits, against what the kernel says of its group.
class Quota : public testing::TestWithParam<int> {
 protected:
  struct Truth {
    double waited_ns = 0, throttled_ns = 0;
  };

  // Of one thread in each queue. A switch that the kernel hides from eBPF makes a wait unknown.
  bool Agrees(const Waited& of) const {
    const Truth& truth = truth_;
    const auto& hidden = recorded_.csv.comments.find("hidden_waits");
    const bool any_hidden = hidden != recorded_.csv.comments.end() && hidden->second != "0";
    const double slack = (IsEmulated() ? 0.1 : 0.01) * truth.waited_ns + 2e6 +
                         static_cast<double>(recorded_.stolen_ns) +
                         (any_hidden ? static_cast<double>(of.unknown_ns) : 0);
    const double queued_ns = static_cast<double>(of.others_ns + of.self_ns + of.wakeup_ns + of.steal_ns);
    return std::abs(static_cast<double>(of.throttled_ns) - truth.throttled_ns) <= slack &&
           std::abs(queued_ns - (truth.waited_ns - truth.throttled_ns)) <= slack &&
           static_cast<double>(of.unknown_ns) <= slack;
  }

  void Record(int which) {
    which += 10 * GetParam();
    // A slot waits for longer than anybody can.
    recorded_ = RecordWorkload({"quota", std::to_string(which)}, {"--window", "400"});
    is_usable_ = recorded_.truth.TgidsOf("unusable").empty();
    if (!is_usable_) return;
    CheckIdentity(recorded_.csv);
    std::map<int32_t, uint64_t> looked_ns;
    for (const auto& line : recorded_.truth.lines) {
      if (line.key == "waited") {
        truth_.waited_ns = static_cast<double>(line.values.at(0));
        looked_ns[line.tgid] = line.values.at(1);
        tgid_ = line.tgid;
      }
      if (line.key == "throttled") truth_.throttled_ns = static_cast<double>(line.values.at(0));
    }
    all_ = WaitedBy(recorded_.csv, looked_ns);
    ASSERT_GT(tgid_, 0);
    ASSERT_EQ(recorded_.csv.comments.at("not_measured").find("wait_throttled_ns"), std::string::npos)
        << "this kernel shows no quotas";
    EXPECT_GT(truth_.throttled_ns, 5e8);
    EXPECT_EQ(all_[tgid_].earlier_ns, 0u);
  }

  // What must not agree: the quota's waits laid on whoever ran meanwhile.
  Waited Mutant() {
    Waited mutant = all_[tgid_];
    mutant.others_ns += mutant.throttled_ns;
    mutant.throttled_ns = 0;
    return mutant;
  }

  void ExpectThatItAgrees() {
    const Waited& of = all_[tgid_];
    EXPECT_TRUE(Agrees(of)) << fmt::format(
        "throttled {} of {}, waited {} of {:.0f}, others {} self {} wakeup {} unknown {}",
        of.throttled_ns, truth_.throttled_ns, of.wait_ns, truth_.waited_ns, of.others_ns, of.self_ns,
        of.wakeup_ns, of.unknown_ns);
    EXPECT_FALSE(Agrees(Mutant()));
  }

  Recorded recorded_;
  bool is_usable_ = false;
  std::map<int32_t, Waited> all_;
  Truth truth_;
  int32_t tgid_ = 0;
};

TEST_P(Quota, OfOneThreadIsWhatTheKernelSays) {
  Record(kQuotaAlone);
  if (!is_usable_) GTEST_SKIP() << "the cpu controller is of the other version";
  ExpectThatItAgrees();
}

TEST_P(Quota, IsNoNeighboursFault) {
  Record(kQuotaBeside);
  if (!is_usable_) GTEST_SKIP() << "the cpu controller is of the other version";
  ExpectThatItAgrees();
}

TEST_P(Quota, OfAGroupAboveIsItsOwn) {
  Record(kQuotaNested);
  if (!is_usable_) GTEST_SKIP() << "the cpu controller is of the other version";
  ExpectThatItAgrees();
}

// Three threads on all CPUs, before whom hardly anybody runs: they wait for each other, and for their
// quota.
TEST_P(Quota, OfSeveralThreadsIsNeverLaidOnANeighbour) {
  Record(kQuotaThreads);
  if (!is_usable_) GTEST_SKIP() << "the cpu controller is of the other version";
  const Waited& of = all_[tgid_];
  const auto wait_ns = static_cast<double>(of.wait_ns);
  const double slack = 0.1 * wait_ns + static_cast<double>(recorded_.stolen_ns);
  EXPECT_LT(static_cast<double>(of.unknown_ns), 0.35 * wait_ns);
  EXPECT_LT(static_cast<double>(of.others_ns), slack);
  EXPECT_GT(static_cast<double>(of.throttled_ns), 0.5 * wait_ns);
  EXPECT_GE(static_cast<double>(Mutant().others_ns), slack);
}

INSTANTIATE_TEST_SUITE_P(Cgroup, Quota, testing::Values(0, 1), [](const auto& version) {
  return version.param ? std::string("V2") : std::string("V1");
});

// A process that wants a CPU all the time, and ends with this. On that CPU whoever is `meek` has next to
// nothing beside one that is not.
class Spinner {
 public:
  Spinner(int cpu, bool is_meek) : tgid_(fork()) {
    if (tgid_ != 0) return;
    const sched_param none = {};
    const int err =
        is_meek ? sched_setscheduler(0, SCHED_IDLE, &none) : setpriority(PRIO_PROCESS, 0, -20);
    if (err || !Pin(0, cpu)) _exit(1);
    for (;;) {
    }
  }
  ~Spinner() {
    kill(tgid_, SIGKILL);
    waitpid(tgid_, nullptr, 0);
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  int32_t tgid() const { return tgid_; }
  bool GoTo(int cpu) const { return Pin(tgid_, cpu); }
  struct Schedstat {
    uint64_t cpu_ns = 0, wait_ns = 0;
  };
  Schedstat Now() const {
    Schedstat now;
    std::ifstream(fmt::format("/proc/{}/schedstat", tgid_)) >> now.cpu_ns >> now.wait_ns;
    return now;
  }

 private:
  static bool Pin(pid_t tgid, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(tgid, sizeof(set), &set) == 0;
  }
  pid_t tgid_;
};

// A thread that waited when the recording began, and goes to another CPU's queue before it has run:
// nobody has seen it yet, and what it has waited until then is told.
TEST(Waits, OfWhoIsMovedBeforeItEverRan) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "there is one CPU";
  const auto pass = [](uint64_t ns) {
    for (const uint64_t end_ns = MonotonicNs() + ns; MonotonicNs() < end_ns;) usleep(1000);
  };
  uint64_t waited_ns = 0, told_ns = 0, wait_ns = 0;
  for (int tries = 0; tries < 10 && waited_ns == 0; tries++) {
    const Spinner hog(1, false), meek(1, true);
    // Until it waits: it has run, and does not any more.
    Spinner::Schedstat before = meek.Now();
    for (int i = 0; i < 1000; i++) {
      pass(20'000'000);
      const Spinner::Schedstat now = meek.Now();
      if (now.cpu_ns > 0 && now.cpu_ns == before.cpu_ns) break;
      before = now;
    }
    Recorder recorder;
    ASSERT_NO_FATAL_FAILURE(recorder.Start());
    const uint64_t started_ns = MonotonicNs();
    pass(50'000'000);
    const bool has_run = meek.Now().cpu_ns != before.cpu_ns;
    const uint64_t moved_ns = MonotonicNs();
    ASSERT_TRUE(meek.GoTo(0));
    pass(20'000'000);
    wait_ns = meek.Now().wait_ns - before.wait_ns;
    recorder.Stop();
    ASSERT_EQ(recorder.nr_lost(), 0u);
    if (has_run) continue;
    waited_ns = moved_ns - started_ns;
    for (const ss_any_message& message : recorder.messages())
      if (message.hdr.type == SS_WAIT && message.wait.tgid == meek.tgid() &&
          (message.wait.flags & SS_WAIT_MOVED))
        told_ns += message.wait.wait_ns;
  }
  ASSERT_GT(waited_ns, 0u) << "it always had the CPU in between";
  EXPECT_GE(told_ns, waited_ns);
  EXPECT_LE(told_ns, wait_ns);
}

// What the kernel side remembers of threads is of one recording: a process that waits on between two of
// them, and sleeps until the second one has begun, has not waited for seconds in that.
TEST(Waits, OfTheTimeBetweenTwoRecordingsNothingIsTold) {
  std::string output;
  ASSERT_EQ(Shell("cd " + TempDir() + R"sh(
trap 'kill -KILL -$load' EXIT
setsid $T --workload shares 120000 > t & load=$!
$S record --source $SRC --duration 1 -o a.csv || exit 1
sleep 2; pid=$(awk '/^proc/ { print $2; exit }' t); kill -STOP $pid
$S record --source $SRC --duration 2 -o b.csv 2> err & recorder=$!
)sh" + UntilRecording("err") +
                      R"sh(
sleep 1; kill -CONT $pid; wait $recorder; code=$?; echo stopped $pid; exit $code
)sh",
                  &output),
            0)
      << output;
  const size_t at = output.find("stopped ");
  ASSERT_NE(at, output.npos) << output;
  const std::string pid = std::to_string(std::stoi(output.substr(at + 8)));
  const CsvFile csv = ReadCsv(TempDir() + "/b.csv");
  uint64_t earlier_ns = 0, nr_rows = 0;
  for (const auto& row : csv.rows) {
    if (row.at("tgid") != pid) continue;
    nr_rows++;
    earlier_ns += Number(row.at("wait_earlier_ns"));
  }
  EXPECT_GT(nr_rows, 0u) << "it runs again";
  EXPECT_LT(earlier_ns, 500'000'000u) << "it was stopped, and before that nobody listened";
}

TEST(Waits, WithoutThemWaitingIsWhereItEnded) {
  const Recorded recorded = RecordWorkload({"shares", "300"}, {"--no-waits"});
  CheckIdentity(recorded.csv);
  uint64_t longest_ns = 0;
  for (const auto& row : recorded.csv.rows) {
    EXPECT_EQ(row.at("wait_others_ns"), "");
    EXPECT_EQ(row.at("wait_earlier_ns"), "");
    longest_ns = std::max(longest_ns, Number(row.at("wait_ns")));
  }
  EXPECT_GT(longest_ns, 1'000'000u) << "a wait of several slots";
  EXPECT_NE(recorded.csv.comments.at("not_measured").find("wait_others_ns"), std::string::npos);
}

}  // namespace
}  // namespace slotscope
