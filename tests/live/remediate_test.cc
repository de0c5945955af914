// SPDX-License-Identifier: MIT
// What a consumer of the remediation socket hears of processes whose lives are known. Without a GPU:
// with the libraries of tests/cuda. The consumer is that of doc/straggling.md.
#include <gtest/gtest.h>
#include <unistd.h>

#include <slotscope/cuda_probe.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/watchdog.h"
#include "harness.h"
#include "remediate/messages.h"
#include "remediate/server.h"

namespace slotscope {
namespace {

using Json = nlohmann::json;

// A consumer that connects as soon as it can, and keeps what it hears.
constexpr const char* kKeeper = R"(
import socket, sys, time
sock = socket.socket(socket.AF_UNIX)
while sock.connect_ex(sys.argv[1]):
    time.sleep(0.01)
print("connected", file=open(sys.argv[2], "w"), flush=True)
with open(sys.argv[3], "wb") as file:
    for line in sock.makefile("rb"):
        file.write(line)
)";

bool HasPython() {
  std::string output;
  return Shell("command -v python3", &output) == 0;
}

struct Heard {
  CsvFile csv;
  WorkloadResult truth;
  std::vector<Json> messages;
  std::vector<Json> reports;  // of --straggle
  std::string output;
  std::vector<Json> OfType(const std::string& type) const {
    std::vector<Json> found;
    for (const Json& message : messages)
      if (message.at("type") == type) found.push_back(message);
    return found;
  }
};

std::vector<Json> ReadLines(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

void Hear(const std::string& name, const std::string& which, Heard* heard) {
  const std::string dir = MakeDir("remediate-" + name);
  std::ofstream(dir + "/keeper.py") << kKeeper;
  // The command begins when the recorder has let the consumer in, and gives it time to find out which
  // GPUs are whose: that is read from a process that lives.
  const std::string script =
      "cd " + dir +
      " && (timeout 60 python3 keeper.py sock connected lines & SLOTSCOPE_TEST_WAIT_MS=300 "
      "LD_LIBRARY_PATH=" +
      StandinFolder() +
      " $S record --source $SRC --remediate=sock --raw r.raw --straggle s.ndjson -o a.csv -- sh -c "
      "'until grep -qs "
      "consumer.connected log; do sleep 0.02; done; $T --workload cuda " +
      which +
      " >truth' >log 2>&1; code=$?; cat log; [ $code = 0 ] || kill %1; wait; exit $code) && $S replay "
      "r.raw --straggle "
      "t.ndjson -o b.csv >/dev/null && cmp a.csv b.csv && cmp s.ndjson t.ndjson && ! [ -e sock ]";
  ASSERT_EQ(Shell(script, &heard->output), 0) << heard->output;
  if (heard->output.find("sent 0;") != std::string::npos) {  // as below
    std::printf("nothing was heard, once more; this is what was said:\n%s\n", heard->output.c_str());
    ASSERT_EQ(Shell("rm -f " + dir + "/log " + dir + "/connected; " + script, &heard->output), 0)
        << heard->output;
  }
  heard->csv = ReadCsv(dir + "/a.csv");
  heard->truth = ParseWorkload(dir + "/truth");
  heard->messages = ReadLines(dir + "/lines");
  heard->reports = ReadLines(dir + "/s.ndjson");
  CheckIdentity(heard->csv);
  EXPECT_EQ(heard->csv.comments.at("lost_cuda_calls"), "0");
}

TEST(Remediate, EveryAllocationAndFreeIsTold) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  Heard heard;
  ASSERT_NO_FATAL_FAILURE(Hear("memory", "0", &heard));
  const int32_t tgid = heard.truth.TgidsOf("proc").at(0);
  const auto unix_offset_ns = std::stoll(heard.csv.comments.at("unix_offset_ns"));
  std::vector<std::pair<int64_t, uint64_t>> told;  // when, and all that it holds
  std::map<uint32_t, uint64_t> held;
  for (const Json& message : heard.OfType("memory")) {
    ASSERT_EQ(message.at("pid"), tgid);
    EXPECT_EQ(message.at("comm"), "live_tests");
    EXPECT_EQ(message.at("total_vram"), 1u << 30);
    const auto bytes = message.at("allocated_bytes").get<uint64_t>();
    EXPECT_NEAR(message.at("utilization_pct").get<double>(),
                static_cast<double>(bytes) / (1 << 30) * 100, 1e-9);
    held[message.at("gpu_id")] = bytes;
    uint64_t sum = 0;
    for (const auto& [gpu, on_gpu] : held) sum += on_gpu;
    told.emplace_back(message.at("timestamp_ns").get<int64_t>() - unix_offset_ns, sum);
  }
  ASSERT_EQ(held.size(), 2u) << "both GPUs\n" << heard.output;
  // At each point at which the process knows what it holds, that is what was told last; the last free
  // comes with its end.
  size_t nr_changes = 0;
  uint64_t before = 0;
  for (const auto& line : heard.truth.lines) {
    if (line.key != "mem") continue;
    uint64_t last = 0;
    for (const auto& [ns, bytes] : told)
      if (ns <= static_cast<int64_t>(line.values.at(0))) last = bytes;
    EXPECT_EQ(last, line.values.at(1)) << "at " << line.values.at(0);
    nr_changes += line.values.at(1) != before;
    before = line.values.at(1);
  }
  EXPECT_GT(nr_changes, 15u);
  EXPECT_EQ(told.back().second, 0u);
  EXPECT_NE(heard.output.find("sent " + std::to_string(told.size()) +
                              "; dropped: no_client 0, write_error 0, queue_full 0"),
            std::string::npos)
      << heard.output;
}

TEST(Remediate, AProcessBesideARivalStraggles) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  Heard heard;
  ASSERT_NO_FATAL_FAILURE(Hear("rival", "4", &heard));
  const int32_t tgid = heard.truth.TgidsOf("proc").at(0), rival = heard.truth.TgidsOf("rival").at(0);
  const auto& times = heard.truth.lines.at(1).values;  // from when to when it was there
  size_t nr_within = 0;
  for (const Json& report : heard.reports) {
    if (report.at("state") == "header" || report.at("tgid") != tgid) continue;
    if (report.at("since_ns") < times.at(0) || report.at("until_ns") > times.at(1)) continue;
    nr_within++;
    ASSERT_FALSE(report.at("ran_instead").empty());
    const Json& first = report.at("ran_instead").at(0);
    EXPECT_EQ(first.at("tgid"), rival);
    EXPECT_EQ(first.at("comm"), "live_tests");
    // Of what the rival ran in that second. On a busy machine a third one comes between the two.
    uint64_t rival_ns = 0;
    for (const auto& row : heard.csv.rows)
      if (const uint64_t start_ns = std::stoull(row.at("slot_start_ns"));
          row.at("tgid") == std::to_string(rival) && start_ns >= report.at("since_ns") &&
          start_ns < report.at("until_ns"))
        rival_ns += std::stoull(row.at("cpu_ns"));
    const auto taken_ns = first.at("ran_instead_ns").get<uint64_t>();
    EXPECT_LE(taken_ns, rival_ns + rival_ns / 20);
    EXPECT_GT(taken_ns, rival_ns / 20);
    EXPECT_GT(report.at("wait_ns"), taken_ns / 2);
    EXPECT_GT(report.at("throughput_drop_pct"), 20);
  }
  EXPECT_GE(nr_within, 1u) << "of the two seconds";
  // The messages are the same.
  const auto messages = heard.OfType("straggle");
  ASSERT_FALSE(messages.empty());
  bool has_rival = false, blames_rival = false;
  for (size_t i = 0; i < messages.size(); i++) {
    EXPECT_EQ(messages[i].at("pid"), tgid);
    if (messages[i].contains("culprit_pid")) {  // the one that ran longest, as the report has it
      const Json& message = messages[i];
      EXPECT_TRUE(std::any_of(heard.reports.begin(), heard.reports.end(), [&](const Json& report) {
        if (!report.contains("ran_instead") || report.at("ran_instead").empty()) return false;
        const Json& first = report.at("ran_instead").at(0);
        return report.at("tgid") == tgid && first.at("tgid") == message.at("culprit_pid") &&
               first.at("ran_instead_ns") == message.at("culprit_ns") &&
               first.at("comm") == message.at("culprit_comm");
      })) << message;
      blames_rival |= message.at("culprit_pid") == rival && message.at("wait_cause") == "others";
    }
    for (const Json& pid : messages[i].at("preempting_pids")) has_rival |= pid == rival;
    if (i == 0) {
      EXPECT_EQ(messages[0].at("sustained"), false);
    } else if (messages[i].at("event_id") == messages[i - 1].at("event_id")) {
      EXPECT_EQ(messages[i].at("sustained"), true);
    }
  }
  EXPECT_TRUE(has_rival);
  EXPECT_TRUE(blames_rival);
  size_t nr_rows = 0;
  for (const auto& row : heard.csv.rows)
    if (row.at("tgid") == std::to_string(tgid))
      nr_rows += row.at("straggle") == "1" || row.at("straggle") == "2";
  EXPECT_GT(nr_rows, 100u) << "and rows say so";
}

