// SPDX-License-Identifier: MIT
// Perf counters behind the first ones: cut as those are (see cut.h), and kept beside the rows, so that a
// recording that has none of them does not pay for them.
#pragma once

#include <slotscope/events.h>

#include <cstdint>

#include "slots/accounting.h"
#include "slots/more_row.h"
#include "slots/open_slot.h"

namespace slotscope {

class MoreCounters {
 public:
  // `nr`: as many as each measure should have; a bit in `never` for those that none has. The accounting
  // outlives us.
  MoreCounters(size_t nr, uint32_t never, MoreAccounting* accounting)
      : nr_(nr), never_(never), accounting_(accounting) {}

  // Does the recording have any? If not, nothing else needs to be called.
  bool on() const { return nr_ > 0; }
  // The next measure, and the counters behind it; null: it has none.
  void Begin(const ss_measure& measure, const MoreSums* counters);
  // What has not been taken of it up to until_ns, which never goes back.
  void AddToRow(OpenSlot* slot, const OpenRow* row, uint64_t until_ns);
  void AddToLate(uint64_t until_ns) { AddCounters(&accounting_->late, TakeUntil(until_ns)); }
  void AddToBefore(uint64_t until_ns) { AddCounters(&accounting_->before, TakeUntil(until_ns)); }
  // What slot.rows[index] has of it; counts as written.
  MoreRow ResultOf(const OpenSlot& slot, size_t index);
  // The slot is not written; whatever is in it goes to *into.
  static void Discard(const OpenSlot& slot, MoreSums* into);

 private:
  MoreSums TakeUntil(uint64_t at_ns);

  size_t nr_;
  uint32_t never_;
  MoreAccounting* accounting_;
  // Of the measure that is being cut:
  uint64_t start_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint32_t unmeasured_ = 0;  // a bit per counter
  MoreSums whole_ = {};
  MoreSums taken_ = {};
};

}  // namespace slotscope
