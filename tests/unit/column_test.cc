// SPDX-License-Identifier: MIT
#include "slots/column.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "slots/slot.h"

namespace slotscope {
namespace {

constexpr const char* kPage = "doc/columns.md";
constexpr const char* kUpdate = "SLOTSCOPE_UPDATE";  // in the environment: the page is written anew

std::string RowOf(const Column& column) {
  return fmt::format("| `{}` | {} | {} | {} |\n", column.name,
                     kUnitNames[static_cast<size_t>(column.unit)], column.meaning,
                     column.empty.empty() ? "never" : column.empty);
}

std::string Page() {
  std::string text =
      "# The columns of slots.csv\n\n"
      "A row is a process in a slot, or one of the kinds that are none. **An empty field means \"not "
      "measured\", never 0.** Lines\nwith `#` in front of the rows say what was recorded, those at the "
      "end count everything that was lost or late. Names are\nescaped as `\\xHH`, so a line is a row "
      "and "
      "is never quoted. New columns come at the end.\n\n"
      "| column | unit | meaning | empty if |\n|---|---|---|---|\n";
  for (const Column& column : kSlotColumns) text += RowOf(column);
  text +=
      "\nA recording that was asked for more perf counters (`--events`) has these as well, up to the "
      "last "
      "one that was asked for:\n\n"
      "| column | unit | meaning | empty if |\n|---|---|---|---|\n";
  for (const Column& column : kMoreColumns) text += RowOf(column);
  return text +
         "\nThis page is made of the tables in `collector/slots/column.h` and "
         "`collector/base/perf_counter.h`.\n";
}

TEST(Column, ThePageIsOfTheTable) {
  if (std::getenv(kUpdate)) std::ofstream(kPage) << Page();
  std::ifstream file(kPage);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), Page()) << "write it anew with " << kUpdate << "=1, and look at the difference";
}

TEST(Column, EachHasItsNameAndItsPlaceAlone) {
  std::set<std::string_view> names;
  std::set<std::pair<RowPart, size_t>> places;
  std::vector<Column> all(kSlotColumns.begin(), kSlotColumns.end());
  all.insert(all.end(), kMoreColumns.begin(), kMoreColumns.end());
  for (const Column& column : all) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
    EXPECT_TRUE(places.insert({column.part, column.id}).second) << column.name;
    EXPECT_EQ(ColumnName(column.part, column.id), column.name);
    EXPECT_FALSE(column.meaning.empty()) << column.name;
    EXPECT_EQ(column.unit == Unit::kNs && column.is_value(),
              column.is_value() && column.name.ends_with("_ns"));
    EXPECT_EQ(column.unit == Unit::kBytes, column.name.ends_with("_bytes")) << column.name;
    EXPECT_EQ(column.unit == Unit::kPercent, column.name.ends_with("_pct")) << column.name;
  }
  EXPECT_EQ(ColumnName(RowPart::kSums, kEnabledNs), "") << "it is in mux_pct";
  for (size_t i = 0; i < SS_NR_COUNTERS; i++)
    EXPECT_EQ(ColumnName(RowPart::kSums, kCycles + i), kPerfCounters[i].name);
  for (size_t i = 0; i < SS_MAX_MORE; i++)
    EXPECT_EQ(ColumnName(RowPart::kMore, i), kPerfCounters[SS_NR_COUNTERS + i].name);
}

TEST(Column, AValueIsKnownWhereItsBitIsClear) {
  Slot slot;
  Row& row = slot.rows.emplace_back();
  for (const Column& column : kSlotColumns)
    if (column.is_value()) {
      EXPECT_EQ(ValueOf(slot, row, column).has_value(), column.part == RowPart::kSums) << column.name;
    }
  slot.rdt.resize(1);
  slot.gpu.resize(1);
  slot.waits.resize(1);
  slot.wait_causes = kAnyWaitCauses;
  row.beside = row.gpu = row.wait = 1;
  uint64_t value = 100;
  for (const Column& column : kSlotColumns) {
    if (!column.is_value() || column.part == RowPart::kWait) continue;
    uint32_t* unmeasured = &row.unmeasured;
    uint64_t* field = &row.sums[column.id % kNrAdditive];
    if (column.part == RowPart::kRdt) {
      unmeasured = &slot.rdt[0].unmeasured;
      field = &slot.rdt[0].values[column.id];
    } else if (column.part == RowPart::kGpu) {
      unmeasured = &slot.gpu[0].unmeasured;
      field = &slot.gpu[0].values[column.id];
    }
    *field = ++value;
    EXPECT_EQ(ValueOf(slot, row, column), value) << column.name;
    *unmeasured = 1u << column.id;
    EXPECT_EQ(ValueOf(slot, row, column), std::nullopt) << column.name;
    *unmeasured = ~*unmeasured;
    EXPECT_EQ(ValueOf(slot, row, column), value) << column.name;
    *unmeasured = 0;
  }
}

TEST(Column, WaitingIsKnownWhereItWasTold) {
  Slot slot;
  Row& row = slot.rows.emplace_back();
  const auto others = [&] { return ValueOf(slot, row, ColumnOf("wait_others_ns")); };
  EXPECT_EQ(others(), std::nullopt);
  slot.wait_causes = kAnyWaitCauses;
  EXPECT_EQ(others(), 0u) << "it has not waited";
  slot.waits.resize(2);
  slot.waits[1].ns = {5, 6, 7, 8, 9, 10};
  slot.waits[1].earlier_ns = 11;
  row.wait = 2;
  EXPECT_EQ(others(), 5u);
  EXPECT_EQ(ValueOf(slot, row, ColumnOf("wait_unknown_ns")), 10u);
  EXPECT_EQ(ValueOf(slot, row, ColumnOf("wait_earlier_ns")), 11u);
  EXPECT_EQ(ValueOf(slot, row, ColumnOf("wait_throttled_ns")), std::nullopt);
  slot.wait_causes |= 1u << kWaitThrottled;
  EXPECT_EQ(ValueOf(slot, row, ColumnOf("wait_throttled_ns")), 7u);
  row.kind = RowKind::kLost;
  EXPECT_EQ(others(), std::nullopt);
}

TEST(Column, ASumIsUnknownIfOneOfItsRowsIs) {
  constexpr ColumnList<2> kTwo = {&ColumnOf("cpu_ns"), &ColumnOf("mbm_total_bytes")};
  Slot slot;
  slot.rdt.resize(1);
  slot.rdt[0].values[kMbmTotal] = 7;
  Row& row = slot.rows.emplace_back();
  row.sums[kCpuNs] = 5;
  row.beside = 1;
  ColumnValues<2> sum;
  AddValues(slot, row, kTwo, &sum);
  EXPECT_EQ(sum.values, (std::array<uint64_t, 2>{5, 7}));
  EXPECT_EQ(sum.unmeasured, 0u);
  row.beside = 0;
  AddValues(slot, row, kTwo, &sum);
  AddValues(slot, row, kTwo, &sum);
  EXPECT_EQ(sum.values[0], 15u);
  EXPECT_EQ(sum.unmeasured, 1u << 1);
}

}  // namespace
}  // namespace slotscope
