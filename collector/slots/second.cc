// SPDX-License-Identifier: MIT
#include "slots/second.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "slots/column.h"

namespace slotscope {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;

int64_t UnixSecond(const Slot& slot) {
  return FloorDiv(static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns, kNsPerS);
}

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

void TakeWorst(uint64_t value, uint64_t at_ns, WorstSlot* worst) {
  if (value > worst->value || worst->at_ns == 0) *worst = {value, at_ns};
}

}  // namespace

bool SecondBuilder::Add(const Slot& slot, const Slot** finished) {
  const int64_t unix_s = UnixSecond(slot);
  const bool is_next = nr_slots_ > 0 && unix_s != unix_s_;
  if (is_next) *finished = Finish();
  if (nr_slots_++ == 0) {
    unix_s_ = unix_s;
    second_.start_ns = slot.start_ns;
    second_.unix_offset_ns = slot.unix_offset_ns;
  }
  second_.end_ns = slot.end_ns;
  second_.wait_causes = slot.wait_causes;
  for (const Row& row : slot.rows) AddRow(row, slot);
  return is_next;
}

Row& SecondBuilder::RowFor(const Row& row, const Slot& slot) {
  const bool is_process = IsProcess(row.kind);
  if (is_process && row.process >= places_.size()) places_.resize(row.process + 1);
  uint32_t& place = is_process ? places_[row.process] : kinds_[static_cast<size_t>(row.kind)];
  if (place != kNone && place <= second_.rows.size()) {
    Row& known = second_.rows[place - 1];
    if (known.process == row.process && known.key == row.key) return known;
  }
  Row& made = second_.rows.emplace_back();
  made.process = row.process;
  made.key = row.key;
  place = static_cast<uint32_t>(second_.rows.size());
  second_.worst.emplace_back();
  if (slot.RdtOf(row) || slot.MoreOf(row)) {
    if (!slot.rdt.empty()) second_.rdt.emplace_back().unmeasured = (1u << kNrRdtValues) - 1;
    if (!slot.more.empty()) second_.more.emplace_back();
    made.beside = static_cast<uint32_t>(std::max(second_.rdt.size(), second_.more.size()));
  }
  return made;
}

void SecondBuilder::AddRow(const Row& row, const Slot& slot) {
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
    if (const RdtRow* rdt = slot.RdtOf(row)) AddRdt(&second_.rdt[to.beside - 1], *rdt);
    if (const MoreRow* more = slot.MoreOf(row)) AddMore(&second_.more[to.beside - 1], *more);
  }
  if (row.gpu) {
    if (!to.gpu) {
      second_.gpu.emplace_back().unmeasured = kOfLaunches;
      to.gpu = static_cast<uint32_t>(second_.gpu.size());
    }
    AddGpu(&second_.gpu[to.gpu - 1], slot.gpu[row.gpu - 1]);
  }
  if (row.wait) {
    if (!to.wait) {
      second_.waits.emplace_back();
      to.wait = static_cast<uint32_t>(second_.waits.size());
    }
    AddWait(&second_.waits[to.wait - 1], slot.waits[row.wait - 1]);
  }
  WorstSlots& worst = second_.worst[static_cast<size_t>(&to - second_.rows.data())];
  if (row.nr_cpus > 0 && row.sums[kCpuNs] > worst.cpu.value) to.main_cpu = row.main_cpu;
  to.nr_cpus = std::max(to.nr_cpus, row.nr_cpus);
  TakeWorst(row.sums[kCpuNs], slot.start_ns, &worst.cpu);
  TakeWorst(row.sums[kWaitNs], slot.start_ns, &worst.wait);
}

// As in any slot. What stands beside is found by its index.
void SecondBuilder::Sort() {
  std::vector<uint32_t> order(second_.rows.size());
  for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
  const auto rank = [](const Row& row) {
    return IsProcess(row.kind) || row.kind == RowKind::kIdle ? 0 : static_cast<int>(row.kind);
  };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Row &left = second_.rows[a], &right = second_.rows[b];
    return rank(left) != rank(right) ? rank(left) < rank(right) : left.key < right.key;
  });
  finished_.rows.clear();
  finished_.worst.clear();
  for (const uint32_t i : order) {
    finished_.rows.push_back(second_.rows[i]);
    finished_.worst.push_back(second_.worst[i]);
    finished_.worst.back().nr_slots = nr_slots_;
  }
}

const Slot* SecondBuilder::Finish() {
  if (nr_slots_ == 0) return nullptr;
  Sort();
  finished_.start_ns = second_.start_ns;
  finished_.end_ns = second_.end_ns;
  finished_.unix_offset_ns = second_.unix_offset_ns;
  std::swap(finished_.rdt, second_.rdt);
  std::swap(finished_.more, second_.more);
  std::swap(finished_.gpu, second_.gpu);
  std::swap(finished_.waits, second_.waits);
  finished_.wait_causes = second_.wait_causes;
  second_.rows.clear();
  second_.worst.clear();
  second_.rdt.clear();
  second_.more.clear();
  second_.gpu.clear();
  second_.waits.clear();
  nr_slots_ = 0;
  return &finished_;
}

}  // namespace slotscope
