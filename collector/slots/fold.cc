// SPDX-License-Identifier: MIT
#include "slots/fold.h"

#include <algorithm>
#include <vector>

namespace slotscope {
namespace {

bool IsSelected(const FoldOptions& options, const GroupMembers* members, const Row& row) {
  if (!options.Selects()) return true;
  return (members && members->Has(row.key)) || (options.followed_only && row.followed) ||
         std::find(options.tgids.begin(), options.tgids.end(), row.key.tgid) != options.tgids.end() ||
         std::find(options.comms.begin(), options.comms.end(), CommText(row.comm)) !=
             options.comms.end();
}

// The smallest cpu_ns among the `top` largest of the selected rows, and how many rows of exactly that
// much may stay.
struct Threshold {
  uint64_t cpu_ns = 0;
  size_t nr_equal = SIZE_MAX;
};

Threshold FindThreshold(const FoldOptions& options, const GroupMembers* members, const Slot& slot) {
  std::vector<uint64_t> times;
  for (const Row& row : slot.rows)
    if (IsProcess(row.kind) && IsSelected(options, members, row)) times.push_back(row.sums[kCpuNs]);
  if (options.top == 0 || times.size() <= options.top) return {};
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(options.top - 1), times.end(),
                   std::greater<>());
  Threshold threshold = {times[options.top - 1], 0};
  auto nr_above = static_cast<size_t>(
      std::count_if(times.begin(), times.end(), [&](uint64_t time) { return time > threshold.cpu_ns; }));
  threshold.nr_equal = options.top - nr_above;
  return threshold;
}

// As Slot::rows says: idle is the first.
bool HasOrder(RowKind kind) { return IsProcess(kind) || kind == RowKind::kIdle; }

void AddRdt(RdtRow* to, const RdtRow& what) {
  for (size_t i = 0; i < kNrRdtValues; i++) to->values[i] += what.values[i];
  to->unmeasured |= what.unmeasured;
  to->status = std::max(to->status, what.status);
}

void AddGpu(GpuRow* to, const GpuRow& what) {
  for (size_t i = 0; i < kNrGpuValues; i++) to->values[i] += what.values[i];
  to->unmeasured |= what.unmeasured;
  to->any |= what.any;
}

}  // namespace

void FoldSlot(const FoldOptions& options, Slot* slot, const GroupMembers* members) {
  if (options.IsNoop()) return;
  Threshold threshold = FindThreshold(options, members, *slot);
  Row other;
  other.kind = RowKind::kOther;
  RdtRow other_rdt;
  MoreRow other_more;
  GpuRow other_gpu;
  WaitRow other_wait;
  bool any_gpu = false;
  bool any = false;
  auto is_folded = [&](const Row& row) {
    if (!IsProcess(row.kind)) return false;
    bool keep = IsSelected(options, members, row) && row.sums[kCpuNs] >= threshold.cpu_ns;
    if (keep && row.sums[kCpuNs] == threshold.cpu_ns && threshold.nr_equal != SIZE_MAX)
      keep = threshold.nr_equal > 0 && threshold.nr_equal-- > 0;
    if (keep) return false;
    other.unmeasured |= row.unmeasured;
    Add(&other.sums, row.sums);
    if (const RdtRow* rdt = slot->RdtOf(row)) AddRdt(&other_rdt, *rdt);
    if (const MoreRow* more = slot->MoreOf(row)) AddMore(&other_more, *more);
    if (row.gpu) AddGpu(&other_gpu, slot->gpu[row.gpu - 1]);
    if (row.wait) AddWait(&other_wait, slot->waits[row.wait - 1]);
    any_gpu |= row.gpu > 0;
    other.wait |= row.wait > 0;
    any = true;
    return true;
  };
  auto end = slot->rows.begin();
  for (const Row& row : slot->rows)
    if (!is_folded(row)) *end++ = row;
  slot->rows.erase(end, slot->rows.end());
  if (!any) return;
  // Rows and details are in the order of their processes.
  auto row = slot->rows.cbegin();
  std::erase_if(slot->wait_details, [&](const WaitDetail& detail) {
    while (row != slot->rows.cend() && HasOrder(row->kind) && row->key < detail.waiter) ++row;
    return row == slot->rows.cend() || row->key != detail.waiter || !IsProcess(row->kind);
  });
  if (!slot->rdt.empty()) slot->rdt.push_back(other_rdt);
  if (!slot->more.empty()) slot->more.push_back(other_more);
  other.beside = static_cast<uint32_t>(std::max(slot->rdt.size(), slot->more.size()));
  if (any_gpu) {
    slot->gpu.push_back(other_gpu);
    other.gpu = static_cast<uint32_t>(slot->gpu.size());
  }
  if (other.wait) {
    slot->waits.push_back(other_wait);
    other.wait = static_cast<uint32_t>(slot->waits.size());
  }
  slot->rows.push_back(other);
}

}  // namespace slotscope
