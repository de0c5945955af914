// SPDX-License-Identifier: MIT
// Milliseconds, added up to seconds, and those to minutes: what is kept when there is no room for each
// of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

// Makes a slot of so many seconds of Unix time of those that are in it (or of shorter periods): sums are
// sums, gauges as they were last, and each row says which of its milliseconds was the worst
// (Slot::worst). What is not measured in some slot is not measured, but for memory traffic: there
// rdt_status says that some of it is missing.
class PeriodBuilder {
 public:
  // With more rows than that it is cut short, and the next one begins.
  explicit PeriodBuilder(uint64_t seconds, size_t most_rows = std::numeric_limits<size_t>::max())
      : period_ns_(static_cast<int64_t>(seconds) * 1'000'000'000), most_rows_(most_rows) {}

  // True: *finished is the period before, which this slot is not in. It holds until the next call.
  bool Add(const Slot& slot, const Slot** finished);
  // What there is of the last one; null if there is nothing.
  const Slot* Finish();

 private:
  static constexpr uint32_t kNone = 0;

  int64_t PeriodOf(const Slot& slot) const;
  Row& RowFor(const Row& row, const Slot& slot);
  void AddRow(const Row& row, const Slot& slot);
  void Sort();

  const int64_t period_ns_;
  const size_t most_rows_;
  Slot open_, finished_;
  int64_t period_ = 0;
  bool is_any_ = false;
  std::vector<uint32_t> places_;  // [Row::process] -> its place in open_.rows + 1; may be another's
  std::array<uint32_t, kRowKindNames.size()> kinds_ = {};  // the same for those that are no process
};

}  // namespace slotscope
