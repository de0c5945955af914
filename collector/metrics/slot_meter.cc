// SPDX-License-Identifier: MIT
#include "metrics/slot_meter.h"

#include <algorithm>

#include "base/clock.h"

namespace slotscope {

void SlotMeter::OnSlot(Slot* slot) {
  Count(*slot);
  next_->OnSlot(slot);
}

void SlotMeter::Count(const Slot& slot) {
  const double latency_s =
      static_cast<double>(MonotonicNs() - std::min(slot.end_ns, MonotonicNs())) / 1e9;
  std::lock_guard lock(mutex_);
  counts_.nr_slots++;
  counts_.latency.Add(latency_s);
  counts_.wait_causes = slot.wait_causes;
  counts_.slot_ns = slot.end_ns - slot.start_ns;
  counts_.nr_processes = counts_.nr_gpu_processes = counts_.nr_straggling = 0;
  for (const Row& row : slot.rows) {
    counts_.cpu_ns[static_cast<size_t>(row.kind)] += row.sums[kCpuNs];
    if (!IsProcess(row.kind)) continue;
    counts_.nr_processes++;
    if (row.wait) AddCauses(slot.waits[row.wait - 1], &counts_.wait_ns);
    if (const uint64_t wait_ns = LongestWait(slot, row))
      counts_.wait.Add(static_cast<double>(wait_ns) / 1e9);
    if (row.gpu == 0) continue;
    const GpuRow& gpu = slot.gpu[row.gpu - 1];
    counts_.nr_gpu_processes++;
    counts_.nr_straggling += gpu.straggle == Straggle::kInitial || gpu.straggle == Straggle::kSustained;
    if (!(gpu.unmeasured >> kGpuLaunches & 1)) counts_.nr_gpu_launches += gpu.values[kGpuLaunches];
  }
  for (const WaitDetail& one : slot.wait_details) AddEarlierCause(one, &counts_.wait_ns);
  counts_.nr_straggle_reports += slot.straggles.size();
  pods_.OnSlot(slot);
}

}  // namespace slotscope
