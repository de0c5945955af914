// SPDX-License-Identifier: MIT
#include "sinks/period_sink.h"

#include <fmt/core.h>

#include <utility>

namespace slotscope {

PeriodSink::PeriodSink(OutFile* file, int64_t unix_offset_ns, size_t nr_more, const Period& period,
                       PeriodSink* finer)
    : SideSink(file),
      period_(period),
      is_of_slots_(!finer),
      csv_(&lines_, unix_offset_ns, 0, nr_more, RowsOf::kPeriods),
      builder_(period.seconds, period.most_rows) {
  if (finer) finer->coarser_ = this;
}

void PeriodSink::WriteHeader(const HeaderLines& lines) {
  HeaderLines all = lines;
  all.emplace_back("table", fmt::format("{}: each row is a sum over the slots of a {} of Unix time",
                                        period_.table, period_.name));
  csv_.WriteHeader(all);
  text_ += std::exchange(lines_.text, {});
  Flush();
}

void PeriodSink::Take(const Slot& period) {
  csv_.OnSlot(period);
  csv_.Flush();
  text_ += std::exchange(lines_.text, {});
  if (coarser_) coarser_->Add(period);
}

void PeriodSink::Add(const Slot& slot) {
  const Slot* period;
  if (builder_.Add(slot, &period)) Take(*period);
}

void PeriodSink::Append(const Slot& slot) {
  if (is_of_slots_) Add(slot);
}

void PeriodSink::EndSegment() {
  if (const Slot* period = builder_.Finish()) Take(*period);
}

std::string PeriodSink::Contents() const { return fmt::format("{} rows", csv_.nr_rows()); }

}  // namespace slotscope
