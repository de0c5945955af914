// SPDX-License-Identifier: MIT
#include "slots/open_slots.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Slots that are open at once, each with as many rows, and retired in order.
uint64_t Fill(OpenSlots* slots, uint64_t ms, size_t nr_slots, uint32_t nr_rows) {
  for (size_t i = 0; i < nr_slots; i++) {
    OpenSlot* slot = slots->At((ms + i) * kMs, 0);
    bool is_new;
    for (uint32_t process = 0; process < nr_rows; process++) slots->RowOf(slot, process, &is_new);
  }
  while (!slots->empty()) slots->PopFront();
  return ms + nr_slots;
}

TEST(OpenSlots, WhatAStallAndABurstTookGoesBack) {
  OpenSlots slots(kMs);
  uint64_t ms = Fill(&slots, 1000, 1, 1);
  for (int i = 0; i < 3000; i++) ms = Fill(&slots, ms, 4, 4);
  const size_t usual = BytesInUse();
  if (usual == 0) GTEST_SKIP() << "another allocator";
  ms = Fill(&slots, ms, 200, 2000);
  EXPECT_GT(BytesInUse(), usual + (20u << 20));
  for (int i = 0; i < 3000; i++) ms = Fill(&slots, ms, 4, 4);
  EXPECT_LT(BytesInUse(), usual + (1u << 20));
}

}  // namespace
}  // namespace slotscope
