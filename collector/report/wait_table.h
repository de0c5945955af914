// SPDX-License-Identifier: MIT
// Who waited in a range, for whom or why, by bins of 10 ms; where there are too many, of more, but near
// what happened. It takes no more memory for a longer range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explain/history.h"
#include "explain/history_reader.h"
#include "slots/wait_row.h"

namespace slotscope {

// Stretches of a range, in ms, in order, and apart from each other.
using Stretches = std::vector<std::pair<uint32_t, uint32_t>>;
bool IsIn(const Stretches& stretches, uint32_t ms);

// Finer than the others' 10 us: of many short waits in a selected stretch, each is rounded by itself.
inline constexpr uint64_t kWaitStepNs = 1'000;

struct BinWait {
  uint32_t bin;     // from the first one of the range on
  uint16_t waiter;  // its place
  uint16_t cause;   // a WaitCause, kWaitEarlier, or kNrWaitValues + the place of who ran
  uint32_t steps;   // of kWaitStepNs
};

class WaitTable {
 public:
  static constexpr size_t kMost = 1'000'000;
  // place_of: below UINT16_MAX - kNrWaitValues.
  using PlaceOf = std::function<size_t(const ProcessKey&)>;
  WaitTable(const UnixRange& range, Stretches near, PlaceOf place_of);

  // Of the table waits, in order; or, in a recording without it, of slots.
  void OnWait(const WaitTableRow& row);
  void OnSlot(const SlotRow& row);
  void Finish();

  // After Finish(): by bin, waiter and cause. `near`, in bins of 10 ms, is empty if all() is so as well.
  const std::vector<BinWait>& all() const { return all_; }
  const std::vector<BinWait>& near() const { return near_; }
  int64_t first_bin() const { return first_bin_; }
  uint32_t bins_together() const { return bins_together_; }  // of all()

 private:
  void Add(int64_t start_ns, const ProcessKey& waiter, size_t cause, uint64_t ns);
  void AddEarlier(const WaitTableRow& row, size_t cause);
  size_t CauseOrRan(size_t cause, const ProcessKey& ran) const;
  void EndBin();
  void Put(uint32_t bin, uint16_t waiter, uint16_t cause, uint64_t ns);
  void Coarsen();

  const UnixRange range_;
  const Stretches near_stretches_;
  const PlaceOf place_of_;
  const int64_t first_bin_;
  uint32_t bin_ = 0;
  std::unordered_map<uint32_t, uint64_t> of_bin_;  // waiter << 16 | cause -> ns
  std::vector<BinWait> all_, near_;
  uint32_t bins_together_ = 1;
  size_t nr_earlier_ = 0;
};

// Reads what the recording has of them.
Status ReadWaitTable(const RecordingTables& tables, const UnixRange& range, WaitTable* table);

}  // namespace slotscope
