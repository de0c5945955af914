// SPDX-License-Identifier: MIT
#include "slots/fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace slotscope {
namespace {

Row MakeRow(RowKind kind, int32_t tgid, const char* comm, uint64_t cpu_ns, bool followed = false) {
  Row row;
  row.kind = kind;
  row.key = {tgid, 1};
  row.named = true;
  row.followed = followed;
  strncpy(row.comm.data(), comm, row.comm.size() - 1);
  row.sums = {cpu_ns, 1, 2, 1, 3 * cpu_ns, 4 * cpu_ns, 5, cpu_ns, cpu_ns / 2};
  return row;
}

Slot MakeSlot() {
  Slot slot;
  slot.start_ns = 1000;
  slot.rows = {
      MakeRow(RowKind::kUser, 1, "init", 100),
      MakeRow(RowKind::kUser, 2, "bash", 500),
      MakeRow(RowKind::kIdle, 0, "idle", 9000),
      MakeRow(RowKind::kKernel, 3, "kworker", 300),
      MakeRow(RowKind::kUnassigned, 4, "bash", 200, true),
      MakeRow(RowKind::kUser, 5, "bash2", 400, true),
      MakeRow(RowKind::kLost, 0, "", 50),
      MakeRow(RowKind::kOffline, 0, "", 60),
  };
  return slot;
}

Sums SumOf(const Slot& slot) {
  Sums sum = {};
  for (const Row& row : slot.rows) Add(&sum, row.sums);
  return sum;
}

// "1 2 idle lost": processes by tgid, the rest by kind.
std::string RowsOf(const Slot& slot) {
  std::string text;
  for (const Row& row : slot.rows) {
    bool process =
        row.kind == RowKind::kUser || row.kind == RowKind::kKernel || row.kind == RowKind::kUnassigned;
    if (!text.empty()) text += ' ';
    text += process ? std::to_string(row.key.tgid) : kRowKindNames[static_cast<size_t>(row.kind)];
  }
  return text;
}

TEST(Fold, KeepsWhatIsWantedAndFoldsTheRestIntoOneLastRow) {
  const struct {
    const char* what;
    FoldOptions options;  // tgids, comms, followed_only, top
    const char* rows;
  } cases[] = {
      {"nothing asked", {{}, {}, false, 0}, "1 2 idle 3 4 5 lost offline"},
      {"one pid", {{2}, {}, false, 0}, "2 idle lost offline other"},
      {"two pids", {{5, 1}, {}, false, 0}, "1 idle 5 lost offline other"},
      {"a pid that is not there", {{99}, {}, false, 0}, "idle lost offline other"},
      {"tgid 0 is no process", {{0}, {}, false, 0}, "idle lost offline other"},
      {"everybody by pid", {{1, 2, 3, 4, 5}, {}, false, 0}, "1 2 idle 3 4 5 lost offline"},
      {"name, exactly", {{}, {"bash"}, false, 0}, "2 idle 4 lost offline other"},
      {"part of a name", {{}, {"bas"}, false, 0}, "idle lost offline other"},
      {"pid or name", {{1}, {"kworker"}, false, 0}, "1 idle 3 lost offline other"},
      {"followed", {{}, {}, true, 0}, "idle 4 5 lost offline other"},
      {"followed or pid", {{1}, {}, true, 0}, "1 idle 4 5 lost offline other"},
      {"top 1", {{}, {}, false, 1}, "2 idle lost offline other"},
      {"top 3", {{}, {}, false, 3}, "2 idle 3 5 lost offline other"},
      {"top of all", {{}, {}, false, 5}, "1 2 idle 3 4 5 lost offline"},
      {"top of more than all", {{}, {}, false, 100}, "1 2 idle 3 4 5 lost offline"},
      {"top of the named ones", {{}, {"bash", "init"}, false, 2}, "2 idle 4 lost offline other"},
      {"top of the followed ones", {{}, {}, true, 1}, "idle 5 lost offline other"},
  };
  for (const auto& c : cases) {
    Slot slot = MakeSlot();
    FoldSlot(c.options, &slot);
    EXPECT_EQ(RowsOf(slot), c.rows) << c.what;
    EXPECT_EQ(SumOf(slot), SumOf(MakeSlot())) << c.what;
    EXPECT_EQ(slot.start_ns, 1000u) << c.what;
  }
}

TEST(Fold, KeptRowsKeepTheirContent) {
  Slot slot = MakeSlot();
  FoldSlot({{5, 2}, {}, false, 0}, &slot);
  EXPECT_EQ(RowsOf(slot), "2 idle 5 lost offline other");
  EXPECT_STREQ(slot.rows[0].comm.data(), "bash");
  EXPECT_EQ(slot.rows[0].sums, MakeSlot().rows[1].sums);
}

TEST(Fold, OtherIsTheSumOfWhatWasFolded) {
  Slot slot = MakeSlot();
  FoldSlot({{2}, {}, false, 0}, &slot);
  Sums expected = {};
  for (const Row& row : MakeSlot().rows)
    if (row.key.tgid == 1 || row.key.tgid > 2) Add(&expected, row.sums);
  EXPECT_EQ(slot.rows.back().kind, RowKind::kOther);
  EXPECT_EQ(slot.rows.back().sums, expected);
  EXPECT_FALSE(slot.rows.back().named);
}

TEST(Fold, OtherLacksWhatAnyOfItsRowsLacks) {
  Slot slot = MakeSlot();
  slot.rows[0].unmeasured = 1u << kCycles;
  slot.rows[1].unmeasured = 1u << kWaitNs;  // kept
  slot.rows[3].unmeasured = 1u << kLlcMisses;
  FoldSlot({{2}, {}, false, 0}, &slot);
  EXPECT_EQ(slot.rows.back().unmeasured, 1u << kCycles | 1u << kLlcMisses);
  EXPECT_EQ(slot.rows.front().unmeasured, 1u << kWaitNs);
}

TEST(Fold, OtherHasTheSumOfWhatRdtSaysAndTheWorstStatus) {
  Slot slot = MakeSlot();
  auto give = [&](size_t row, const RdtRow& rdt) {
    slot.rdt.push_back(rdt);
    slot.rows[row].beside = static_cast<uint32_t>(slot.rdt.size());
  };
  give(0, {{10, 1, 4096}, 0, SS_RDT_OK});
  give(1, {{500, 50, 8192}, 1u << kMbmTotal, SS_RDT_ERROR});  // kept
  give(3, {{0, 0, 0}, 1u << kMbmLocal, SS_RDT_SKIPPED});
  give(4, {{30, 3, 64}, 0, SS_RDT_BASELINE});
  give(5, {{7, 7, 0}, 0, SS_RDT_OK});
  FoldSlot({{2}, {}, false, 0}, &slot);
  const RdtRow* rdt = slot.RdtOf(slot.rows.back());
  ASSERT_NE(rdt, nullptr);
  const RdtRow& other = *rdt;
  EXPECT_EQ(other.values, (std::array<uint64_t, kNrRdtValues>{47, 11, 4160}));
  EXPECT_EQ(other.unmeasured, 1u << kMbmLocal);
  EXPECT_EQ(other.status, static_cast<uint32_t>(SS_RDT_SKIPPED));
  EXPECT_EQ(slot.RdtOf(slot.rows.front())->values[0], 500u);
}

TEST(Fold, OtherHasTheSumOfAllPerfCounters) {
  Slot slot = MakeSlot();
  for (size_t i = 0; i < slot.rows.size(); i++) {
    MoreRow row;
    row.sums[1] = {10 * (i + 1), 100, 50 + i};
    row.unmeasured = i == 3 ? 1u << 4 : i == 1 ? 1u << 2 : 0;
    slot.more.push_back(row);
    slot.rows[i].beside = static_cast<uint32_t>(i + 1);
  }
  MoreRow expected;
  for (size_t i = 0; i < slot.rows.size(); i++)
    if (IsProcess(slot.rows[i].kind) && slot.rows[i].key.tgid != 2) {
      AddCounters(&expected.sums, slot.more[i].sums);
      expected.unmeasured |= slot.more[i].unmeasured;
    }
  FoldSlot({{2}, {}, false, 0}, &slot);
  const MoreRow* other = slot.MoreOf(slot.rows.back());
  ASSERT_NE(other, nullptr);
  EXPECT_GT(other->sums[1].delta, 0u);
  EXPECT_EQ(other->sums[1].delta, expected.sums[1].delta);
  EXPECT_EQ(other->sums[1].enabled_ns, expected.sums[1].enabled_ns);
  EXPECT_EQ(other->sums[1].running_ns, expected.sums[1].running_ns);
  EXPECT_EQ(other->unmeasured, expected.unmeasured);
}

TEST(Fold, WithoutRdtOtherHasNone) {
  Slot slot = MakeSlot();
  FoldSlot({{2}, {}, false, 0}, &slot);
  EXPECT_EQ(slot.rows.back().beside, 0u);
  EXPECT_TRUE(slot.rdt.empty());
}

TEST(Fold, TopKeepsExactlySoManyWhenTheyTie) {
  for (size_t top = 1; top <= 6; top++) {
    Slot slot;
    for (int32_t tgid : {1, 2, 3, 4, 5, 6})
      slot.rows.push_back(MakeRow(RowKind::kUser, tgid, "same", tgid == 4 ? 200 : 100));
    FoldSlot({{}, {}, false, top}, &slot);
    auto nr_kept = std::count_if(slot.rows.begin(), slot.rows.end(),
                                 [](const Row& row) { return row.kind == RowKind::kUser; });
    EXPECT_EQ(static_cast<size_t>(nr_kept), top);
    EXPECT_TRUE(std::any_of(slot.rows.begin(), slot.rows.end(), [](const Row& row) {
      return row.key.tgid == 4;
    })) << "the largest is among them";
  }
}

TEST(Fold, TopKeepsRowsOfNoTimeToo) {
  Slot slot;
  for (int32_t tgid : {1, 2, 3}) slot.rows.push_back(MakeRow(RowKind::kUser, tgid, "zero", 0));
  FoldSlot({{}, {}, false, 2}, &slot);
  EXPECT_EQ(RowsOf(slot), "1 2 other");
}

TEST(Fold, EmptySlotStaysEmpty) {
  Slot slot;
  FoldSlot({{1}, {}, false, 3}, &slot);
  EXPECT_TRUE(slot.rows.empty());
}

TEST(Fold, SumsStayInRandomSlots) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; i++) {
    Slot slot;
    size_t nr_rows = random() % 40;
    for (size_t j = 0; j < nr_rows; j++)
      slot.rows.push_back(MakeRow(static_cast<RowKind>(random() % 6),
                                  static_cast<int32_t>(random() % 20), random() % 2 ? "a" : "b",
                                  random() % 5, random() % 2));
    FoldOptions options;
    if (random() % 2) options.tgids = {static_cast<int32_t>(random() % 20)};
    if (random() % 2) options.comms = {"a"};
    options.followed_only = random() % 2;
    options.top = random() % 6;
    Sums before = SumOf(slot);
    FoldSlot(options, &slot);
    ASSERT_EQ(SumOf(slot), before);
    size_t nr_processes = 0, nr_other = 0;
    for (const Row& row : slot.rows) {
      nr_processes +=
          row.kind == RowKind::kUser || row.kind == RowKind::kKernel || row.kind == RowKind::kUnassigned;
      nr_other += row.kind == RowKind::kOther;
    }
    ASSERT_LE(nr_other, 1u);
    if (options.top) {
      ASSERT_LE(nr_processes, options.top);
    }
  }
}

TEST(Fold, WhoIsInAGroupIsKept) {
  Slot slot = MakeSlot();
  ProcessIdentity bash;
  bash.key = {4, 1};
  bash.cgroup = std::make_shared<const Cgroup>(ParseCgroup("/system.slice/bash.service"));
  slot.identities.push_back(bash);
  FoldOptions options;
  options.tgids = {1};
  options.groups.units = {"bash"};
  GroupMembers members(options.groups);
  members.OnSlot(slot);
  const Sums before = SumOf(slot);
  FoldSlot(options, &slot, &members);
  EXPECT_EQ(RowsOf(slot), "1 idle 4 lost offline other");
  EXPECT_EQ(SumOf(slot), before);
  Slot without = MakeSlot();
  FoldSlot(options, &without);
  EXPECT_EQ(RowsOf(without), "1 idle lost offline other");
}

}  // namespace
}  // namespace slotscope
