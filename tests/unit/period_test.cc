// SPDX-License-Identifier: MIT
#include "slots/period.h"

#include <gtest/gtest.h>

#include "sinks/period_sink.h"
#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kS = 1000 * kMs;

Row RowOf(int32_t tgid, uint32_t id, uint64_t cpu_ns, uint64_t wait_ns = 0) {
  Row row;
  row.key = {tgid, 1};
  row.process = id;
  row.sums[kCpuNs] = cpu_ns;
  row.sums[kWaitNs] = wait_ns;
  return row;
}

Row KindRow(RowKind kind, uint64_t cpu_ns) {
  Row row = RowOf(0, 0, cpu_ns);
  row.key = {};
  row.kind = kind;
  return row;
}

Slot SlotAt(uint64_t start_ns, std::vector<Row> rows, int64_t unix_offset_ns = 0) {
  Slot slot;
  slot.start_ns = start_ns;
  slot.end_ns = slot.start_ns + kMs;
  slot.unix_offset_ns = unix_offset_ns;
  slot.rows = std::move(rows);
  return slot;
}

// The seconds that these slots make.
std::vector<Slot> SecondsOf(const std::vector<Slot>& slots) {
  PeriodBuilder builder(1);
  std::vector<Slot> seconds;
  const Slot* finished;
  for (const Slot& slot : slots)
    if (builder.Add(slot, &finished)) seconds.push_back(*finished);
  if (const Slot* last = builder.Finish()) seconds.push_back(*last);
  EXPECT_EQ(builder.Finish(), nullptr);
  return seconds;
}

TEST(SecondTest, IsTheSumOfItsSlotsAndKnowsTheWorst) {
  const auto seconds = SecondsOf({SlotAt(10 * kS, {RowOf(7, 0, 5, 90), RowOf(8, 1, 1)}),
                                  SlotAt(10 * kS + kMs, {RowOf(7, 0, 30, 2)}),
                                  SlotAt(10 * kS + 2 * kMs, {RowOf(7, 0, 20, 3), RowOf(8, 1, 2)})});
  ASSERT_EQ(seconds.size(), 1u);
  const Slot& second = seconds[0];
  EXPECT_EQ(second.start_ns, 10 * kS);
  ASSERT_EQ(second.rows.size(), 2u);
  EXPECT_EQ(second.rows[0].sums[kCpuNs], 55u);
  EXPECT_EQ(second.rows[0].sums[kWaitNs], 95u);
  EXPECT_EQ(second.rows[1].sums[kCpuNs], 3u);
  ASSERT_EQ(second.worst.size(), 2u);
  EXPECT_EQ(second.nr_slots, 3u) << "of the second, not those with a row";
  EXPECT_EQ(second.worst[0].cpu.value, 30u);
  EXPECT_EQ(second.worst[0].cpu.at_ns, 10 * kS + kMs);
  EXPECT_EQ(second.worst[0].wait.value, 90u);
  EXPECT_EQ(second.worst[0].wait.at_ns, 10 * kS);
  EXPECT_EQ(second.worst[1].cpu.at_ns, 10 * kS + 2 * kMs);
}

TEST(SecondTest, EndsWithTheSecondOfUnixTime) {
  constexpr int64_t kOffset = 1'795'000'000'400'000'000;  // 400 ms into a second
  std::vector<Slot> slots;
  for (uint64_t ms = 0; ms < 2000; ms++) slots.push_back(SlotAt(ms * kMs, {RowOf(7, 0, 1)}, kOffset));
  const auto seconds = SecondsOf(slots);
  ASSERT_EQ(seconds.size(), 3u);
  EXPECT_EQ(seconds[0].nr_slots, 600u);
  EXPECT_EQ(seconds[1].start_ns, 600 * kMs);
  EXPECT_EQ(seconds[1].nr_slots, 1000u);
  EXPECT_EQ(seconds[2].nr_slots, 400u);
  // Also before 1970.
  EXPECT_EQ(SecondsOf({SlotAt(0, {RowOf(7, 0, 1)}, -1), SlotAt(kMs, {RowOf(7, 0, 1)}, -1)}).size(), 2u);
}

