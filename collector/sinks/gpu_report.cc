// SPDX-License-Identifier: MIT
#include "sinks/gpu_report.h"

#include <algorithm>

namespace slotscope {

GpuReport::Use* GpuReport::Find(ProcessKey process, int32_t device) {
  const Key key = {process, device};
  auto found = uses_.find(key);
  if (found != uses_.end()) return &found->second;
  if (uses_.size() >= kMaxUses) {
    nr_left_out_++;
    return nullptr;
  }
  return &uses_[key];
}

void GpuReport::OnSlot(Slot* slot) {
  for (const GpuPart& part : slot->gpu_detail.parts) {
    Use* const use = Find(part.process, part.device);
    if (!use) continue;
    if (part.comm[0]) use->comm = part.comm;
    if (part.gpu != kUnknownGpu) use->gpu = part.gpu;
    use->unmeasured |= part.row.unmeasured;
    use->peak_bytes = std::max(use->peak_bytes, part.row.values[kGpuMemBytes]);
    use->active_ns += part.row.values[kGpuActiveNs];
    use->nr_launches += part.row.values[kGpuLaunches];
    if (part.row.unmeasured >> kGpuNoWork & 1) continue;
    use->knows_no_work = true;
    use->no_work_ns += part.row.values[kGpuNoWork];
  }
  for (const MemorySpan& span : slot->gpu_detail.spans.memory) {
    if (!span.leaked || span.kind == SS_CUDA_HOST) continue;
    Use* const use = Find(span.process, span.device);
    if (!use) continue;
    use->nr_leaks++;
    use->leaked_bytes += span.bytes;
  }
  for (std::string& note : slot->notes)
    if (notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), note) == notes_.end())
      notes_.push_back(std::move(note));
}

}  // namespace slotscope
