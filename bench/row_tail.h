// SPDX-License-Identifier: MIT
// What both references write behind the counters of a row: the same in each, without RDT and GPU.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "sinks/decimal.h"
#include "slots/column.h"
#include "slots/places.h"

namespace slotscope {

inline constexpr size_t kMuxColumn = static_cast<size_t>(&ColumnOf("mux_pct") - kSlotColumns.data());

// What is measured behind it, but for the slot's length: where it ran. (Migrations are not, without
// waits.)
inline constexpr size_t kCpusColumn = static_cast<size_t>(&ColumnOf("cpus") - kSlotColumns.data());
// And behind these three why a GPU had no work: nobody uses one.
inline constexpr size_t kNoWorkColumn =
    static_cast<size_t>(&ColumnOf("gpu_no_work_ns") - kSlotColumns.data());
static_assert(kNoWorkColumn == kCpusColumn + 3 && kSlotColumns[kNoWorkColumn].part == RowPart::kGpu &&
                  kSlotColumns.back().part == RowPart::kGpu,
              "what is behind that is written in both references");

// From mux_pct to there.
constexpr auto MakeRowTail() {
  constexpr std::string_view kShare = "100.0", kStatus = "unsupported", kLength = "1000000";
  std::array<char, kCpusColumn - kMuxColumn + kShare.size() + kStatus.size() + kLength.size()> text = {};
  size_t size = 0;
  const auto put = [&](std::string_view what) {
    for (char c : what) text[size++] = c;
  };
  for (size_t i = kMuxColumn; i < kCpusColumn; i++) {
    const Column& column = kSlotColumns[i];
    put(",");
    if (i == kMuxColumn) put(kShare);
    if (column.part == RowPart::kRdt && column.id == kRdtStatus) put(kStatus);
    if (&column == &ColumnOf("slot_ns")) put(kLength);  // both make slots of 1 ms
  }
  return text;
}
inline constexpr auto kRowTail = MakeRowTail();

// And from there to the end of the line. REQUIRES: room for 64 bytes.
inline char* AppendPlaces(char* out, bool is_process, const Places::Where& where) {
  const bool has_run = is_process && where.nr_cpus > 0;
  *out++ = ',';
  if (has_run) out = AppendDecimal(out, where.nr_cpus);
  *out++ = ',';
  if (has_run) out = AppendDecimal(out, where.main_cpu);
  *out++ = ',';
  for (size_t i = kNoWorkColumn; i < kSlotColumns.size(); i++) *out++ = ',';
  *out++ = '\n';
  return out;
}

}  // namespace slotscope
