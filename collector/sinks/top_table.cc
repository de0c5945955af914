// SPDX-License-Identifier: MIT
#include "sinks/top_table.h"

#include <algorithm>

namespace slotscope {
namespace {

constexpr size_t kMaxAlive = 16384;     // with a place of their own; others are looked up
constexpr size_t kMaxProcesses = 4096;  // some 700 kB
constexpr size_t kKept = 3584;  // of them, when there are more: a recorder's memory is to stand still

void AddRow(Total* total, const Slot& slot, const Row& row) {
  total->kind = row.kind;
  total->key = row.key;
  if (row.named) total->comm = row.comm;
  total->unmeasured |= row.unmeasured;
  total->nr_slots++;
  Add(&total->sums, row.sums);
  if (row.wait) total->sums[kWaitNs] += slot.waits[row.wait - 1].earlier_ns;
}

void AddTotal(Total* to, const Total& what) {
  to->unmeasured |= what.unmeasured;
  to->nr_slots += what.nr_slots;
  Add(&to->sums, what.sums);
}

bool MoreCpu(const Total& a, const Total& b) { return a.sums[kCpuNs] > b.sums[kCpuNs]; }

}  // namespace

void TopTable::OnSlot(const Slot& slot) {
  for (const Row& row : slot.rows) {
    if (!IsProcess(row.kind) || row.process >= kMaxAlive) {
      AddRow(IsProcess(row.kind) ? &processes_[row.key] : &others_[row.kind], slot, row);
      continue;
    }
    if (row.process >= recent_.size()) recent_.resize(row.process + 1);
    Recent& recent = recent_[row.process];
    if (recent.used && recent.total.key != row.key) Retire(&recent);
    recent.used = true;
    AddRow(&recent.total, slot, row);
  }
  if (processes_.size() > kMaxProcesses) Shrink();
}

// Its id is another process's now, or the run is over.
void TopTable::Retire(Recent* recent) {
  if (!recent->used) return;
  const Total& from = recent->total;
  Total& to = processes_[from.key];
  to.kind = from.kind;
  to.key = from.key;
  if (from.comm != Comm{}) to.comm = from.comm;
  AddTotal(&to, from);
  *recent = {};
}

void TopTable::Shrink() {
  std::vector<Total> totals;
  for (const auto& [key, total] : processes_) totals.push_back(total);
  auto keep = totals.begin() + kKept;
  std::nth_element(totals.begin(), keep, totals.end(), MoreCpu);
  Total& other = others_[RowKind::kOther];
  other.kind = RowKind::kOther;
  for (auto it = keep; it != totals.end(); ++it) {
    AddTotal(&other, *it);
    processes_.erase(it->key);
  }
}

std::vector<Total> TopTable::Sorted() {
  for (Recent& recent : recent_) Retire(&recent);
  std::vector<Total> totals;
  for (const auto& [key, total] : processes_) totals.push_back(total);
  for (const auto& [kind, total] : others_) totals.push_back(total);
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) {
    if (a.sums[kCpuNs] != b.sums[kCpuNs]) return MoreCpu(a, b);
    return a.key.tgid != b.key.tgid ? a.key.tgid < b.key.tgid
                                    : a.key.start_time_ns < b.key.start_time_ns;
  });
  return totals;
}

}  // namespace slotscope
