// SPDX-License-Identifier: MIT
#include "slots/period.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "slots/column.h"

namespace slotscope {
namespace {

// Traffic is added up; what is held is as it was last known.
void AddRdt(RdtRow* to, const RdtRow& what) {
  for (size_t i = 0; i < kNrRdtValues; i++) {
    if (what.unmeasured >> i & 1) continue;
    to->values[i] = i < kNrMbm ? to->values[i] + what.values[i] : what.values[i];
    to->unmeasured &= ~(1u << i);
  }
  to->status = std::max(to->status, what.status);
}

// What is known only of slots in which it launches: of the others there is nothing to add.
void AddGpu(GpuRow* to, const GpuRow& what) {
  for (size_t i = 0; i < kNrGpuValues; i++)
    if (!(kOfLaunches & what.unmeasured & 1u << i))
      to->values[i] = kGpuAdds[i] ? to->values[i] + what.values[i] : what.values[i];
  to->unmeasured = ((to->unmeasured | what.unmeasured) & ~kOfLaunches) |
                   (to->unmeasured & what.unmeasured & kOfLaunches);
  to->any |= what.any;
  to->straggle = what.straggle;
  to->drop_ppm = what.drop_ppm;
}

void TakeWorst(const WorstSlot& one, WorstSlot* worst) {
  if (one.value > worst->value || worst->at_ns == 0) *worst = one;
}

// A slot is the worst of itself.
WorstSlots WorstOf(const Row& row, const Slot& slot) {
  if (!slot.worst.empty()) return slot.worst[static_cast<size_t>(&row - slot.rows.data())];
  return {{row.sums[kCpuNs], slot.start_ns}, {row.sums[kWaitNs], slot.start_ns}};
}

}  // namespace

int64_t PeriodBuilder::PeriodOf(const Slot& slot) const {
  return FloorDiv(static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns, period_ns_);
}

bool PeriodBuilder::Add(const Slot& slot, const Slot** finished) {
  const int64_t period = PeriodOf(slot);
  const bool is_next = is_any_ && (period != period_ || open_.rows.size() > most_rows_);
  if (is_next) *finished = Finish();
  if (!std::exchange(is_any_, true)) {
    period_ = period;
    open_.start_ns = slot.start_ns;
    open_.unix_offset_ns = slot.unix_offset_ns;
    open_.nr_slots = 0;
  }
  open_.nr_slots += slot.nr_slots;
  open_.end_ns = slot.end_ns;
  open_.wait_causes = slot.wait_causes;
  for (const Row& row : slot.rows) AddRow(row, slot);
  return is_next;
}

Row& PeriodBuilder::RowFor(const Row& row, const Slot& slot) {
  const bool is_process = IsProcess(row.kind);
  if (is_process && row.process >= places_.size()) places_.resize(row.process + 1);
  uint32_t& place = is_process ? places_[row.process] : kinds_[static_cast<size_t>(row.kind)];
  if (place != kNone && place <= open_.rows.size()) {
    Row& known = open_.rows[place - 1];
    if (known.process == row.process && known.key == row.key) return known;
  }
  Row& made = open_.rows.emplace_back();
  made.process = row.process;
  made.key = row.key;
  place = static_cast<uint32_t>(open_.rows.size());
  open_.worst.emplace_back();
  if (slot.RdtOf(row) || slot.MoreOf(row)) {
    if (!slot.rdt.empty()) open_.rdt.emplace_back().unmeasured = (1u << kNrRdtValues) - 1;
    if (!slot.more.empty()) open_.more.emplace_back();
    made.beside = static_cast<uint32_t>(std::max(open_.rdt.size(), open_.more.size()));
  }
  return made;
}

void PeriodBuilder::AddRow(const Row& row, const Slot& slot) {
  Row& to = RowFor(row, slot);
  slotscope::Add(&to.sums, row.sums);
  to.unmeasured |= row.unmeasured;
  to.rmid = row.rmid;
  to.kind = row.kind;
  to.tracked = row.tracked;
  to.followed = row.followed;
  to.now = row.now;
  if (row.named || !to.named) {
    to.named = row.named;
    to.comm = row.comm;
  }
  if (to.beside) {
    if (const RdtRow* rdt = slot.RdtOf(row)) AddRdt(&open_.rdt[to.beside - 1], *rdt);
    if (const MoreRow* more = slot.MoreOf(row)) AddMore(&open_.more[to.beside - 1], *more);
  }
  if (row.gpu) {
    if (!to.gpu) {
      open_.gpu.emplace_back().unmeasured = kOfLaunches;
      to.gpu = static_cast<uint32_t>(open_.gpu.size());
    }
    AddGpu(&open_.gpu[to.gpu - 1], slot.gpu[row.gpu - 1]);
  }
  if (row.wait) {
    if (!to.wait) {
      open_.waits.emplace_back();
      to.wait = static_cast<uint32_t>(open_.waits.size());
    }
    AddWait(&open_.waits[to.wait - 1], slot.waits[row.wait - 1]);
  }
  WorstSlots& worst = open_.worst[static_cast<size_t>(&to - open_.rows.data())];
  const WorstSlots one = WorstOf(row, slot);
  if (row.nr_cpus > 0 && one.cpu.value > worst.cpu.value) to.main_cpu = row.main_cpu;
  to.nr_cpus = std::max(to.nr_cpus, row.nr_cpus);
  TakeWorst(one.cpu, &worst.cpu);
  TakeWorst(one.wait, &worst.wait);
}

// As in any slot. What stands beside is found by its index.
void PeriodBuilder::Sort() {
  std::vector<uint32_t> order(open_.rows.size());
  for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
  const auto rank = [](const Row& row) {
    return IsProcess(row.kind) || row.kind == RowKind::kIdle ? 0 : static_cast<int>(row.kind);
  };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Row &left = open_.rows[a], &right = open_.rows[b];
    return rank(left) != rank(right) ? rank(left) < rank(right) : left.key < right.key;
  });
  finished_.rows.clear();
  finished_.worst.clear();
  for (const uint32_t i : order) {
    finished_.rows.push_back(open_.rows[i]);
    finished_.worst.push_back(open_.worst[i]);
  }
}

const Slot* PeriodBuilder::Finish() {
  if (!std::exchange(is_any_, false)) return nullptr;
  Sort();
  finished_.start_ns = open_.start_ns;
  finished_.end_ns = open_.end_ns;
  finished_.unix_offset_ns = open_.unix_offset_ns;
  finished_.nr_slots = open_.nr_slots;
  std::swap(finished_.rdt, open_.rdt);
  std::swap(finished_.more, open_.more);
  std::swap(finished_.gpu, open_.gpu);
  std::swap(finished_.waits, open_.waits);
  finished_.wait_causes = open_.wait_causes;
  open_.rows.clear();
  open_.worst.clear();
  open_.rdt.clear();
  open_.more.clear();
  open_.gpu.clear();
  open_.waits.clear();
  return &finished_;
}

}  // namespace slotscope
