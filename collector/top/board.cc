// SPDX-License-Identifier: MIT
#include "top/board.h"

#include <algorithm>
#include <map>

namespace slotscope {

void Doing::Add(const Doing& other) {
  cpu_ns += other.cpu_ns;
  wait_ns += other.wait_ns;
  throttled_ns += other.throttled_ns;
  gpu_active_ns += other.gpu_active_ns;
  traffic_bytes += other.traffic_bytes;
  has_waits |= other.has_waits;
  has_gpu |= other.has_gpu;
  has_traffic |= other.has_traffic;
  measured_waits |= other.measured_waits;
}

void Board::OnSlot(const SlotRow& row) {
  if (machine_.empty() || machine_.back().start_ns != row.start_ns)
    machine_.push_back({row.start_ns, row.slot_ns, 0, 0, 0, false});
  Machine& machine = machine_.back();
  end_ns_ = std::max(end_ns_, row.start_ns + row.slot_ns);
  if (end_ns_ - forgotten_ns_ > kKeptNs + kSecondNs) Forget();
  if (row.kind == "lost") machine.lost_ns += row.cpu_ns;
  if (row.key.tgid <= 0) {
    if (row.kind == "other") machine.cpu_ns += row.cpu_ns;
    return;
  }
  Process& process = processes_[row.key];
  if (process.comm != row.comm && !row.comm.empty()) process.comm = row.comm;
  process.is_kernel = row.kind == "kernel";
  if (process.state.name != row.state) process.state.name = row.state;
  process.state.since_ns = row.state_since_ns;
  process.heard_ns = row.start_ns + row.slot_ns;
  Cell cell = {row.start_ns, row.slot_ns, {}};
  cell.did.cpu_ns = row.cpu_ns;
  for (const uint64_t ns : row.wait_ns) cell.did.wait_ns += ns;
  cell.did.throttled_ns = row.wait_ns[kByQuota];
  cell.did.gpu_active_ns = row.gpu_active_ns;
  cell.did.traffic_bytes = row.traffic_bytes;
  cell.did.has_waits = row.has_waits;
  cell.did.measured_waits = row.measured_waits;
  cell.did.has_gpu = row.has_gpu;
  cell.did.has_traffic = row.has_traffic;
  machine.cpu_ns += cell.did.cpu_ns;
  machine.wait_ns += cell.did.wait_ns;
  machine.has_waits |= row.has_waits;
  process.cells.push_back(cell);
}

// In the slots that the machine had then: a part of each.
void Board::OnEarlierWait(const WaitTableRow& row) {
  const auto found = processes_.find(row.waiter);
  const uint64_t length_ns = row.earlier_length_ns();
  constexpr auto kMostNs = static_cast<uint64_t>(kKeptNs);
  if (found == processes_.end() || length_ns == 0 || length_ns > kMostNs || row.ns > kMostNs) return;
  const int64_t from_ns = row.wait_start_ns, to_ns = row.earlier_end_ns();
  const double density = static_cast<double>(row.ns) / static_cast<double>(length_ns);
  std::deque<Cell>& cells = found->second.cells;
  const auto before = [](const auto& one, int64_t at_ns) { return one.start_ns + one.slot_ns <= at_ns; };
  for (auto slot = std::lower_bound(machine_.begin(), machine_.end(), from_ns, before);
       slot != machine_.end() && slot->start_ns < to_ns; ++slot) {
    const int64_t part_ns =
        std::min(to_ns, slot->start_ns + slot->slot_ns) - std::max(from_ns, slot->start_ns);
    auto cell = std::lower_bound(cells.begin(), cells.end(), slot->start_ns,
                                 [](const Cell& one, int64_t at_ns) { return one.start_ns < at_ns; });
    if (cell == cells.end() || cell->start_ns != slot->start_ns)
      cell = cells.insert(cell, {slot->start_ns, slot->slot_ns, {}});
    const auto waited_ns = static_cast<uint64_t>(density * static_cast<double>(part_ns));
    cell->did.wait_ns += waited_ns;
    cell->did.has_waits = true;
    slot->wait_ns += waited_ns;
  }
}

void Board::SetPlaces(const ProcessPlaces& places, Known known) {
  for (auto it = processes_.begin(); it != processes_.end();) {
    auto cgroup = places.Find(it->first);
    // Its end was lost, or is in a slot that was.
    if (!cgroup && known == Known::kAll && it->second.cells.empty()) {
      it = processes_.erase(it);
      continue;
    }
    if (cgroup) it->second.cgroup = std::move(cgroup);
    ++it;
  }
}

void Board::Forget() {
  forgotten_ns_ = end_ns_ - kKeptNs;
  while (!machine_.empty() && machine_.front().start_ns < forgotten_ns_) machine_.pop_front();
  for (auto it = processes_.begin(); it != processes_.end();) {
    Process& process = it->second;
    while (!process.cells.empty() && process.cells.front().start_ns < forgotten_ns_)
      process.cells.pop_front();
    it = process.cells.empty() && !process.state.is_held() ? processes_.erase(it) : std::next(it);
  }
}

std::vector<StripStep> Board::Strip(const std::vector<ProcessKey>& members, int64_t from_ns,
                                    int64_t step_ns, size_t nr) const {
  std::vector<StripStep> steps(nr);
  const auto step_of = [&](int64_t start_ns) -> StripStep* {
    if (start_ns < from_ns) return nullptr;
    const auto place = static_cast<size_t>((start_ns - from_ns) / step_ns);
    return place < nr ? &steps[place] : nullptr;
  };
  const int64_t to_ns = from_ns + static_cast<int64_t>(nr) * step_ns;
  for (const Machine& slot : machine_) {
    if (slot.start_ns + slot.slot_ns <= from_ns || slot.start_ns >= to_ns) continue;
    // A long slot is of several steps; it may have begun in front of them.
    for (int64_t at_ns = slot.start_ns; at_ns < slot.start_ns + slot.slot_ns; at_ns += step_ns)
      if (StripStep* covered = step_of(at_ns)) {
        covered->is_recorded = true;
        covered->slot_ns = std::max(covered->slot_ns, slot.slot_ns);
      }
    if (StripStep* const step = step_of(slot.start_ns)) {
      step->lost_ns += slot.lost_ns;
      step->slots_ns += slot.slot_ns;
    }
  }
  std::map<int64_t, Doing> slots;  // of all members
  for (const ProcessKey& key : members)
    if (const auto found = processes_.find(key); found != processes_.end())
      for (const Cell& cell : found->second.cells) slots[cell.start_ns].Add(cell.did);
  for (const auto& [start_ns, did] : slots) {
    StripStep* step = step_of(start_ns);
    if (!step) continue;
    step->cpu_ns = std::max(step->cpu_ns, did.cpu_ns);
    if (did.wait_ns > step->worst.wait_ns || (!step->worst.has_waits && did.has_waits))
      step->worst = did;
    step->worst.has_gpu |= did.has_gpu;
    step->worst.gpu_active_ns = std::max(step->worst.gpu_active_ns, did.gpu_active_ns);
  }
  return steps;
}

}  // namespace slotscope
