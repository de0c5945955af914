// SPDX-License-Identifier: MIT
// Who processes are: what they execute, and where they are, for short lives too.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/live/cpu_controller.h"
#include "tests/live/harness.h"

namespace slotscope {
namespace {

const std::string kUid = "0f4a2c1e-8d3b-4c55-9a70-1b2c3d4e5f60";
const std::string kContainer(64, 'c');
const std::string kRoot = "slotscope-test-kubepods";

// A pod with a container, in the hierarchy that processes are told by.
class Pod {
 public:
  Pod() {
    for (const bool is_v2 : {false, true}) {
      controller_ = std::make_unique<CpuController>(is_v2);
      if (controller_->is_usable()) break;
    }
    EXPECT_TRUE(controller_->is_usable());
    const std::string kubepods = Make(controller_->root(), kRoot);
    pod_ = Make(kubepods, "pod" + kUid);
  }
  const std::string& folder() const { return pod_; }
  std::string Make(const std::string& parent, const std::string& name) {
    const std::string made = controller_->Make(parent, name.c_str(), 0);
    EXPECT_FALSE(made.empty()) << parent << "/" << name;
    return made;
  }

 private:
  std::unique_ptr<CpuController> controller_;
  std::string pod_;
};

// What runs in it, from a container on that is made while it is recorded. It prints its tgid.
std::string WriteScript(const std::string& dir, const std::string& pod, int nr_lives) {
  const std::string path = dir + "/job.sh";
  std::ofstream(path) << fmt::format(
      "#!/bin/sh\n"
      "for i in $(seq {}); do /bin/true life $i; done\n"
      "mkdir {}/{}\n"
      "echo $$ >{}/{}/cgroup.procs\n"
      "echo job $$\n"
      "sh -c 'echo inner $$; exec /bin/sleep 0.3'\n"
      // On its way out, as a group can go only when it is empty.
      "echo $$ >{}/../../cgroup.procs\n"
      "rmdir {}/{}\n",
      nr_lives, pod, kContainer, pod, kContainer, pod, pod, kContainer);
  return path;
}

struct Told {
  CsvFile table;
  WorkloadResult job;
};

// slotscope record OPTIONS -- sh job.sh, with its table of processes.
Told RecordJob(const std::string& name, const Pod& pod, const std::string& options, int nr_lives) {
  const std::string dir = MakeDir(name);
  const std::string script = WriteScript(dir, pod.folder(), nr_lives);
  std::string output;
  EXPECT_EQ(Shell(fmt::format(
                      "cd {}; $S record --source $SRC -o slots.csv --processes who.csv {} -- sh {} >job",
                      dir, options, script),
                  &output),
            0)
      << output;
  return {ReadCsv(dir + "/who.csv"), ParseWorkload(dir + "/job")};
}

std::vector<const CsvRow*> RowsOf(const CsvFile& table, const std::string& column,
                                  const std::string& value) {
  std::vector<const CsvRow*> rows;
  for (const CsvRow& row : table.rows)
    if (row.at(column) == value) rows.push_back(&row);
  return rows;
}

TEST(Identity, EachLifeHasWhatItExecuted) {
  const int nr_lives = IsEmulated() ? 20 : 200;
  const Pod pod;
  const Told told = RecordJob("lives", pod, "--args", nr_lives);
  const auto lives = RowsOf(told.table, "executable", "/bin/true");
  std::set<std::string> arguments;
  std::map<std::string, int> rows_of;
  for (const CsvRow* life : lives) {
    EXPECT_EQ(life->at("comm"), "true");
    arguments.insert(life->at("arguments"));
    rows_of[life->at("tgid")]++;
  }
  std::set<std::string> expected;
  for (int i = 1; i <= nr_lives; i++) expected.insert(fmt::format("/bin/true life {}", i));
  EXPECT_EQ(arguments, expected);
  for (const auto& [tgid, nr] : rows_of) EXPECT_EQ(nr, 1) << tgid;

  // Who was there before, and threads of the kernel.
  const std::string own = fmt::format("{}", getpid());
  const auto self = RowsOf(told.table, "tgid", own);
  ASSERT_EQ(self.size(), 1u);
  EXPECT_TRUE(self[0]->at("executable").ends_with("live_tests")) << self[0]->at("executable");
  EXPECT_EQ(self[0]->at("ppid"), fmt::format("{}", getppid()));
  for (const CsvRow* kernel : RowsOf(told.table, "kind", "kernel"))
    EXPECT_EQ(kernel->at("executable"), "") << kernel->at("comm");
}

TEST(Identity, WhereAProcessIsIsKnownFromWhenItGoesThere) {
  const Pod pod;
  const Told told = RecordJob("moves", pod, "", 1);
  const std::string container = "/" + kRoot + "/pod" + kUid + "/" + kContainer;
  ASSERT_EQ(told.job.TgidsOf("job").size(), 1u);
  ASSERT_EQ(told.job.TgidsOf("inner").size(), 1u);
  const std::string job = fmt::format("{}", told.job.TgidsOf("job")[0]);
  const std::string inner = fmt::format("{}", told.job.TgidsOf("inner")[0]);

  std::vector<std::string> places;
  for (const CsvRow* row : RowsOf(told.table, "tgid", job)) {
    EXPECT_EQ(row->at("arguments"), "") << "they were not asked for";
    if (places.empty() || places.back() != row->at("cgroup")) places.push_back(row->at("cgroup"));
  }
  ASSERT_GE(places.size(), 3u);
  EXPECT_EQ(std::count(places.begin(), places.end(), container), 1);
  EXPECT_NE(places.back(), container);
  const auto there = RowsOf(told.table, "tgid", inner);
  ASSERT_FALSE(there.empty());
  for (const CsvRow* row : there) {
    EXPECT_EQ(row->at("cgroup"), container);
    EXPECT_EQ(row->at("container_id"), kContainer);
    EXPECT_EQ(row->at("pod_uid"), kUid);
    EXPECT_EQ(row->at("ppid"), job);
  }
  EXPECT_EQ(there.back()->at("executable"), "/bin/sleep");
}

TEST(Identity, APodIsSelectedWhenRecordingAndWhenReading) {
  Pod pod;
  const std::string container = pod.Make(pod.folder(), kContainer);
  const std::string dir = MakeDir("selected");
  std::string output;
  // Beside it, somebody who is in no pod. (The command would be kept by itself.)
  ASSERT_EQ(
      Shell(fmt::format("cd {}; sh -c 'echo $$ >{}/cgroup.procs; while :; do :; done' & pod=$!\n"
                        "sh -c 'while :; do :; done' & other=$!\n"
                        "$S record --source $SRC --duration 1 -o kept.csv --pod {} 2>err || cat err\n"
                        "$S record --source $SRC --duration 1 -o all 2>err || cat err\n"
                        "kill $pod $other; wait\n"
                        "echo $pod $other >pids",
                        dir, container, kUid),
            &output),
      0)
      << output;
  int32_t in_pod = 0, other = 0;
  std::ifstream(dir + "/pids") >> in_pod >> other;
  ASSERT_GT(in_pod, 0);
  const CsvFile kept = ReadCsv(dir + "/kept.csv");
  CheckIdentity(kept);
  EXPECT_FALSE(RowsOf(kept, "tgid", fmt::format("{}", in_pod)).empty());
  EXPECT_TRUE(RowsOf(kept, "tgid", fmt::format("{}", other)).empty());
  EXPECT_FALSE(RowsOf(kept, "kind", "other").empty());

  const auto rows_of = [&](const std::string& selection) {
    std::string rows;
    EXPECT_EQ(Shell(fmt::format("cd {}; $S explain all --rows slots {} 2>&1", dir, selection), &rows), 0)
        << rows;
    return rows;
  };
  const std::string of_pod = rows_of("--pod " + kUid),
                    of_cgroup = rows_of("--cgroup " + kContainer.substr(0, 12));
  EXPECT_EQ(of_pod, of_cgroup);
  EXPECT_EQ(of_pod, rows_of(fmt::format("--pid {}", in_pod)));
  EXPECT_NE(of_pod.find(fmt::format(",{},", in_pod)), std::string::npos);
  const std::string nobody = rows_of("--pod no-such");
  EXPECT_NE(nobody.find("pods there: " + kUid), std::string::npos) << nobody;
}

// By the name that Kubernetes gave it, as `kubectl exec` finds the host: other pids, another host name
// and time zone, a cgroup namespace of its own. What is read there is what is read on the host.
TEST(Identity, APodIsNamedFromInsideAContainer) {
  Pod pod;
  const std::string container = pod.Make(pod.folder(), kContainer);
  const std::string dir = MakeDir("inside");
  std::ofstream(dir + "/questions") << "set -e\n"
                                       "$S explain all --pod ml/train-0\n"
                                       "$S explain all --pod train-0 --group-by pod\n"
                                       "$S explain all --pod train-1 2>&1\n"
                                       "$S explain all --pod ml/train-0 --rows slots\n";
  std::ofstream(dir + "/script") << fmt::format(
      "set -e\n"
      "mkdir -p /var/log && mount -t tmpfs none /var/log && mkdir -p /var/log/pods/ml_train-0_{}\n"
      // Two of the pod share a CPU.
      "taskset 1 sh -c 'echo $$ >{}/cgroup.procs; while :; do :; done' & pod=$!\n"
      "taskset 1 sh -c 'echo $$ >{}/cgroup.procs; while :; do :; done' & two=$!\n"
      "trap 'kill $pod $two; wait' EXIT\n"
      "$S record --source $SRC --duration 1 -o all 2>err || {{ cat err; exit 1; }}\n"
      "sh questions >on-host\n"
      "export CGROUP={} TZ=JST-9\n"
      "COMMAND='sh questions' $T --workload in-container >inside\n"
      "COMMAND='hostname' $T --workload in-container >name\n"
      "echo $pod $two >pids\n",
      kUid, container, container, container);
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && unshare -m sh script 2>&1", &output), 0) << output;

  EXPECT_EQ(Text(dir + "/name"), "exec-x7k2p\n");
  const std::string on_host = Text(dir + "/on-host");
  EXPECT_EQ(Text(dir + "/inside"), on_host);
  EXPECT_NE(on_host.find("ml/train-0"), std::string::npos) << on_host.substr(0, 2000);
  EXPECT_NE(on_host.find("pods there: ml/train-0"), std::string::npos) << on_host.substr(0, 2000);
  std::ifstream pids(dir + "/pids");
  for (std::string pid; pids >> pid;) EXPECT_NE(on_host.find("," + pid + ","), std::string::npos) << pid;
}

}  // namespace
}  // namespace slotscope
