// SPDX-License-Identifier: MIT
// Totals of more processes than are kept: none of their time is gone, and who ran longest is named.
#include "sinks/top_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace slotscope {
namespace {

Row RowOf(int32_t tgid, uint32_t place, uint64_t cpu_ns) {
  Row row;
  row.process = place;
  row.key = {tgid, 1};
  row.sums[kCpuNs] = cpu_ns;
  return row;
}

uint64_t SumNs(const std::vector<Total>& totals) {
  uint64_t ns = 0;
  for (const Total& total : totals) ns += total.sums[kCpuNs];
  return ns;
}

TEST(TopTable, OfManyProcessesThoseWithTheMostTimeAreNamedAndNoTimeIsGone) {
  constexpr int kProcesses = 50'000;
  TopTable table;
  uint64_t ns = 0;
  for (int i = 1; i <= kProcesses; i++) {  // one behind the other, in the same place
    Slot slot;
    const uint64_t cpu_ns = i % 100 == 0 ? 1'000'000u + static_cast<uint64_t>(i) : 1'000u;
    slot.rows.push_back(RowOf(i, 7, cpu_ns));
    ns += cpu_ns;
    table.OnSlot(slot);
  }
  const std::vector<Total> totals = table.Sorted();
  EXPECT_LT(totals.size(), 5'000u);
  EXPECT_EQ(SumNs(totals), ns);
  for (int i = 100; i <= kProcesses; i += 100) {
    const auto named =
        std::find_if(totals.begin(), totals.end(), [&](const Total& one) { return one.key.tgid == i; });
    ASSERT_NE(named, totals.end()) << i;
    EXPECT_EQ(named->sums[kCpuNs], 1'000'000u + static_cast<uint64_t>(i));
  }
  const auto other = std::find_if(totals.begin(), totals.end(),
                                  [](const Total& one) { return one.kind == RowKind::kOther; });
  ASSERT_NE(other, totals.end());
  EXPECT_GT(other->nr_slots, 45'000u);
}

TEST(TopTable, ThoseBeyondThePlacesAreNamedAsWell) {
  TopTable table;
  Slot slot;
  for (int i = 1; i <= 3; i++) slot.rows.push_back(RowOf(i, 1'000'000u + static_cast<uint32_t>(i), 5));
  table.OnSlot(slot);
  table.OnSlot(slot);
  const std::vector<Total> totals = table.Sorted();
  ASSERT_EQ(totals.size(), 3u);
  for (const Total& total : totals) EXPECT_EQ(total.sums[kCpuNs], 10u);
}

}  // namespace
}  // namespace slotscope
