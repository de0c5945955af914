// SPDX-License-Identifier: MIT
#include "slots/more_counters.h"

#include "slots/share.h"

namespace slotscope {
namespace {

constexpr uint32_t kNone = (1u << SS_MAX_MORE) - 1;

}  // namespace

void MoreCounters::Begin(const ss_measure& measure, const MoreSums* counters) {
  start_ns_ = measure.start_ns;
  end_ns_ = measure.hdr.ts_ns;
  unmeasured_ = kNone;
  whole_ = taken_ = {};
  if (!counters || (measure.flags & SS_MEASURE_UNKNOWN)) return;
  for (size_t i = 0; i < nr_; i++) {
    if ((*counters)[i].running_ns == 0) continue;
    whole_[i] = (*counters)[i];
    unmeasured_ &= ~(1u << i);
  }
  AddCounters(&accounting_->received, whole_);
}

MoreSums MoreCounters::TakeUntil(uint64_t at_ns) {
  MoreSums piece = {};
  for (size_t i = 0; i < nr_; i++) {
    const auto take = [&](auto member) {
      const uint64_t whole = whole_[i].*member;
      const uint64_t until =
          at_ns == end_ns_ ? whole : Share(whole, at_ns - start_ns_, end_ns_ - start_ns_);
      piece[i].*member = until - taken_[i].*member;
      taken_[i].*member = until;
    };
    take(&ss_counter::delta);
    take(&ss_counter::enabled_ns);
    take(&ss_counter::running_ns);
  }
  return piece;
}

void MoreCounters::AddToRow(OpenSlot* slot, const OpenRow* row, uint64_t until_ns) {
  const auto index = static_cast<size_t>(row - slot->rows.data());
  if (index >= slot->more.size()) slot->more.resize(slot->rows.size());
  AddCounters(&slot->more[index].sums, TakeUntil(until_ns));
  slot->more[index].unmeasured |= unmeasured_;
}

MoreRow MoreCounters::ResultOf(const OpenSlot& slot, size_t index) {
  // A row without a measure (of one that used a GPU only): 0, as its other sums.
  MoreRow row = index < slot.more.size() ? slot.more[index] : MoreRow();
  row.unmeasured |= never_;
  AddCounters(&accounting_->written, row.sums);
  return row;
}

void MoreCounters::Discard(const OpenSlot& slot, MoreSums* into) {
  for (const MoreRow& row : slot.more) AddCounters(into, row.sums);
}

}  // namespace slotscope