TEST(SecondTest, AnIdThatIsAnothersIsAnotherRow) {
  const auto seconds =
      SecondsOf({SlotAt(0, {RowOf(7, 0, 1), RowOf(9, 1, 10)}),
                 SlotAt(kMs, {RowOf(8, 0, 2), RowOf(9, 1, 10)}), SlotAt(kS, {RowOf(9, 1, 5)})});
  ASSERT_EQ(seconds.size(), 2u);
  ASSERT_EQ(seconds[0].rows.size(), 3u);
  EXPECT_EQ(seconds[0].rows[0].key.tgid, 7);
  EXPECT_EQ(seconds[0].rows[1].key.tgid, 8);
  EXPECT_EQ(seconds[0].rows[1].sums[kCpuNs], 2u);
  EXPECT_EQ(seconds[0].rows[2].sums[kCpuNs], 20u);
  ASSERT_EQ(seconds[1].rows.size(), 1u);
  EXPECT_EQ(seconds[1].rows[0].sums[kCpuNs], 5u) << "nothing of the second before";
}

TEST(SecondTest, KindsAreBehindTheProcesses) {
  const auto seconds =
      SecondsOf({SlotAt(0, {KindRow(RowKind::kIdle, 1), KindRow(RowKind::kLost, 2)}),
                 SlotAt(kMs, {KindRow(RowKind::kIdle, 1), RowOf(7, 0, 4), KindRow(RowKind::kLost, 2),
                              KindRow(RowKind::kOther, 3)})});
  ASSERT_EQ(seconds[0].rows.size(), 4u);
  EXPECT_EQ(seconds[0].rows[0].kind, RowKind::kIdle);
  EXPECT_EQ(seconds[0].rows[0].sums[kCpuNs], 2u);
  EXPECT_EQ(seconds[0].rows[1].key.tgid, 7);
  EXPECT_EQ(seconds[0].rows[2].kind, RowKind::kLost);
  EXPECT_EQ(seconds[0].rows[2].sums[kCpuNs], 4u);
  EXPECT_EQ(seconds[0].rows[3].kind, RowKind::kOther);
}

TEST(SecondTest, TrafficIsASumOfWhatWasMeasuredAndHeldIsTheLast) {
  const auto with_rdt = [](uint64_t start_ns, uint64_t bytes, uint64_t held, uint32_t unmeasured,
                           uint32_t status) {
    Slot slot = SlotAt(start_ns, {RowOf(7, 0, 1)});
    slot.rdt.push_back({{bytes, bytes / 2, held}, unmeasured, status});
    slot.rows[0].beside = 1;
    return slot;
  };
  const auto seconds =
      SecondsOf({with_rdt(0, 100, 1000, 0, SS_RDT_OK), with_rdt(kMs, 999, 999, 7, SS_RDT_TAINTED),
                 with_rdt(2 * kMs, 10, 300, 0, SS_RDT_OK)});
  const RdtRow* rdt = seconds[0].RdtOf(seconds[0].rows[0]);
  ASSERT_NE(rdt, nullptr);
  EXPECT_EQ(rdt->values[kMbmTotal], 110u);
  EXPECT_EQ(rdt->values[kMbmLocal], 55u);
  EXPECT_EQ(rdt->values[kLlcOccupancy], 300u);
  EXPECT_EQ(rdt->unmeasured, 0u);
  EXPECT_EQ(rdt->status, static_cast<uint32_t>(SS_RDT_TAINTED)) << "it is a part of it";
  const auto never = SecondsOf({with_rdt(0, 1, 1, 7, SS_RDT_BASELINE)});
  EXPECT_EQ(never[0].RdtOf(never[0].rows[0])->unmeasured, 7u);
}