// One that was there before the recorder, and sees one GPU of two: which one it uses follows from what
// it sees, so it is told of, and its rows have it.
// Without NVML nobody knows which one it is; it is one all the same.
void HearOfWhoWasThereBefore(bool with_nvml) {
  const std::string dir = MakeDir(with_nvml ? "remediate-before" : "remediate-no-nvml");
  std::ofstream(dir + "/keeper.py") << kKeeper;
  std::string output;
  std::filesystem::create_directory(dir + "/libraries");
  std::ofstream(dir + "/libraries/libnvidia-ml.so.1");  // none, whatever this machine has
  const std::string script =
      "cd " + dir +
      " && { CUDA_VISIBLE_DEVICES=1 SLOTSCOPE_TEST_WAIT_FOR_FILE=$PWD/go $T --workload cuda 4 "
      ">truth & } && until [ -s truth ]; do sleep 0.02; done && "
      "{ timeout 60 python3 keeper.py sock connected lines & } && LD_LIBRARY_PATH=" +
      (with_nvml ? StandinFolder() : dir + "/libraries") +
      " $S record --source $SRC --gpu on --remediate=sock --straggle s.ndjson -o a.rec -- sh -c "
      "'until grep -qs consumer.connected log; do sleep 0.02; done; sleep 0.5; touch go; "
      "until grep -qs ^sum truth; do sleep 0.1; done' >log 2>&1; code=$?; cat log; exit $code";
  ASSERT_EQ(Shell(script, &output), 0) << output;
  const CsvFile csv = ReadCsv(dir + "/a.rec");
  CheckIdentity(csv);
  const int32_t tgid = ParseWorkload(dir + "/truth").TgidsOf("proc").at(0);
  size_t nr_rows = 0;
  WriteTable(dir + "/a.rec", "gpu", dir + "/gpu.csv");
  for (const CsvRow& row : ReadCsv(dir + "/gpu.csv").rows) {
    if (row.at("tgid") != std::to_string(tgid) || row.at("gpu_launches") == "0") continue;
    nr_rows++;
    EXPECT_EQ(row.at("gpu"), with_nvml ? "1" : "") << "not the first of the machine";
    EXPECT_EQ(row.at("cuda_device"), "0") << "and the first that it sees";
  }
  EXPECT_GT(nr_rows, 1000u);
  size_t nr_told = 0;
  for (const Json& message : ReadLines(dir + "/lines")) {
    if (message.at("pid") != tgid || message.at("type") != "memory") continue;
    nr_told++;
    EXPECT_EQ(message.at("gpu_id"), with_nvml ? 1 : 0) << "its own number, where there is no other";
  }
  EXPECT_GT(nr_told, 0u) << output;
}

