// SPDX-License-Identifier: MIT
#include "slots/open_slots.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <utility>

#include "heap.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

// Slots that are open at once, each with as many rows, and retired in order. first: the first's process.
uint64_t Fill(OpenSlots* slots, uint64_t ms, size_t nr_slots, uint32_t nr_rows, uint32_t first = 0) {
  for (size_t i = 0; i < nr_slots; i++) {
    OpenSlot* slot = slots->At((ms + i) * kMs, 0);
    bool is_new;
    for (uint32_t process = first; process < first + nr_rows; process++)
      slots->RowOf(slot, process, &is_new);
  }
  while (!slots->empty()) slots->PopFront();
  return ms + nr_slots;
}

TEST(OpenSlots, WhatAStallAndABurstTookGoesBack) {
  OpenSlots slots(kMs);
  uint64_t ms = Fill(&slots, 1000, 1, 1);
  for (int i = 0; i < 3000; i++) ms = Fill(&slots, ms, 4, 4);
  const size_t usual = HeapBytesInUse();
  if (usual == 0) GTEST_SKIP() << "another allocator";
  ms = Fill(&slots, ms, 200, 2000);
  EXPECT_GT(HeapBytesInUse(), usual + (20u << 20));
  for (int i = 0; i < 3000; i++) ms = Fill(&slots, ms, 4, 4);
  EXPECT_LT(HeapBytesInUse(), usual + (1u << 20));
}

TEST(OpenSlots, FewOfLargeIdsTakeNoLongIndexesAndAreFound) {
  OpenSlots slots(kMs);
  uint64_t ms = Fill(&slots, 1000, 64, 4);
  const size_t usual = HeapBytesInUse();
  if (usual == 0) GTEST_SKIP() << "another allocator";
  ms = Fill(&slots, ms, 64, 8, 50'000);
  EXPECT_LT(HeapBytesInUse(), usual + (1u << 20));
  ms = Fill(&slots, ms, 64, 2'000, 50'000);
  EXPECT_GT(HeapBytesInUse(), usual + (20u << 20));
  for (int i = 0; i < 20'000; i++) ms = Fill(&slots, ms, 4, 8, 50'000);
  EXPECT_LT(HeapBytesInUse(), usual + (2u << 20));
}

// Of thousands that are open, whatever ids come late.
TEST(OpenSlots, IndexesKeepToTheirBudget) {
  OpenSlots slots(kMs);
  const size_t before = HeapBytesInUse();
  if (before == 0) GTEST_SKIP() << "another allocator";
  bool is_new;
  for (uint64_t ms = 1000; ms < 6000; ms++) slots.RowOf(slots.At(ms * kMs, 0), 1, &is_new);
  OpenSlot* last = slots.At(6000 * kMs, 0);
  for (uint32_t process = 30'000; process < 30'020; process++) slots.RowOf(last, process, &is_new);
  for (uint64_t ms = 1000; ms < 6000; ms++) slots.RowOf(slots.At(ms * kMs, 0), 70, &is_new);
  EXPECT_LT(HeapBytesInUse(), before + (40u << 20));
}

// Against a map, while other slots have indexes and lose them.
TEST(OpenSlots, EachProcessHasOneRowWhateverItsId) {
  std::mt19937 random(1);
  OpenSlots slots(kMs);
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> rows;  // start of the slot, process
  const std::array<uint32_t, 4> largest = {10, 300, 5'000, 1'000'000};
  uint64_t first_ms = 1000;
  for (int i = 0; i < 200'000; i++) {
    if (i % 50 == 49 && !slots.empty()) {
      first_ms = slots.front().start_ns / kMs + 1;
      slots.PopFront();
    }
    OpenSlot* slot = slots.At((first_ms + random() % 40) * kMs, first_ms * kMs);
    ASSERT_NE(slot, nullptr);
    // Now few are far, and then many.
    const uint32_t process = random() % largest[random() % (i / 20'000 % 2 ? 4 : 3)];
    const auto known = rows.find({slot->start_ns, process});
    if (random() % 2) {
      OpenRow* row = slots.FindRow(slot, process);
      ASSERT_EQ(row != nullptr, known != rows.end());
      if (row) {
        ASSERT_EQ(row - slot->rows.data(), known->second);
      }
    } else {
      bool is_new;
      OpenRow* row = slots.RowOf(slot, process, &is_new);
      ASSERT_EQ(is_new, known == rows.end());
      ASSERT_EQ(row->process, process);
      const auto index = static_cast<uint32_t>(row - slot->rows.data());
      ASSERT_EQ(rows.emplace(std::pair(slot->start_ns, process), index).first->second, index);
    }
  }
}

}  // namespace
}  // namespace slotscope
