// SPDX-License-Identifier: MIT
// What both references write behind the counters of a row: the same in each, without RDT and GPU.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "slots/column.h"

namespace slotscope {

inline constexpr size_t kMuxColumn = static_cast<size_t>(&ColumnOf("mux_pct") - kSlotColumns.data());

constexpr bool IsSumBehindMux() {
  for (size_t i = kMuxColumn + 1; i < kSlotColumns.size(); i++)
    if (kSlotColumns[i].part == RowPart::kSums) return true;
  return false;
}
static_assert(!IsSumBehindMux(),
              "a sum there is a number: write it in both references, and cut the tail");

// From mux_pct to the end of the line.
constexpr auto MakeRowTail() {
  constexpr std::string_view kShare = "100.0", kStatus = "unsupported", kLength = "1000000";
  std::array<char,
             kSlotColumns.size() - kMuxColumn + kShare.size() + kStatus.size() + kLength.size() + 1>
      text = {};
  size_t size = 0;
  const auto put = [&](std::string_view what) {
    for (char c : what) text[size++] = c;
  };
  for (size_t i = kMuxColumn; i < kSlotColumns.size(); i++) {
    const Column& column = kSlotColumns[i];
    put(",");
    if (i == kMuxColumn) put(kShare);
    if (column.part == RowPart::kRdt && column.id == kRdtStatus) put(kStatus);
    if (&column == &ColumnOf("slot_ns")) put(kLength);  // both make slots of 1 ms
  }
  put("\n");
  return text;
}
inline constexpr auto kRowTail = MakeRowTail();

}  // namespace slotscope
