// SPDX-License-Identifier: MIT
// Why a GPU has no work: a process that does something known between its launches.
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "harness.h"

namespace slotscope {
namespace {

constexpr const char* kNames[] = {"Spins",        "Sleeps",      "IsStopped",     "IsInACall",
                                  "IsBesideAHog", "IsThrottled", "WaitsForADisk", "NeverWaits"};
// What its rest is told as, beside some sleep.
constexpr const char* kRests[] = {"asleep", "asleep", "stopped", "cuda_wait",
                                  "asleep", "asleep", "disk",    "asleep"};

using Sums = std::map<std::string, uint64_t>;  // "": the whole

// Of the thread that launches, between two times: it also begins and ends.
Sums SumsOf(const CsvFile& csv, const std::string& tgid, uint64_t from_ns, uint64_t until_ns) {
  Sums sums;
  for (const CsvRow& row : csv.rows) {
    if (row.at("tgid") != tgid) continue;
    uint64_t causes_ns = 0;
    for (const char* cause :
         {"ran", "waited", "throttled", "cuda_wait", "disk", "stopped", "asleep", "unknown"}) {
      const uint64_t ns = Number(row.at(fmt::format("gpu_no_work_{}_ns", cause)));
      sums[cause] += ns;
      causes_ns += ns;
    }
    sums[""] += Number(row.at("gpu_no_work_ns"));
    const uint64_t slot_ns = Number(row.at("slot_start_ns"));
    if (slot_ns >= from_ns && slot_ns < until_ns)
      sums["launcher_ran"] += Number(row.at("gpu_launcher_ran_ns"));
    if (!row.at("gpu_no_work_throttled_ns").empty()) sums["knows_throttled"] = 1;
    EXPECT_EQ(causes_ns, Number(row.at("gpu_no_work_ns"))) << row.at("slot_start_ns");
    EXPECT_LE(Number(row.at("gpu_no_work_in_calls_ns")), Number(row.at("gpu_no_work_ran_ns")));
    EXPECT_LE(Number(row.at("gpu_no_work_ns")), Number(row.at("slot_ns")));
    EXPECT_LE(Number(row.at("gpu_launcher_ran_ns")), Number(row.at("slot_ns")));
    if (!row.at("gpu_launcher_ran_ns").empty()) {
      EXPECT_LE(Number(row.at("gpu_no_work_ran_ns")), Number(row.at("gpu_launcher_ran_ns")));
    }
    EXPECT_LE(Number(row.at("gpu_launcher_in_calls_ns")), Number(row.at("gpu_launcher_ran_ns")));
  }
  return sums;
}

using Truth = std::array<uint64_t, 4>;  // ran, waited, rest; and a part of them: throttled, or stopped

// What the hypervisor took while it ran or waited is in neither of the kernel's accounts.
std::string WhyNot(int kind, const Sums& sums, const Truth& truth, uint64_t stolen_ns) {
  const std::string rest = kRests[kind];
  const uint64_t all_ns = truth[0] + truth[1] + truth[2];
  const uint64_t slack_ns =
      std::max<uint64_t>(all_ns / (IsEmulated() ? 10 : 100), 1'000'000) + stolen_ns;
  std::string text;
  const auto compare = [&](const std::string& what, uint64_t is_ns, uint64_t should_ns) {
    if (is_ns > should_ns + slack_ns || is_ns + slack_ns < should_ns)
      text += fmt::format("{}: {} ns, not {} ns\n", what, is_ns, should_ns);
  };
  if (kind == kGapNeverWaits) {
    compare("launcher", sums.at("launcher_ran"), truth[0]);
    compare("all", sums.at(""), 0);  // whatever its GPU does
    return text;
  }
  // Of some it is known that they never sleep: what they did not run they waited, also where the
  // kernel's account of that has less (under a quota on 6.1, in a guest beside a busy host, a third
  // less).
  const bool never_sleeps = kind == kGapThrottled || kind == kGapSpins || kind == kGapBesideHog;
  const uint64_t waited_ns = truth[1] + (never_sleeps ? truth[2] : 0);
  const uint64_t rest_ns = never_sleeps ? 0 : truth[2];
  compare("all", sums.at(""), all_ns);
  compare("ran", sums.at("ran"), truth[0]);
  compare("waited", sums.at("waited") + sums.at("throttled"), waited_ns);
  if (sums.contains("knows_throttled"))
    compare("throttled", sums.at("throttled"), kind == kGapThrottled ? truth[3] : 0);
  compare("rest", sums.at("asleep") + (rest == "asleep" ? 0 : sums.at(rest)), rest_ns);
  // Of a gap in which it is stopped it sleeps itself for a part, until it is.
  compare(rest, sums.at(rest), kind == kGapStopped ? truth[3] : rest_ns);
  if (sums.at("unknown") > all_ns / (IsEmulated() ? 10 : 100)) text += "it is not known\n";
  return text;
}

void Record(int kind, Sums* sums, Truth* truth, uint64_t* stolen_ns) {
  const std::string dir = MakeDir("gaps");
  std::string output;
  const uint64_t stolen_before_ns = StolenNs();
  ASSERT_EQ(Shell(fmt::format("cd {} && LD_LIBRARY_PATH={} $S record --source $SRC --gpu on -o a.csv -- "
                              "sh -c '$T --workload cuda-gaps {} >truth'",
                              dir, StandinFolder(), kind),
                  &output),
            0)
      << output << Text(dir + "/truth");
  *stolen_ns = StolenNs() - stolen_before_ns;
  const CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  const WorkloadResult said = ParseWorkload(dir + "/truth");
  const auto gaps = std::find_if(said.lines.begin(), said.lines.end(),
                                 [](const auto& line) { return line.key == "gaps"; });
  ASSERT_NE(gaps, said.lines.end()) << Text(dir + "/truth");
  const auto window = std::find_if(said.lines.begin(), said.lines.end(),
                                   [](const auto& line) { return line.key == "window"; });
  ASSERT_NE(window, said.lines.end()) << Text(dir + "/truth");
  *sums = SumsOf(csv, std::to_string(gaps->tgid), window->values.at(0), window->values.at(1));
  ASSERT_EQ(gaps->values.size(), truth->size());
  std::copy(gaps->values.begin(), gaps->values.end(), truth->begin());
}

// What it does is not what it is told to do, or twice that.
void CheckMutants(int kind, const Sums& sums, const Truth& truth, uint64_t stolen_ns) {
  Sums swapped = sums, doubled = sums;
  const bool runs = kind == kGapSpins || kind == kGapBesideHog || kind == kGapNeverWaits;
  const char* const with = kind == kGapThrottled
                               ? (sums.contains("knows_throttled") ? "throttled" : "waited")
                           : runs ? "asleep"
                                  : kRests[kind];
  std::swap(swapped.at(kind == kGapNeverWaits ? "launcher_ran" : "ran"), swapped.at(with));
  for (auto& [cause, ns] : doubled) ns *= 2;
  EXPECT_NE(WhyNot(kind, swapped, truth, stolen_ns), "");
  EXPECT_NE(WhyNot(kind, doubled, truth, stolen_ns), "");
}

class GpuGaps : public testing::TestWithParam<int> {};

TEST_P(GpuGaps, HaveTheirCauses) {
  const int kind = GetParam();
  if (kind == kGapBesideHog && NrCpus() < 2) GTEST_SKIP() << "there is one CPU";
  if (kind == kGapOnDisk && access("/dev/nullb0", F_OK) != 0) {
    struct statfs files;
    ASSERT_EQ(statfs(MakeDir("disk").c_str(), &files), 0);
    if (files.f_type == TMPFS_MAGIC) GTEST_SKIP() << "there is no disk";
  }
  // Beside somebody else's storm it is recorded again: what it waits just beside a gap is in no account
  // of its own.
  std::string why_not;
  for (int tries = 0; tries < 5; tries++) {
    Sums sums;
    Truth truth{};
    uint64_t stolen_ns = 0;
    ASSERT_NO_FATAL_FAILURE(Record(kind, &sums, &truth, &stolen_ns));
    why_not = WhyNot(kind, sums, truth, stolen_ns);
    if (!why_not.empty()) continue;
    CheckMutants(kind, sums, truth, stolen_ns);
    return;
  }
  FAIL() << why_not;
}

// What of its time a launching thread spends in CUDA, of a process whose calls and pauses all cross the
// borders of slots.
TEST(Launcher, InCallsIsTheTimeThatItRunsInThem) {
  const std::string dir = MakeDir("launcher");
  std::string output;
  ASSERT_EQ(Shell(fmt::format("cd {} && LD_LIBRARY_PATH={} $S record --source $SRC --gpu on -o a.csv -- "
                              "sh -c '$T --workload cuda-launcher {} >truth'",
                              dir, StandinFolder(), IsEmulated() ? 50 : 300),
                  &output),
            0)
      << output << Text(dir + "/truth");
  const WorkloadResult said = ParseWorkload(dir + "/truth");
  const auto truth = std::find_if(said.lines.begin(), said.lines.end(),
                                  [](const auto& line) { return line.key == "launcher"; });
  ASSERT_NE(truth, said.lines.end()) << Text(dir + "/truth");
  const double ran_ns = static_cast<double>(truth->values.at(0)),
               should_ns = static_cast<double>(truth->values.at(1));
  double in_calls_ns = 0;
  for (const CsvRow& row : ReadCsv(dir + "/a.csv").rows)
    if (row.at("tgid") == std::to_string(truth->tgid))
      in_calls_ns += static_cast<double>(Number(row.at("gpu_launcher_in_calls_ns")));
  const double share = IsEmulated() ? 0.15 : 0.05;  // where a trap takes long
  const auto is_right = [&](double ns) { return std::abs(ns - should_ns) <= share * should_ns; };
  EXPECT_TRUE(is_right(in_calls_ns)) << in_calls_ns << ", not " << should_ns << ", of " << ran_ns;
  EXPECT_FALSE(is_right(2 * in_calls_ns)) << "doubled";
  EXPECT_FALSE(is_right(ran_ns - in_calls_ns)) << "what is between them";
  EXPECT_FALSE(is_right(ran_ns)) << "all that it ran";
}

// What `gpu` says of a recording is what its table has: of who never waits for its GPU, that nobody sees
// what it does.
TEST(GpuReport, SaysWhatIsNotVisible) {
  const std::string dir = MakeDir("gpu-report");
  std::string output;
  ASSERT_EQ(
      Shell(fmt::format("cd {} && LD_LIBRARY_PATH={} $S record --source $SRC --gpu on -o a.rec -- sh -c "
                        "'$T --workload cuda-launcher 50 >never; $T --workload cuda-gaps {} >sleeps' && "
                        "$S gpu a.rec >gpu.txt",
                        dir, StandinFolder(), +kGapSleeps),
            &output),
      0)
      << output;
  WriteTable(dir + "/a.rec", "gpu", dir + "/gpu.csv");
  const auto tgid_of = [&](const char* name, const char* key) {
    return std::to_string(ParseWorkload(dir + "/" + name).TgidsOf(key).at(0));
  };
  const std::string never = tgid_of("never", "launcher"), sleeps = tgid_of("sleeps", "gaps");
  uint64_t no_work_ns = 0, nr_launches = 0;
  for (const CsvRow& row : ReadCsv(dir + "/gpu.csv").rows)
    if (row.at("tgid") == sleeps) {
      no_work_ns += Number(row.at("gpu_no_work_ns"));
      nr_launches += Number(row.at("gpu_launches"));
    }
  ASSERT_GT(no_work_ns, 0u);
  std::map<std::string, std::vector<std::string>> words;  // by tgid
  std::istringstream lines(Text(dir + "/gpu.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream one(line);
    std::vector<std::string> word{std::istream_iterator<std::string>(one), {}};
    if (word.size() != 10 || word[0] == "note:") continue;  // leaks are two words
    EXPECT_LE(line.size(), 80u) << line;
    words[word[0]] = word;
  }
  ASSERT_TRUE(words.contains(never) && words.contains(sleeps)) << Text(dir + "/gpu.txt");
  EXPECT_EQ(words[never][6], "hidden");
  EXPECT_EQ(words[sleeps][6], fmt::format("{:.1f}", static_cast<double>(no_work_ns) / 1e6));
  EXPECT_NE(words[sleeps][6], fmt::format("{:.1f}", static_cast<double>(2 * no_work_ns) / 1e6));
  EXPECT_EQ(words[sleeps][7], std::to_string(nr_launches));
  EXPECT_NE(Text(dir + "/gpu.txt").find("hidden: it never waited for all that it had launched"),
            std::string::npos)
      << Text(dir + "/gpu.txt");
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuGaps, testing::Range(0, static_cast<int>(kNrGapKinds)),
                         [](const auto& one) { return kNames[one.param]; });

}  // namespace
}  // namespace slotscope
