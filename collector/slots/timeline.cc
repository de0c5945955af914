// SPDX-License-Identifier: MIT
#include "slots/timeline.h"

#include <algorithm>

namespace slotscope {

void Timeline::Put(const Run& run) {
  if (!runs_.empty() && runs_.back().kind == run.kind && runs_.back().key == run.key &&
      !runs_.back().is_sum && !run.is_sum && runs_.back().stolen_ns == 0 && run.stolen_ns == 0) {
    runs_.back().end_ns = run.end_ns;
    nr_retired_ = std::min(nr_retired_, runs_.size() - 1);
  } else {
    runs_.push_back(run);
  }
}

void Timeline::Add(const ss_measure& measure) {
  if (measure.hdr.ts_ns <= end_ns()) return;
  if (runs_.empty() && begin_ns_ == 0) begin_ns_ = measure.start_ns;
  if (measure.start_ns > end_ns()) Put({measure.start_ns, {}, Kind::kUnknown});
  const bool is_sum = measure.flags & SS_MEASURE_SUM;
  if (measure.flags & SS_MEASURE_UNKNOWN)
    Put({measure.hdr.ts_ns, {}, Kind::kUnknown, false, measure.stolen_ns});
  else if (measure.flags & SS_MEASURE_IDLE)
    Put({measure.hdr.ts_ns, {}, Kind::kIdle, is_sum, measure.stolen_ns});
  else
    Put({measure.hdr.ts_ns,
         {measure.tgid, measure.start_time_ns},
         Kind::kProcess,
         is_sum,
         measure.stolen_ns});
}

size_t Timeline::FirstOfBatch(size_t i) const {
  const uint64_t slot = (runs_[i].end_ns - 1) / SS_TICK_PERIOD_NS;
  while (i > 0 && runs_[i - 1].is_sum && (runs_[i - 1].end_ns - 1) / SS_TICK_PERIOD_NS == slot) i--;
  return i;
}

void Timeline::Retire(uint64_t until_ns) {
  while (nr_retired_ < runs_.size() && runs_[nr_retired_].end_ns <= until_ns) nr_retired_++;
  for (; nr_retired_ > 0; nr_retired_--) {
    const uint64_t end_ns = runs_.front().end_ns;
    if (nr_retired_ <= kKeptRuns && until_ns - end_ns < kKeptNs) return;
    begin_ns_ = end_ns;
    runs_.pop_front();
  }
}

size_t Timeline::NrUntil(uint64_t ts_ns) const {
  if (runs_.empty() || runs_.back().end_ns <= ts_ns) return runs_.size();  // nearly always
  return static_cast<size_t>(std::partition_point(runs_.begin(), runs_.end(),
                                                  [&](const Run& run) { return run.end_ns <= ts_ns; }) -
                             runs_.begin());
}

bool Timeline::IsInOrder() const {
  uint64_t at_ns = begin_ns_;
  for (const Run& run : runs_) {
    if (run.end_ns < at_ns) return false;
    at_ns = run.end_ns;
  }
  return at_ns <= UINT64_MAX / 2;
}

}  // namespace slotscope