TEST(SecondTest, OfAGpuLaunchesAreASumAndMemoryIsTheLast) {
  const auto with_gpu = [](uint64_t start_ns, uint64_t held, uint64_t launches, Straggle straggle) {
    Slot slot = SlotAt(start_ns, {RowOf(7, 0, 1)});
    GpuRow gpu;
    gpu.values[kGpuMemBytes] = held;
    gpu.values[kGpuLaunches] = launches;
    gpu.straggle = straggle;
    slot.gpu.push_back(gpu);
    slot.rows[0].gpu = 1;
    return slot;
  };
  const auto seconds = SecondsOf({with_gpu(0, 500, 3, Straggle::kInitial), SlotAt(kMs, {RowOf(7, 0, 1)}),
                                  with_gpu(2 * kMs, 400, 4, Straggle::kSustained)});
  ASSERT_EQ(seconds[0].gpu.size(), 1u);
  EXPECT_EQ(seconds[0].gpu[0].values[kGpuMemBytes], 400u);
  EXPECT_EQ(seconds[0].gpu[0].values[kGpuLaunches], 7u);
  EXPECT_EQ(seconds[0].gpu[0].straggle, Straggle::kSustained);
}

// Minutes that are made of seconds are those that are made of slots.
TEST(PeriodTest, OfSecondsAreThoseOfSlots) {
  constexpr int64_t kOffset = 1'795'000'000'400'000'000;
  PeriodBuilder seconds(1), of_seconds(60), of_slots(60);
  std::vector<Slot> made, expected;
  const Slot* finished;
  const auto add = [&](PeriodBuilder* builder, const Slot& slot, std::vector<Slot>* to) {
    if (builder->Add(slot, &finished)) to->push_back(*finished);
  };
  for (uint64_t ms = 0; ms < 150'000; ms += 10) {
    Row row = RowOf(7, 0, 1 + ms % 977, ms % 701);
    row.nr_cpus = 1;
    row.main_cpu = static_cast<uint32_t>(ms % 977 / 10);
    Slot slot = SlotAt(ms * kMs, {row, RowOf(8 + static_cast<int32_t>(ms / 30'000), 1, 5)}, kOffset);
    slot.rdt.push_back({{ms, ms / 2, ms}, 0, SS_RDT_OK});
    slot.rows[0].beside = 1;
    add(&of_slots, slot, &expected);
    std::vector<Slot> second;
    add(&seconds, slot, &second);
    for (const Slot& one : second) add(&of_seconds, one, &made);
  }
  add(&of_seconds, *seconds.Finish(), &made);
  made.push_back(*of_seconds.Finish());
  expected.push_back(*of_slots.Finish());
  ASSERT_EQ(made.size(), expected.size());
  EXPECT_GE(made.size(), 3u);
  for (size_t i = 0; i < made.size(); i++) {
    EXPECT_EQ(made[i].start_ns, expected[i].start_ns);
    EXPECT_EQ(made[i].end_ns, expected[i].end_ns);
    EXPECT_EQ(made[i].nr_slots, expected[i].nr_slots);
    ASSERT_EQ(made[i].rows.size(), expected[i].rows.size());
    for (size_t k = 0; k < made[i].rows.size(); k++) {
      const Row &one = made[i].rows[k], &other = expected[i].rows[k];
      EXPECT_EQ(one.key, other.key);
      EXPECT_EQ(one.sums, other.sums);
      EXPECT_EQ(one.main_cpu, other.main_cpu);
      EXPECT_EQ(made[i].worst[k].cpu.value, expected[i].worst[k].cpu.value);
      EXPECT_EQ(made[i].worst[k].cpu.at_ns, expected[i].worst[k].cpu.at_ns);
      EXPECT_EQ(made[i].worst[k].wait.at_ns, expected[i].worst[k].wait.at_ns);
    }
    EXPECT_EQ(made[i].RdtOf(made[i].rows[0])->values, expected[i].RdtOf(expected[i].rows[0])->values);
  }
}

TEST(PeriodTest, WithTooManyRowsItIsCutShort) {
  PeriodBuilder minutes(60, 10);
  std::vector<Slot> made;
  const Slot* finished;
  for (uint64_t s = 0; s < 30; s++) {
    std::vector<Row> rows = {RowOf(1, 0, 1)};
    for (int32_t i = 0; i < 4; i++)
      rows.push_back(RowOf(100 + static_cast<int32_t>(s) * 4 + i, 1 + i, 7));
    if (minutes.Add(SlotAt(s * kS, std::move(rows)), &finished)) made.push_back(*finished);
  }
  made.push_back(*minutes.Finish());
  uint64_t nr_slots = 0, cpu_ns = 0;
  for (const Slot& minute : made) {
    EXPECT_LE(minute.rows.size(), 15u);
    nr_slots += minute.nr_slots;
    for (const Row& row : minute.rows) cpu_ns += row.sums[kCpuNs];
  }
  EXPECT_EQ(made.size(), 10u);
  EXPECT_EQ(nr_slots, 30u);
  EXPECT_EQ(cpu_ns, 30u * (1 + 4 * 7)) << "nothing is left out";
}

TEST(PeriodSinkTest, MinutesAreMadeOfSecondsAndNotOfSlots) {
  TextFile of_seconds, of_minutes;
  PeriodSink seconds(&of_seconds, 0, 0, kSecondsPeriod, nullptr);
  PeriodSink minutes(&of_minutes, 0, 0, kMinutesPeriod, &seconds);
  for (PeriodSink* sink : {&seconds, &minutes}) sink->WriteHeader({});
  EXPECT_NE(of_minutes.text.find("# table: minutes: each row is a sum over the slots of a minute"),
            std::string::npos);
  of_minutes.text.clear();
  for (uint64_t s = 0; s < 90; s++)
    for (PeriodSink* sink : {&seconds, &minutes}) sink->OnSlot(SlotAt(s * kS, {RowOf(7, 0, 2)}));
  for (PeriodSink* sink : {&seconds, &minutes}) {
    sink->EndSegment();
    sink->Flush();
  }
  EXPECT_EQ(seconds.Contents(), "90 rows");
  EXPECT_EQ(minutes.Contents(), "2 rows");
  EXPECT_EQ(of_minutes.text.find("0,0,7,1,,0,user,120,"), 0u) << of_minutes.text;
  EXPECT_NE(of_minutes.text.find("\n60000000000,60000000000,7,1,,0,user,60,"), std::string::npos);
}

TEST(PeriodSinkTest, WritesTheColumnsOfSlotsAndTheWorst) {
  TextFile file;
  PeriodSink sink(&file, 0, 0, kSecondsPeriod, nullptr);
  sink.WriteHeader({{"host", "h"}});
  EXPECT_NE(file.text.find("# host: h\n# table: seconds: "), std::string::npos);
  EXPECT_NE(file.text.find("gpu_no_work_asleep_ns,gpu_no_work_unknown_ns,gpu_launcher_ran_ns,"
                           "gpu_launcher_in_calls_ns,slots,worst_cpu_ns,worst_cpu_slot_ns,"
                           "worst_wait_ns,worst_wait_slot_ns\n"),
            std::string::npos);
  Row unknown_wait = RowOf(7, 0, 40, 9);
  unknown_wait.unmeasured = 1u << kWaitNs;
  sink.OnSlot(SlotAt(3 * kMs, {unknown_wait, RowOf(8, 1, 6, 5)}));
  sink.Flush();
  const size_t header = file.text.size();
  EXPECT_EQ(file.text.find("\n3000000,"), std::string::npos) << "it is not over";
  sink.EndSegment();
  sink.Flush();
  EXPECT_EQ(file.text.substr(header),
            "3000000,3000000,7,1,,0,user,40,,0,0,0,0,0,,,,,unsupported,,,,,,1000000,,,,,,,,,,,,,,,0,,,,,"
            ",,,,,,,,1,"
            "40,3000000,,\n"
            "3000000,3000000,8,1,,0,user,6,5,0,0,0,0,0,,,,,unsupported,,,,,,1000000,,,,,,,,,,,,,,,0,,,,,"
            ",,,,,,,,1,6,"
            "3000000,5,"
            "3000000\n");
  EXPECT_EQ(sink.Contents(), "2 rows");
}

}  // namespace
}  // namespace slotscope
