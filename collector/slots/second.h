// SPDX-License-Identifier: MIT
// Milliseconds, added up to seconds: what is kept when there is no room for each of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

// Makes a slot of a second of Unix time of those that are in it: sums are sums, gauges as they were
// last, and each row says which of its milliseconds was the worst (Slot::worst). What is not measured in
// some slot is not measured, but for memory traffic: there rdt_status says that some of it is missing.
class SecondBuilder {
 public:
  // True: *finished is the second before, which this slot is not in. It holds until the next call.
  bool Add(const Slot& slot, const Slot** finished);
  // What there is of the last one; null if there is nothing.
  const Slot* Finish();

 private:
  static constexpr uint32_t kNone = 0;

  Row& RowFor(const Row& row, const Slot& slot);
  void AddRow(const Row& row, const Slot& slot);
  void Sort();

  Slot second_, finished_;
  int64_t unix_s_ = 0;
  uint64_t nr_slots_ = 0;
  std::vector<uint32_t> places_;  // [Row::process] -> its place in second_.rows + 1; may be another's
  std::array<uint32_t, kRowKindNames.size()> kinds_ = {};  // the same for those that are no process
};

}  // namespace slotscope
