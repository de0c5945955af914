// SPDX-License-Identifier: MIT
#include "fleet/observer.h"

#include <algorithm>

namespace slotscope {
namespace {

constexpr size_t kMaxPlaces = 4096;

}  // namespace

void NodeObserver::OnSlot(Slot* slot) {
  if (begin_ns_ == 0) begin_ns_ = slot->start_ns;
  Add(*slot);
  const uint64_t end_ns = slot->start_ns + slot_ns_;
  if (end_ns - begin_ns_ >= interval_ns_) {
    observe_({end_ns, slot->unix_offset_ns, Take()});
    begin_ns_ = end_ns;
  }
  next_->OnSlot(slot);
}

void NodeObserver::Add(const Slot& slot) {
  covered_ns_ += slot_ns_;
  for (const Row& row : slot.rows) {
    if (row.kind == RowKind::kOffline || row.kind == RowKind::kLost) continue;
    cpu_ns_ += row.sums[kCpuNs];
    if (row.kind == RowKind::kIdle) idle_ns_ += row.sums[kCpuNs];
    if (row.gpu == 0) continue;
    const GpuRow& gpu = slot.gpu[row.gpu - 1];
    if (gpu.unmeasured >> kGpuLaunches & 1)
      is_unmeasured_ = true;
    else
      nr_launches_ += gpu.values[kGpuLaunches];
  }
  AddActive(slot);
}

// A GPU's own time says more than the sum of its processes', but needs to know whose each device is.
void NodeObserver::AddActive(const Slot& slot) {
  const auto is_measured = [](const GpuTotal& total) {
    return !(total.row.unmeasured >> kGpuActiveNs & 1);
  };
  const auto& totals = slot.gpu_detail.totals;
  for (const GpuTotal& total : totals)
    if (is_measured(total)) AddActive({{}, total.gpu}, total.row);
  for (const GpuPart& part : slot.gpu_detail.parts)
    if (std::none_of(totals.begin(), totals.end(),
                     [&](const GpuTotal& total) { return total.gpu == part.gpu && is_measured(total); }))
      AddActive({part.process, part.device}, part.row);
}

void NodeObserver::AddActive(const Place& place, const GpuRow& row) {
  if (row.unmeasured >> kGpuActiveNs & 1) {
    is_unmeasured_ = true;
  } else if (row.values[kGpuActiveNs] > 0) {
    if (active_ns_.size() < kMaxPlaces || active_ns_.contains(place))
      active_ns_[place] += row.values[kGpuActiveNs];
  }
}

std::optional<Signals> NodeObserver::Take() {
  const std::optional<double> headroom = headroom_();
  std::optional<Signals> signals;
  // Half of it, or more, fell into a gap.
  if (!is_unmeasured_ && headroom && cpu_ns_ > 0 && covered_ns_ * 2 > interval_ns_) {
    const auto covered_ns = static_cast<double>(covered_ns_);
    double active_ns = 0;
    for (const auto& [place, ns] : active_ns_) active_ns += static_cast<double>(ns);
    const auto nr_places = static_cast<double>(std::max<size_t>(active_ns_.size(), 1));
    signals = {static_cast<double>(nr_launches_) / covered_ns * 1e9,
               std::min(active_ns / nr_places / covered_ns, 1.0), *headroom,
               static_cast<double>(idle_ns_) / static_cast<double>(cpu_ns_)};
  }
  if (std::all_of(active_ns_.begin(), active_ns_.end(), [](const auto& at) { return at.second == 0; }))
    active_ns_.clear();
  for (auto& [place, ns] : active_ns_) ns = 0;
  covered_ns_ = nr_launches_ = cpu_ns_ = idle_ns_ = 0;
  is_unmeasured_ = false;
  return signals;
}

}  // namespace slotscope
