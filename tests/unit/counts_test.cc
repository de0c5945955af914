// SPDX-License-Identifier: MIT
#include "run/counts.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "run/summary.h"
#include "run/summary_text.h"

namespace slotscope {
namespace {

// Every number in them is another one: 1, 2, ...
RunCounts Numbered() {
  static_assert(std::is_trivially_copyable_v<RunCounts> && sizeof(RunCounts) % sizeof(uint64_t) == 0);
  RunCounts counts;
  std::array<uint64_t, sizeof(counts) / sizeof(uint64_t)> numbers;
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = i + 1;
  std::memcpy(static_cast<void*>(&counts), numbers.data(), sizeof(counts));
  return counts;
}

TEST(Counts, EachCounterHasItsNameAndItsNumberAlone) {
  const RunCounts counts = Numbered();
  std::set<std::string_view> names;
  std::set<std::pair<Severity, std::string_view>> metrics;  // by family
  std::map<uint64_t, std::string_view> numbers;
  for (const Counter& counter : Counters()) {
    EXPECT_TRUE(names.insert(counter.name).second) << counter.name;
    const bool is_by_name = counter.metric.empty();
    EXPECT_TRUE(metrics
                    .insert({is_by_name ? counter.severity : Severity::kLost,
                             is_by_name ? counter.name : counter.metric})
                    .second)
        << counter.name;
    const auto [other, is_new] = numbers.try_emplace(counter.of(counts), counter.name);
    EXPECT_TRUE(is_new) << counter.name << " and " << other->second << " are one number";
    EXPECT_FALSE(counter.meaning.empty() || counter.where.empty()) << counter.name;
  }
}

TEST(Counts, WhatIsLostIsALossAndNothingElse) {
  const RunCounts numbered = Numbered();
  for (const Counter& counter : Counters()) {
    // The one number that it reads.
    RunCounts counts;
    auto* bytes = reinterpret_cast<char*>(&counts);
    std::memcpy(bytes + (counter.of(numbered) - 1) * sizeof(uint64_t), "\1", 1);
    ASSERT_EQ(counter.of(counts), 1u) << counter.name;
    EXPECT_EQ(HasLosses(counts), counter.severity == Severity::kLost) << counter.name;
  }
}

TEST(Counts, TheFileAndTheScreenSayThemAll) {
  RunSummary run;
  run.counts = Numbered();
  const std::string screen = SummaryText(run, true);
  std::map<std::string, std::string> lines;
  for (const auto& [key, value] : SummaryLines(run)) lines[key] = value;
  for (const Counter& counter : Counters()) {
    const std::string name(counter.name), number = std::to_string(counter.of(run.counts));
    EXPECT_EQ(lines[name], number) << name;
    if (counter.severity == Severity::kNone) continue;
    const char* const word = counter.severity == Severity::kLost ? "lost: " : "note: ";
    EXPECT_NE(screen.find(word + name + " " + number + ": "), std::string::npos) << name;
  }
  EXPECT_EQ(screen.find("lost: nothing"), std::string::npos);
  // In short, those that were lost have their names.
  EXPECT_NE(SummaryText(run, false).find("lost_records "), std::string::npos) << SummaryText(run, false);
  EXPECT_EQ(SummaryText(run, false).find("note: "), std::string::npos);
}

TEST(Counts, OfWhatThereWasNoneNothingIsSaid) {
  RunSummary run;
  run.counts.accounting.nr_slots = 5;
  const std::string screen = SummaryText(run, true);
  EXPECT_NE(screen.find("lost: nothing\n"), std::string::npos) << screen;
  EXPECT_EQ(screen.find("note: "), std::string::npos) << screen;
  for (const auto& [key, value] : SummaryLines(run)) {
    EXPECT_EQ(key.find("cuda"), std::string::npos) << key;
    EXPECT_EQ(key.find("rdt"), std::string::npos) << key;
    EXPECT_EQ(key.find("remote"), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace slotscope
