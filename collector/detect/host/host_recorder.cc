// SPDX-License-Identifier: MIT
#include "detect/host/host_recorder.h"

#include <string>

#include "base/escape.h"
#include "detect/host/rank_note.h"

namespace slotscope {
namespace {

HostSample SampleOf(const Slot& slot, const Row& row, int64_t start_ns) {
  HostSample sample;
  sample.start_ns = start_ns;
  AddValues(slot, row, kHostColumns, &sample);
  return sample;
}

}  // namespace

void HostRecorder::OnSlot(Slot* slot) {
  {
    std::lock_guard lock(mutex_);
    Take(*slot);
  }
  if (next_) next_->OnSlot(slot);
}

void HostRecorder::Take(const Slot& slot) {
  const int64_t start_ns = static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns;
  for (const std::string& note : slot.notes)
    if (const auto rank = ParseRankNote(note)) history_.SetRank(*rank, start_ns);
  history_.OnSlot(start_ns, static_cast<int64_t>(slot.end_ns - slot.start_ns));
  if (!history_.has_ranks()) return;
  for (const Row& row : slot.rows) {
    if (row.kind == RowKind::kLost) history_.OnLost(start_ns, row.sums[kCpuNs]);
    if (!IsProcess(row.kind) || !row.tracked || !history_.IsRank(row.key.tgid)) continue;
    history_.Add(row.key.tgid, row.key.start_time_ns, row.named ? EscapeName(CommText(row.comm)) : "",
                 SampleOf(slot, row, start_ns));
  }
  for (const WaitDetail& one : slot.wait_details)
    if (one.has_ran() && !one.is_earlier() && history_.IsRank(one.waiter.tgid))
      history_.AddRanInstead(one.waiter.tgid,
                             {start_ns, one.ran.tgid, EscapeName(CommText(one.ran_comm)), one.ns});
}

}  // namespace slotscope
