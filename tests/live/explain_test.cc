// SPDX-License-Identifier: MIT
// What happens to a process here, and what explain says of it. SLOTSCOPE_INCIDENTS: how many of each
// kind; then also how often it is the first thing that is said of the whole machine.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "harness.h"

namespace slotscope {
namespace {

constexpr const char* kNames[] = {"hog",  "burst", "throttled", "stopped", "blocked",
                                  "lock", "noisy", "launcher",  "loader",  "quiet"};
constexpr const char* kCauses[] = {"others", "others", "throttled", "stopped", "blocked",
                                   "others", "others", "others",    "others",  ""};
// What the sentence says beside these.
constexpr const char* kClauses[] = {
    "", "", "", "", "", "", "", "; its GPU had no work for ", "; meanwhile the GPU of victim (", ""};

struct Answer {
  std::string sentence, name, cause;  // all empty: it was quiet
};

Answer Explain(const std::string& recording, const std::string& options) {
  std::string output;
  EXPECT_EQ(Shell("$S explain " + recording + " --json " + options, &output), 0) << output;
  EXPECT_TRUE(nlohmann::json::accept(output)) << "it has something to say beside: " << output;
  if (!nlohmann::json::accept(output)) return {};
  const auto json = nlohmann::json::parse(output);
  if (json["quiet"]) return {};
  const auto& first = json["moments"][0];
  return {first["sentence"], first["who"].is_null() ? "" : first["who"]["name"], first["cause"]};
}

struct Happened {
  std::string recording;
  std::string neighbor;  // "-": none
  double no_work = 1;    // share of that time in which the GPU of who launches had none, if it knows
  bool is_usable = true;
};

Happened Record(int kind, int seed) {
  Happened happened;
  happened.recording = MakeDir("incident") + "/r.rec";
  const std::string truth = happened.recording + ".truth";
  std::string output;
  const bool uses_gpu = kind == kLiveLauncher || kind == kLiveLoader;
  EXPECT_EQ(Shell(fmt::format("LD_LIBRARY_PATH={} $S record --source $SRC --all {} -o {} -- sh -c '$T "
                              "--workload incident {} >{}' 2>&1",
                              uses_gpu ? StandinFolder() : "", uses_gpu ? "--gpu on" : "",
                              happened.recording, kind * 100 + seed, truth),
                  &output),
            0)
      << output;
  const std::string text = Text(truth);
  happened.is_usable = text.find("unusable") == text.npos;
  const size_t at = text.find("neighbor ");
  if (at != text.npos) happened.neighbor = text.substr(at + 9, text.find('\n', at) - at - 9);
  const size_t share_at = text.find("no_work ");
  if (share_at != text.npos) happened.no_work = std::atof(text.c_str() + share_at + 8);
  EXPECT_TRUE(!happened.is_usable || !happened.neighbor.empty()) << text;
  return happened;
}

// It is to be said of a GPU that was starved, and not of one that had no less to do than else. (That is
// 0.1; by the scheduler's will a loader may still get enough of a CPU.)
bool HasRightClause(int kind, const Happened& happened, const Answer& answer) {
  const bool has = answer.sentence.find(kClauses[kind]) != std::string::npos;
  if (kind != kLiveLoader) return has;
  return has ? happened.no_work > 0.2 : happened.no_work < 0.4;
}

bool IsRight(int kind, const Happened& happened, const Answer& answer) {
  return answer.name == (kind == kLiveLoader ? "loader" : "victim") && answer.cause == kCauses[kind] &&
         HasRightClause(kind, happened, answer) &&
         (happened.neighbor == "-" ||
          answer.sentence.find(" " + happened.neighbor + " ") != std::string::npos);
}

class ExplainLive : public testing::TestWithParam<int> {};

TEST_P(ExplainLive, ItsFirstSentenceHasProcessAndCause) {
  const int kind = GetParam();
  const char* text = std::getenv("SLOTSCOPE_INCIDENTS");
  const int nr = text ? std::atoi(text) : 1;
  int nr_right = 0, nr_blind = 0, nr_starved = 0;
  for (int seed = 0; seed < nr; seed++) {
    const Happened happened = Record(kind, seed);
    if (!happened.is_usable) GTEST_SKIP() << "there is no cpu controller of cgroups here";
    if (kind == kLiveQuiet) {
      const Answer answer = Explain(happened.recording, "");
      // Of what else this machine does nothing is known.
      const bool is_right = answer.sentence.find("while service") == std::string::npos;
      EXPECT_TRUE(is_right) << answer.sentence;
      nr_right += is_right;
      nr_blind += answer.sentence.empty();
      if (text && !answer.sentence.empty()) fmt::print("quiet {}: {}\n", seed, answer.sentence);
      continue;
    }
    const Answer of_victim =
        Explain(happened.recording, kind == kLiveLoader ? "--comm victim,loader" : "--comm victim");
    const bool is_right = IsRight(kind, happened, of_victim);
    nr_right += is_right;
    if (!is_right)
      fmt::print("{} {}: {} ({:.2f})\n", kNames[kind], seed, of_victim.sentence, happened.no_work);
    nr_starved += kind == kLiveLoader && happened.no_work >= 0.4;
    if (!text) continue;
    const Answer blind = Explain(happened.recording, "");
    nr_blind += IsRight(kind, happened, blind);
    if (!IsRight(kind, happened, blind))
      fmt::print("{} {}: blind: {}\n", kNames[kind], seed, blind.sentence);
  }
  if (text) fmt::print("{}: {} of {}, blind {}\n", kNames[kind], nr_right, nr, nr_blind);
  if (text && kind == kLiveLoader) fmt::print("starved: {}\n", nr_starved);
  EXPECT_GE(nr_right, (85 * nr + 99) / 100);
}

INSTANTIATE_TEST_SUITE_P(Incidents, ExplainLive, testing::Range(0, static_cast<int>(kNrLiveIncidents)),
                         [](const auto& one) { return kNames[one.param]; });

}  // namespace
}  // namespace slotscope