TEST(Remediate, WhoWasThereBeforeIsToldOfWithItsGpu) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  HearOfWhoWasThereBefore(true);
}

TEST(Remediate, WhoWasThereBeforeIsToldOfWithoutNvml) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  HearOfWhoWasThereBefore(false);
}

// Two recorders, of which one joins what the other one serves: what both have of a slot is the same.
// Only the first one observes CUDA. Where that takes a second, it still looks at all processes when the
// workload begins.
TEST(Remediate, AnotherRecorderJoinsWhatIsServed) {
  const std::string dir = MakeDir("remediate-join");
  std::string output;
  const std::string crowd = IsEmulated() ? "600" : "1";
  ASSERT_EQ(Shell("cd " + dir + " && { $T --workload sleepers " + crowd +
                      " >ready & crowd=$!; until grep -qs ready ready; do sleep 0.05; done; "
                      "$S record --source $SRC --gpu off --join-remediate sock --window 500 --raw c.raw "
                      "-o c.csv & joiner=$!; SLOTSCOPE_TEST_WAIT_MS=300 LD_LIBRARY_PATH=" +
                      StandinFolder() +
                      " $S record --source $SRC --remediate=sock -o a.csv -- sh -c 'while ! grep "
                      "-qs connected log; do sleep 0.05; done; $T --workload cuda 0 >truth; sleep 0.3' "
                      ">log 2>&1; code=$?; kill $crowd; cat log; sleep 0.6; kill -INT $joiner; wait "
                      "$joiner || exit 1; [ $code = 0 ]; } && $S replay c.raw --window 500 -o d.csv "
                      ">/dev/null && cmp c.csv d.csv",
                  &output),
            0)
      << output;
  const CsvFile served = ReadCsv(dir + "/a.csv"), joined = ReadCsv(dir + "/c.csv");
  CheckIdentity(joined);
  const std::string tgid = std::to_string(ParseWorkload(dir + "/truth").TgidsOf("proc").at(0));
  EXPECT_NE(joined.comments.at("joined").find("what sock says"), std::string::npos);
  EXPECT_EQ(joined.comments.at("not_measured").find("gpu_mem_bytes"), std::string::npos);
  EXPECT_EQ(joined.comments.at("malformed_remote_lines"), "0");
  EXPECT_EQ(joined.comments.at("late_joined_messages"), "0");
  std::map<std::string, std::string> truth;
  for (const auto& row : served.rows)
    if (row.at("tgid") == tgid) truth[row.at("slot_start_ns")] = row.at("gpu_mem_bytes");
  size_t nr_same = 0, nr_other = 0;
  for (const auto& row : joined.rows) {
    if (row.at("tgid") != tgid || row.at("gpu_mem_bytes").empty()) continue;
    EXPECT_EQ(row.at("gpu_launches"), "") << "that is not served";
    auto found = truth.find(row.at("slot_start_ns"));
    if (found == truth.end()) continue;
    nr_same += found->second == row.at("gpu_mem_bytes");
    nr_other += found->second != row.at("gpu_mem_bytes");
  }
  EXPECT_GT(nr_same, 10u) << output;
  EXPECT_LE(nr_other, 1u) << "wall clocks are read to the microsecond: a border may lie in between";
}

