// SPDX-License-Identifier: MIT
#include "fleet/observer.h"

#include <algorithm>

namespace slotscope {
namespace {

constexpr size_t kMaxPlaces = 4096;
constexpr size_t kMaxProcesses = 65536;

}  // namespace

void NodeObserver::OnSlot(Slot* slot) {
  if (begin_ns_ == 0) begin_ns_ = slot->start_ns;
  Add(*slot);
  const uint64_t end_ns = slot->end_ns;
  if (end_ns - begin_ns_ >= interval_ns_) {
    observe_({end_ns, slot->unix_offset_ns, Take(), !processes_.empty()});
    begin_ns_ = end_ns;
  }
  next_->OnSlot(slot);
}

void NodeObserver::Add(const Slot& slot) {
  covered_ns_ += slot.end_ns - slot.start_ns;
  for (const Row& row : slot.rows) {
    if (row.kind == RowKind::kOffline || row.kind == RowKind::kLost) continue;
    cpu_ns_ += row.sums[kCpuNs];
    if (row.kind == RowKind::kIdle) idle_ns_ += row.sums[kCpuNs];
  }
  AddGpus(slot.gpu_detail);
}

// Of what is observed here: rows may also have what another producer says.
void NodeObserver::AddGpus(const GpuDetail& detail) {
  active_in_slot_ns_.clear();
  for (const GpuPart& part : detail.parts) {
    if (processes_.size() < kMaxProcesses) processes_.insert(part.process);
    if (part.row.unmeasured & (1u << kGpuLaunches | 1u << kGpuActiveNs)) is_unmeasured_ = true;
    nr_launches_ += part.row.values[kGpuLaunches];
    const Place place = part.gpu == kUnknownGpu ? Place{part.process, part.device} : Place{{}, part.gpu};
    uint64_t& active_ns = active_in_slot_ns_[place];
    active_ns = std::max(active_ns, part.row.values[kGpuActiveNs]);
  }
  // Of several processes: while any is active. Known only if it is known which device is whose.
  for (const GpuTotal& total : detail.totals)
    if (!(total.row.unmeasured >> kGpuActiveNs & 1))
      if (auto at = active_in_slot_ns_.find({{}, total.gpu}); at != active_in_slot_ns_.end())
        at->second = total.row.values[kGpuActiveNs];
  for (const auto& [place, ns] : active_in_slot_ns_)
    if (active_ns_.size() < kMaxPlaces || active_ns_.contains(place)) active_ns_[place] += ns;
  for (const ProcessKey& process : detail.ended) processes_.erase(process);
}

std::optional<Signals> NodeObserver::Take() {
  const std::optional<double> headroom = headroom_();
  std::optional<Signals> signals;
  // Half of it, or more, fell into a gap.
  if (!is_unmeasured_ && headroom && cpu_ns_ > 0 && covered_ns_ * 2 > interval_ns_) {
    const auto covered_ns = static_cast<double>(covered_ns_);
    double active_ns = 0;
    for (const auto& [place, ns] : active_ns_)
      active_ns += std::min(static_cast<double>(ns), covered_ns);
    const auto nr_places = static_cast<double>(std::max<size_t>(active_ns_.size(), 1));
    signals = {static_cast<double>(nr_launches_) / covered_ns * 1e9, active_ns / nr_places / covered_ns,
               *headroom, static_cast<double>(idle_ns_) / static_cast<double>(cpu_ns_)};
  }
  const bool any =
      std::any_of(active_ns_.begin(), active_ns_.end(), [](const auto& at) { return at.second > 0; });
  std::erase_if(active_ns_, [&](const auto& at) { return !any || at.first.process != ProcessKey{}; });
  for (auto& [place, ns] : active_ns_) ns = 0;
  covered_ns_ = nr_launches_ = cpu_ns_ = idle_ns_ = 0;
  is_unmeasured_ = false;
  return signals;
}

}  // namespace slotscope
