// SPDX-License-Identifier: MIT
#include "run/summary_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>

namespace slotscope {
namespace {

Comm CommOf(const std::string& name) {
  Comm comm = {};
  std::memcpy(comm.data(), name.data(), std::min(name.size(), comm.size() - 1));
  return comm;
}

Total TotalOf(const std::string& name, int32_t tgid, uint64_t cpu_ns, RowKind kind = RowKind::kUser) {
  Total total;
  total.kind = kind;
  total.key = {tgid, 1};
  total.comm = CommOf(name);
  total.sums[kCpuNs] = cpu_ns;
  return total;
}

// Of a machine where everything is so that it needs a line.
RunSummary Crowded() {
  RunSummary run;
  run.nr_cpus = 2;
  run.slot_ns = 1'000'000;
  run.counts.accounting.nr_slots = 1000;
  run.counts.accounting.slots_ns = 1'000'000'000;
  run.counts.accounting.lost_ns = 1'000'000;
  for (int32_t i = 0; i < 76; i++) run.totals.push_back(TotalOf("cc1", 100 + i, 5'000'000));
  for (int32_t i = 0; i < 30; i++)
    run.totals.push_back(TotalOf("other" + std::to_string(i), 1000 + i, 1'000'000));
  for (int32_t i = 0; i < 4; i++)
    run.totals.push_back(TotalOf("kworker/" + std::to_string(i), 10 + i, 2'000'000, RowKind::kKernel));
  for (const RowKind kind : {RowKind::kIdle, RowKind::kLost, RowKind::kOffline})
    run.totals.push_back(TotalOf("", 0, 500'000, kind));
  for (int32_t i = 0; i < 5; i++)
    run.pairs.push_back({{i + 1, 1}, {i + 2, 1}, CommOf("waiter"), CommOf("neighbour"), 1'000'000});
  run.not_measured =
      "llc_misses instructions cycles mbm_total_bytes mbm_local_bytes llc_occupancy_bytes";
  return run;
}

TEST(SummaryText, FitsAScreenOf24Lines) {
  const std::string text = SummaryText(Crowded(), false);
  std::istringstream lines(text);
  size_t nr = 0;
  for (std::string line; std::getline(lines, line); nr++) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_LE(nr, kSummaryLines) << text;
  EXPECT_GE(nr, kSummaryLines - 1) << "there is room for more names\n" << text;
}

TEST(SummaryText, ProcessesOfOneNameAreALine) {
  const std::string text = SummaryText(Crowded(), false);
  EXPECT_NE(text.find("\ncc1 x 76                        380.0  19.0"), std::string::npos) << text;
  EXPECT_NE(text.find("\nkworker x 4                       8.0"), std::string::npos) << text;
  EXPECT_NE(text.find("\nother0 (1000)"), std::string::npos) << text;
  size_t nr_others = 0, at = 0;
  while ((at = text.find("\nother", at + 1)) != std::string::npos) nr_others++;
  EXPECT_NE(text.find("and " + std::to_string(30 - nr_others) + " more processes"), std::string::npos)
      << text;
}

TEST(SummaryText, FromOnePercentOnALossIsAWarning) {
  RunSummary run = Crowded();
  EXPECT_EQ(SummaryText(run, false).find("WARNING"), std::string::npos);
  EXPECT_NE(SummaryText(run, false).find("\nlost: 0.05% of CPU time"), std::string::npos);
  run.counts.accounting.lost_ns = 20'000'000;  // of 2 s
  EXPECT_NE(SummaryText(run, false).find("WARNING: much was lost: 1% of CPU time"), std::string::npos)
      << SummaryText(run, false);
}

TEST(SummaryText, WhatIsNotMeasuredIsNamedByWhatItIsOf) {
  RunSummary run = Crowded();
  EXPECT_NE(SummaryText(run, false).find("not measured: perf counters, memory traffic, cache ("),
            std::string::npos)
      << SummaryText(run, false);
  run.not_measured = "cycles mbm_total_bytes";  // of each a part
  EXPECT_NE(SummaryText(run, false).find("not measured: cycles, mbm_total_bytes ("), std::string::npos)
      << SummaryText(run, false);
  run.not_measured = "nothing";
  EXPECT_EQ(SummaryText(run, false).find("not measured"), std::string::npos);
}

TEST(SummaryText, AFilterThatSelectsNobodyIsAWarning) {
  RunSummary run = Crowded();
  run.has_selection = true;
  EXPECT_EQ(SummaryText(run, false).find("no selected process ran"), std::string::npos);
  std::erase_if(run.totals, [](const Total& total) { return IsProcess(total.kind); });
  EXPECT_NE(SummaryText(run, false).find("WARNING: no selected process ran"), std::string::npos);
  run.has_selection = false;
  EXPECT_EQ(SummaryText(run, false).find("no selected process ran"), std::string::npos);
}

TEST(SummaryText, AccountsThatAreBrokenSaySo) {
  RunSummary run = Crowded();
  EXPECT_NE(SummaryText(run, false).find("\naccounting: complete\n"), std::string::npos);
  EXPECT_EQ(SummaryText(run, false).find("identity"), std::string::npos);
  EXPECT_NE(SummaryText(run, true).find("\nidentity holds: "), std::string::npos);
  run.counts.accounting.nr_broken_slots = 1;
  EXPECT_NE(SummaryText(run, false).find("\naccounting: BROKEN: in 1 of 1000 slots"), std::string::npos);
}

}  // namespace
}  // namespace slotscope
