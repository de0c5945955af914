// SPDX-License-Identifier: MIT
// What processes were about, and where, against what they did.
#include <fmt/core.h>
#include <unistd.h>

#include <string>

#include "harness.h"

namespace slotscope {
namespace {

// By its name in the workload "states", which says when each was about to be so, when it was seen so,
// and when that was over.
TEST(State, OfWhoDoesNotRunIsKnownForAsLongAsItLasts) {
  const Recorded recorded = RecordWorkload({"states", "400"});
  CheckIdentity(recorded.csv);
  // A thread may be preempted between its new state and its switch, and then sits behind five others.
  constexpr uint64_t kSlackNs = 20'000'000;
  size_t nr = 0;
  for (const auto& line : recorded.truth.lines) {
    if (!line.key.starts_with("is-")) continue;
    nr++;
    const std::string state = line.key.substr(3);
    const uint64_t from_ns = line.values.at(0), seen_ns = line.values.at(1),
                   until_ns = line.values.at(2);
    const CsvRow* last = nullptr;
    for (const auto& row : recorded.csv.rows)
      if (row.at("tgid") == std::to_string(line.tgid) &&
          Number(row.at("slot_start_ns")) < until_ns - 50'000'000)
        last = &row;
    ASSERT_NE(last, nullptr) << state;
    EXPECT_EQ(last->at("state"), state) << "of the last row before it went on";
    const uint64_t since_ns = Number(last->at("state_since_ns"));
    ASSERT_GT(seen_ns, 0u) << state << " was not seen in all of its time";
    EXPECT_GE(since_ns, from_ns) << state;
    EXPECT_LE(since_ns, seen_ns + kSlackNs) << state;
  }
  EXPECT_EQ(nr, 4u + (access("/dev/nullb0", F_OK) == 0))
      << "a disk that is slow on purpose is there in guests";
}

// Two on one CPU run or wait at the end of each slot; none of them is anything else.
TEST(State, OfWhoSharesACpuIsRunningOrWaiting) {
  const Recorded recorded = RecordWorkload({"shares", "600"});
  uint64_t nr_running = 0, nr_waiting = 0, nr_others = 0, nr_elsewhere = 0;
  for (const int32_t tgid : recorded.truth.TgidsOf("proc"))
    for (const auto& row : recorded.csv.rows) {
      if (row.at("tgid") != std::to_string(tgid)) continue;
      nr_running += row.at("state") == "running";
      nr_waiting += row.at("state") == "waiting";
      nr_others += row.at("state") != "running" && row.at("state") != "waiting";
      nr_elsewhere += !row.at("cpus").empty() && row.at("cpus") != "1";
    }
  EXPECT_GT(nr_running, 100u);
  EXPECT_GT(nr_waiting, nr_running) << "three share it";
  EXPECT_LE(nr_elsewhere, 6u) << "before it was pinned";
  EXPECT_LT(nr_others * 20, nr_running + nr_waiting) << "as they begin and end";
}

// One thread that is sent from CPU to CPU; and who is pinned never moves.
TEST(State, WhoIsSentToOtherCpusHasMigrated) {
  const Recorded recorded = RecordWorkload({"wanderer", "200"});
  ASSERT_EQ(recorded.truth.TgidsOf("wanderer").size(), 1u);
  uint64_t migrations = 0, sent = 0;
  std::map<std::string, uint64_t> by_cpu;
  for (const auto& line : recorded.truth.lines)
    if (line.key == "wanderer") sent = line.values.at(0);
  const std::string tgid = std::to_string(recorded.truth.TgidsOf("wanderer").at(0));
  for (const auto& row : recorded.csv.rows) {
    if (row.at("tgid") != tgid) continue;
    migrations += Number(row.at("migrations"));
    if (!row.at("main_cpu").empty()) by_cpu[row.at("main_cpu")]++;
  }
  EXPECT_GT(sent, 50u);
  EXPECT_GE(migrations, sent * 9 / 10) << "some are in front of the first slot";
  EXPECT_LE(migrations, sent + 3) << "and hardly any more";
  EXPECT_GE(by_cpu.size(), 2u);
}

}  // namespace
}  // namespace slotscope
