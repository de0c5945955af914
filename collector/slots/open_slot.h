// SPDX-License-Identifier: MIT
// A slot that is still being filled.
#pragma once

#include <cstdint>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

// A process in an open slot. Everything in it adds up, so it does not matter in which order pieces come.
struct alignas(64) OpenRow {
  Sums sums = {};
  uint32_t process = 0;
  uint32_t rmid = 0;        // the largest: a process has one, or got it within the slot
  uint32_t unmeasured = 0;  // of any piece
  uint32_t flags = 0;       // SS_MEASURE_* of all pieces
};

// Where a process has its row: [tracker id] -> index into rows + 1, or 0.
using RowIndex = std::vector<uint32_t>;

struct OpenSlot {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  std::vector<OpenRow> rows;
  RowIndex row_of;           // empty: see OpenSlots
  OpenSlot* next = nullptr;  // the one behind it, if it is open
  uint64_t lost_ns = 0;
  uint64_t offline_ns = 0;
};

}  // namespace slotscope