// In a mount namespace of its own, which has a BPF file system.
TEST(Remediate, WithoutAHeartbeatNothingIsObserved) {
  const std::string dir = MakeDir("remediate-watchdog"), pin = kWatchdogPath;
  std::string output;
  const std::string record =
      "LD_LIBRARY_PATH=" + StandinFolder() +
      " $S record --source $SRC --remediate=sock --spans s.csv -o a.csv -- sh -c '";
  // Another thing under that name is left alone; what a killed recorder left is not.
  std::ofstream(dir + "/script")
      << "mkdir " << pin
      << "; $S record --source $SRC --duration 0.1 --remediate=sock -o x.csv; [ $? = 6 ] || exit 90\n"
      << "rmdir " << pin << " || exit 91\n"
      << "$S record --source $SRC --duration 60 --remediate=sock -o x.csv & recorder=$!\n"
      << "while ! [ -e " << pin << " ]; do kill -0 $recorder || exit 92; sleep 0.02; done\n"
      << "kill -9 $recorder; wait\n[ -e " << pin << " ] || exit 93\n"
      << record << "stat -c %a " << pin << " >mode; $T --workload cuda 5 >truth' || exit 94\n"
      << "! [ -e " << pin << " ] || exit 95\n[ $(cat mode) = 600 ] || exit 96\n"
      << "while umount /sys/fs/bpf 2>/dev/null; do :; done; $S record --source $SRC --duration 0.1 "
         "--remediate=sock -o n.csv || exit "
         "97\n"
      << "grep -q 'is no BPF file system' n.csv || exit 98\n";
  ASSERT_EQ(
      Shell("cd " + dir + " && unshare -m sh -c 'mount -t bpf bpf /sys/fs/bpf && sh script'", &output),
      0)
      << output;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const WorkloadResult truth = ParseWorkload(dir + "/truth");
  const int32_t tgid = truth.TgidsOf("proc").at(0);
  uint64_t beat_ns = 0, quiet = 0;
  std::pair<uint64_t, uint64_t> seen;
  for (const auto& line : truth.lines) {
    if (line.key == "beat") beat_ns = line.values.at(0) - line.values.at(1);
    if (line.key == "quiet") quiet = line.values.at(0);
    if (line.key == "seen") seen = {line.values.at(0), line.values.at(1)};
  }
  // Launches are counted in the rows and in the spans; what a row does not know is in the spans.
  uint64_t nr_launches = 0, last_ns = 0;
  std::vector<std::pair<std::string, uint64_t>> of_quiet;  // how its spans ended, and when
  for (const auto& span : ReadCsv(dir + "/s.csv").rows) {
    if (span.at("span") != "kernels") continue;
    if (std::stoull(span.at("handle"), nullptr, 0) == quiet)
      of_quiet.emplace_back(span.at("end"), std::stoull(span.at("end_ns")));
    nr_launches += std::stoull(span.at("launches"));
    const uint64_t start_ns = std::stoull(span.at("start_ns"));
    if (start_ns < beat_ns + 200'000'000) last_ns = std::max(last_ns, start_ns);
  }
  std::printf("the last call was seen %.3f ms after the last heartbeat\n",
              static_cast<double>(last_ns - beat_ns) / 1e6);
  // What began before and was waited for meanwhile ends where it was seen last, and nobody says how.
  ASSERT_EQ(of_quiet.size(), 2u);
  EXPECT_EQ(of_quiet[0].first, "unknown");
  EXPECT_LT(of_quiet[0].second, beat_ns + SS_CUDA_WATCHDOG_STALE_NS);
  EXPECT_EQ(of_quiet[1].first, "waited");
  EXPECT_GT(of_quiet[1].second, beat_ns + 200'000'000);
  EXPECT_GE(nr_launches, seen.first);
  EXPECT_LE(nr_launches, seen.second);
  EXPECT_GT(std::stoull(csv.comments.at("bypassed_cuda_calls")), 2 * 5u);
  EXPECT_GT(std::stoull(csv.comments.at("cuda_bypassed_ns")), 100'000'000u);
  bool was_known = false, is_known = true;
  for (const auto& row : csv.rows) {
    if (row.at("tgid") != std::to_string(tgid)) continue;
    if (std::stoull(row.at("slot_start_ns")) < beat_ns)
      was_known |= row.at("gpu_mem_bytes") == "1000";
    else if (std::stoull(row.at("slot_start_ns")) > beat_ns + 200'000'000)
      is_known &= !row.at("gpu_mem_bytes").empty();
  }
  EXPECT_TRUE(was_known);
  EXPECT_FALSE(is_known) << "a free may have been missed";
}

