// SPDX-License-Identifier: MIT
#include "report/wait_table.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "recording/segment_name.h"
#include "report/tracks.h"

namespace slotscope {
namespace {

// Those of one waiter and cause in one bin become one.
void Join(std::vector<BinWait>* waits) {
  std::sort(waits->begin(), waits->end(), [](const BinWait& a, const BinWait& b) {
    return std::tie(a.bin, a.waiter, a.cause) < std::tie(b.bin, b.waiter, b.cause);
  });
  size_t nr = 0;
  for (const BinWait& wait : *waits) {
    BinWait* const last = nr ? &(*waits)[nr - 1] : nullptr;
    if (last && last->bin == wait.bin && last->waiter == wait.waiter && last->cause == wait.cause)
      last->steps += wait.steps;
    else
      (*waits)[nr++] = wait;
  }
  waits->resize(nr);
}

}  // namespace

bool IsIn(const Stretches& stretches, uint32_t ms) {
  const auto behind =
      std::upper_bound(stretches.begin(), stretches.end(), ms,
                       [](uint32_t at, const auto& stretch) { return at < stretch.first; });
  return behind != stretches.begin() && ms < std::prev(behind)->second;
}

WaitTable::WaitTable(const UnixRange& range, Stretches near, PlaceOf place_of)
    : range_(range),
      near_stretches_(std::move(near)),
      place_of_(std::move(place_of)),
      first_bin_(range.from_ns / kBinNs) {}

void WaitTable::OnWait(const WaitTableRow& row) {
  const size_t which = WaitCauseOf(row.cause);
  if (which == kNrWaitValues) return;
  if (which != kWaitEarlier) return Add(row.start_ns, row.waiter, CauseOrRan(which, row.ran), row.ns);
  const size_t why = WaitCauseOf(row.earlier_cause);
  AddEarlier(row, why < kNrWaitCauses ? CauseOrRan(why, row.ran) : kWaitEarlier);
}

size_t WaitTable::CauseOrRan(size_t cause, const ProcessKey& ran) const {
  return cause == kWaitOthers && ran.tgid > 0 ? kNrWaitValues + place_of_(ran) : cause;
}

// When it was waited, not when that was told; in equal parts where there are other causes between.
void WaitTable::AddEarlier(const WaitTableRow& row, size_t cause) {
  const int64_t start_ns = row.wait_start_ns;
  if (row.ns > kLongestWaitNs || start_ns >= range_.to_ns) return;
  const uint64_t length_ns = row.earlier_length_ns();
  if (length_ns == 0 || length_ns > kLongestWaitNs) return;
  const double density = static_cast<double>(row.ns) / static_cast<double>(length_ns);
  const int64_t to_ns = std::min(range_.to_ns, row.earlier_end_ns());
  const auto who = static_cast<uint16_t>(place_of_(row.waiter));
  for (int64_t at_ns = std::max(start_ns, range_.from_ns), end_ns; at_ns < to_ns; at_ns = end_ns) {
    if (nr_earlier_++ >= 4 * kMost) return;
    const int64_t index = at_ns / kBinNs;
    end_ns = std::min(to_ns, (index + 1) * kBinNs);
    Put(static_cast<uint32_t>(index - first_bin_), who, static_cast<uint16_t>(cause),
        static_cast<uint64_t>(density * static_cast<double>(end_ns - at_ns)));
  }
}

void WaitTable::OnSlot(const SlotRow& row) {
  if (row.key.tgid <= 0) return;
  uint64_t others_ns = row.wait_ns[kByOthers];
  if (row.ran_instead.tgid > 0) {
    const uint64_t ns = std::min(others_ns, row.ran_instead_ns);
    Add(row.start_ns, row.key, kNrWaitValues + place_of_(row.ran_instead), ns);
    others_ns -= ns;
  }
  Add(row.start_ns, row.key, kByOthers, others_ns);
  for (size_t why = kBySelf; why <= kByUnknown; why++) Add(row.start_ns, row.key, why, row.wait_ns[why]);
  if (row.wait_earlier_ns == 0) return;
  WaitTableRow earlier;
  earlier.waiter = row.key;
  earlier.ns = row.wait_earlier_ns;
  earlier.wait_start_ns = row.start_ns - static_cast<int64_t>(row.wait_earlier_ns);
  AddEarlier(earlier, kWaitEarlier);
}

void WaitTable::Add(int64_t start_ns, const ProcessKey& waiter, size_t cause, uint64_t ns) {
  if (ns == 0 || start_ns < range_.from_ns || start_ns >= range_.to_ns) return;
  const auto bin = static_cast<uint32_t>(start_ns / kBinNs - first_bin_);
  if (bin != bin_) EndBin();
  bin_ = bin;
  of_bin_[static_cast<uint32_t>(place_of_(waiter)) << 16 | static_cast<uint32_t>(cause)] += ns;
}

void WaitTable::EndBin() {
  for (const auto& [who, ns] : of_bin_)
    Put(bin_, static_cast<uint16_t>(who >> 16), static_cast<uint16_t>(who), ns);
  of_bin_.clear();
}

void WaitTable::Put(uint32_t bin, uint16_t waiter, uint16_t cause, uint64_t ns) {
  const uint64_t steps = (ns + kWaitStepNs / 2) / kWaitStepNs;
  if (steps == 0) return;
  const BinWait wait = {bin, waiter, cause,
                        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX))};
  if (near_.size() < kMost / 2 && IsIn(near_stretches_, static_cast<uint32_t>(bin * (kBinNs / kMsNs))))
    near_.push_back(wait);
  all_.push_back(wait);
  all_.back().bin /= bins_together_;
  if (all_.size() > 2 * kMost) Coarsen();
}

// 10 ms, 50, 100, 500...
void WaitTable::Coarsen() {
  Join(&all_);
  while (all_.size() > kMost && bins_together_ < 100'000) {
    uint32_t decade = 1;
    while (bins_together_ >= 10 * decade) decade *= 10;
    const uint32_t next = bins_together_ == decade ? 5 * decade : 10 * decade;
    const uint32_t factor = next / bins_together_;
    for (BinWait& wait : all_) wait.bin /= factor;
    bins_together_ = next;
    Join(&all_);
  }
}

void WaitTable::Finish() {
  EndBin();
  Coarsen();
  Join(&near_);
  if (bins_together_ == 1) near_.clear();
}

Status ReadWaitTable(const RecordingTables& tables, const UnixRange& range, WaitTable* table) {
  // What waits there are that last until then, some rows behind it tell.
  constexpr int64_t kToldLaterNs = 5'000'000'000;
  const UnixRange until_told = {range.from_ns, range.to_ns + kToldLaterNs};
  const Status status =
      tables.Has(kWaitsTable)
          ? tables.ReadWaitRows(until_told, [&](const WaitTableRow& row) { table->OnWait(row); })
          : tables.ReadSlotRows(kSlotsTable, until_told,
                                [&](const SlotRow& row) { table->OnSlot(row); });
  table->Finish();
  return status;
}

}  // namespace slotscope
