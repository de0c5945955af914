// SPDX-License-Identifier: MIT
// Does explain find what happened, of what a kernel tells? SLOTSCOPE_INCIDENTS: how many of each kind;
// SLOTSCOPE_INCIDENT_SEED: the first seed.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cli/replay.h"
#include "explain/history_reader.h"
#include "explain/stall.h"
#include "explain/story.h"
#include "tests/incidents/incident.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

uint64_t NumberFrom(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Of a recording of these names; none: of all.
History HistoryOf(const std::string& raw, const std::string& folder,
                  const std::vector<std::string>& comms) {
  ReplayOptions options;
  options.path = raw;
  options.output.path = folder;
  options.output.is_quiet = true;
  options.output.fold.comms = comms;
  EXPECT_EQ(Replay(options), 0);
  RecordingTables tables;
  Status status = tables.Open(folder);
  EXPECT_TRUE(status.ok()) << status.message();
  History history;
  status = tables.ReadHistory({}, &history);
  EXPECT_TRUE(status.ok()) << status.message();
  return history;
}

// What explain would say first; empty: nothing.
std::string FirstSentence(const History& history, Stall* first) {
  const std::vector<Stall> stalls = FindStalls(history, {});
  if (stalls.empty()) return "";
  *first = stalls.front();
  return Headline(*first);
}

bool HasIdleGpu(const Truth& truth, const std::string& sentence) {
  if (truth.idle_gpu_of.empty()) return true;
  const std::string whose = truth.idle_gpu_of == "its" ? "; its GPU had no work for "
                                                       : "the GPU of " + truth.idle_gpu_of + " (";
  return sentence.find(whose) != std::string::npos;
}

bool IsRight(IncidentKind kind, const Truth& truth, const std::string& sentence, const Stall& first) {
  if (kind == IncidentKind::kQuiet) return sentence.empty();
  if (sentence.empty()) return false;
  const auto at = [](uint64_t ns) { return kIncidentUnixNs + static_cast<int64_t>(ns); };
  if (first.from_ns >= at(truth.end_ns) || first.to_ns <= at(truth.begin_ns)) return false;
  if (kind == IncidentKind::kLossy) return first.who.nr == 0;
  return std::find(truth.who.begin(), truth.who.end(), first.who.name) != truth.who.end() &&
         std::find(truth.why.begin(), truth.why.end(), first.why) != truth.why.end() &&
         (truth.neighbor.empty() || sentence.find(" " + truth.neighbor + " ") != std::string::npos) &&
         HasIdleGpu(truth, sentence);
}

// Of a right answer each of these is a wrong one.
void ExpectMutantsFail(IncidentKind kind, const Truth& truth, const std::string& sentence,
                       const Stall& first) {
  Truth other = truth;
  if (kind == IncidentKind::kQuiet) {
    EXPECT_FALSE(IsRight(kind, truth, "somebody waited", first));
    return;
  }
  EXPECT_FALSE(IsRight(kind, truth, "", first));
  other.begin_ns += 3'000'000'000;
  other.end_ns += 3'000'000'000;
  EXPECT_FALSE(IsRight(kind, other, sentence, first)) << "another time";
  if (kind == IncidentKind::kLossy) return;
  other = truth;
  other.who = {"somebody"};
  EXPECT_FALSE(IsRight(kind, other, sentence, first)) << "another process";
  other = truth;
  other.why = {kTraced};
  EXPECT_FALSE(IsRight(kind, other, sentence, first)) << "another cause";
  other = truth;
  other.idle_gpu_of = "somebody";
  EXPECT_FALSE(IsRight(kind, other, sentence, first)) << "another GPU";
  if (truth.neighbor.empty()) return;
  other = truth;
  other.neighbor = "batch";
  EXPECT_FALSE(IsRight(kind, other, sentence, first)) << "another neighbor";
}

TEST(ExplainIncidents, TheFirstSentenceHasProcessAndCause) {
  const uint64_t nr = NumberFrom("SLOTSCOPE_INCIDENTS", 4);
  const uint64_t seed = NumberFrom("SLOTSCOPE_INCIDENT_SEED", 1);
  uint64_t nr_right = 0, nr_all = 0;
  for (size_t i = 0; i < static_cast<size_t>(IncidentKind::kNr); i++) {
    const auto kind = static_cast<IncidentKind>(i);
    uint64_t right = 0;
    for (uint64_t one = 0; one < nr; one++) {
      const TempFolder folder;
      Truth truth;
      const Status status = MakeIncident(kind, seed + one, folder.At("raw"), &truth);
      ASSERT_TRUE(status.ok()) << status.message();
      Stall first;
      const std::string sentence =
          FirstSentence(HistoryOf(folder.At("raw"), folder.At("rec"), {}), &first);
      const bool is_right = IsRight(kind, truth, sentence, first);
      right += is_right;
      if (is_right) ExpectMutantsFail(kind, truth, sentence, first);
      if (!is_right)
        fmt::print("{} {}: \"{}\" (truth: {}, neighbor {})\n", IncidentName(kind), seed + one, sentence,
                   truth.who.empty() ? "nobody" : truth.who.front(), truth.neighbor);
    }
    fmt::print("{}: {} of {}\n", IncidentName(kind), right, nr);
    if (kind == IncidentKind::kQuiet) {
      EXPECT_EQ(right, nr);
      continue;
    }
    EXPECT_GE(static_cast<double>(right), 0.85 * static_cast<double>(nr)) << IncidentName(kind);
    nr_right += right;
    nr_all += nr;
  }
  EXPECT_GE(static_cast<double>(nr_right), 0.95 * static_cast<double>(nr_all));
}

// The names that waited most for others.
std::vector<std::string> WhoWaited(const History& history, size_t nr) {
  std::map<std::string, uint64_t> waited;
  for (const ProcessHistory& process : history.processes())
    for (const ProcessBin& bin : process.bins) waited[process.comm] += bin.ns[kByOthers];
  std::vector<std::string> names;
  for (const auto& [name, ns] : waited) names.push_back(name);
  std::sort(names.begin(), names.end(),
            [&](const auto& a, const auto& b) { return waited[a] > waited[b]; });
  names.resize(std::min(names.size(), nr));
  return names;
}

// A recording of one name alone has of its neighbors what they ran while it waited, and no more.
TEST(ExplainIncidents, WhoIsInNobodysWayIsNotAccusedAndWhoIsIsAlsoUnseen) {
  const uint64_t nr = NumberFrom("SLOTSCOPE_INCIDENTS", 4);
  const uint64_t seed = NumberFrom("SLOTSCOPE_INCIDENT_SEED", 1);
  for (const IncidentKind kind : {IncidentKind::kHog, IncidentKind::kBurst, IncidentKind::kNoisy,
                                  IncidentKind::kLauncher, IncidentKind::kQuiet}) {
    uint64_t right = 0, nr_all = 0;
    for (uint64_t one = 0; one < nr; one++) {
      const TempFolder folder;
      Truth truth;
      ASSERT_TRUE(MakeIncident(kind, seed + one, folder.At("raw"), &truth).ok());
      const std::vector<std::string> names =
          kind == IncidentKind::kQuiet ? WhoWaited(HistoryOf(folder.At("raw"), folder.At("rec"), {}), 3)
                                       : std::vector{truth.who.front()};
      for (const std::string& name : names) {
        Stall first;
        const std::string sentence =
            FirstSentence(HistoryOf(folder.At("raw"), folder.At("rec-" + name), {name}), &first);
        const bool is_right = IsRight(kind, truth, sentence, first);
        nr_all++;
        right += is_right;
        if (!is_right)
          fmt::print("{} {}: \"{}\" (of {}; neighbor {})\n", IncidentName(kind), seed + one, sentence,
                     name, truth.neighbor);
        if (is_right && kind != IncidentKind::kQuiet) {
          ExpectMutantsFail(kind, truth, sentence, first);
          EXPECT_NE(first.confidence(), Confidence::kHigh) << sentence;
        }
      }
    }
    fmt::print("{}: {} of {}\n", IncidentName(kind), right, nr_all);
    if (kind == IncidentKind::kQuiet)
      EXPECT_EQ(right, nr_all);
    else
      EXPECT_GE(static_cast<double>(right), 0.85 * static_cast<double>(nr_all)) << IncidentName(kind);
  }
}

}  // namespace
}  // namespace slotscope