// The consumer of doc/straggling.md, as it stands there.
TEST(Remediate, TheChaptersConsumerUnderstandsWhatWeSend) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  std::ifstream chapter("doc/straggling.md");
  if (!chapter.is_open()) GTEST_SKIP() << "needs doc/straggling.md, in the project's folder";
  std::stringstream text;
  text << chapter.rdbuf();
  const std::string all = text.str();
  const size_t begin = all.find("```python\n"), end = all.find("```", begin + 10);
  ASSERT_NE(end, std::string::npos);
  const std::string dir = MakeDir("remediate-chapter");
  std::ofstream(dir + "/consumer.py") << all.substr(begin + 10, end - begin - 10);
  News news;
  RemediateServer server;
  ASSERT_TRUE(server.Start(dir + "/sock", {}, &news).ok());
  std::atomic<bool> ended{false};
  std::thread sender([&] {
    while (server.stats().nr_consumers == 0 && !ended) usleep(1000);
    server.Send(ToLine(MemoryMessage{42, "t", 1, 95, 100, 5, 1}));
    server.Send("{\"type\":\"of another time\"}\n");
    server.Send(ToLine(StraggleMessage{42, "t", 45.2, 12, {67, 89}, 1, false, MakeUuid()}));
    server.Stop();
  });
  std::string output;
  EXPECT_EQ(Shell("python3 " + dir + "/consumer.py " + dir + "/sock", &output), 0);
  ended = true;
  sender.join();
  EXPECT_EQ(output,
            "GPU 1 is nearly full: process 42 holds 95.0%\n"
            "process 42 launches 45.2% less: see [67, 89]\n");
}

}  // namespace
}  // namespace slotscope
