// SPDX-License-Identifier: MIT
#include "gpu/machine.h"

#include <algorithm>

namespace slotscope {

void GpuMachine::OnView(int32_t tgid, std::span<const int32_t> gpus, uint64_t ts_ns) {
  if (views_.size() >= kMaxViewers && !views_.contains(tgid)) return;
  std::vector<View>& views = views_[tgid];
  if (views.size() >= kMaxViews) views.erase(views.begin());
  views.push_back({ts_ns, {gpus.begin(), gpus.end()}});
}

void GpuMachine::OnSample(const GpuSample& sample, uint64_t ts_ns) {
  if (sample.gpu >= gpus_.size() || samples_.size() >= kMaxSamples) return;
  samples_.push_back({ts_ns, sample});
}

void GpuMachine::OnExit(int32_t tgid, uint64_t ts_ns) {
  auto found = views_.find(tgid);
  if (found == views_.end()) return;
  std::erase_if(found->second, [&](const View& view) { return view.ts_ns <= ts_ns; });
  if (found->second.empty()) views_.erase(found);
}

// The first one that was taken after it began, or null.
const GpuMachine::View* GpuMachine::FindView(ProcessKey process) const {
  auto found = views_.find(process.tgid);
  if (found == views_.end()) return nullptr;
  auto view = std::find_if(found->second.begin(), found->second.end(),
                           [&](const View& one) { return one.ts_ns >= process.start_time_ns; });
  return view == found->second.end() ? nullptr : &*view;
}

int32_t GpuMachine::FindDevice(ProcessKey process, int32_t device) const {
  const View* const view = FindView(process);
  if (!view || device < 0 || static_cast<size_t>(device) >= view->gpus.size()) return kUnknownGpu;
  const int32_t gpu = view->gpus[static_cast<size_t>(device)];
  return has(gpu) && !gpus_[static_cast<size_t>(gpu)].divided ? gpu : kUnknownGpu;
}

int32_t GpuMachine::FindUuid(const GpuUuid& uuid) const {
  for (size_t i = 0; i < gpus_.size(); i++) {
    GpuUuid own;
    if (!gpus_[i].divided && ParseGpuUuid(gpus_[i].uuid, &own) && own == uuid)
      return static_cast<int32_t>(i);
  }
  return kUnknownGpu;
}

void GpuMachine::Begin(int32_t gpu, uint64_t ns) {
  if (has(gpu)) use(gpu).activity.Begin(ns);
}

void GpuMachine::End(int32_t gpu, uint64_t ns) {
  if (has(gpu)) use(gpu).activity.End(ns);
}

void GpuMachine::Standing::AddUnmeasured(uint32_t unmeasured, int32_t sign) {
  for (size_t i = 0; i < kNrGpuValues; i++)
    if (unmeasured >> i & 1) nr_unmeasured[i] += static_cast<uint32_t>(sign);
}

uint32_t GpuMachine::Standing::unmeasured() const {
  uint32_t bits = 0;
  for (size_t i = 0; i < kNrGpuValues; i++) bits |= uint32_t{nr_unmeasured[i] > 0} << i;
  return bits;
}

// Each GPU that it sees; null: one that is not known.
template <typename Fn>
void GpuMachine::ForEachSeen(ProcessKey process, const Fn& on_use) {
  const View* const view = FindView(process);
  if (!view) return on_use(static_cast<Use*>(nullptr));
  for (const int32_t gpu : view->gpus)
    on_use(has(gpu) && !gpus_[static_cast<size_t>(gpu)].divided ? &use(gpu) : nullptr);
}

void GpuMachine::AddUnmeasured(ProcessKey process, uint32_t unmeasured) {
  if (!unmeasured) return;
  ForEachSeen(process,
              [&](Use* seen) { (seen ? seen->total.row.unmeasured : unplaced_) |= unmeasured; });
}

void GpuMachine::AddStandingUnmeasured(ProcessKey process, uint32_t unmeasured, int32_t sign) {
  if (!unmeasured) return;
  ForEachSeen(process, [&](Use* seen) {
    (seen ? seen->standing : unplaced_standing_).AddUnmeasured(unmeasured, sign);
  });
}

// What is on a GPU that is not known may be on any.
uint32_t GpuMachine::UnplacedOf(const GpuPart& part) {
  uint32_t unplaced = 0;
  for (size_t i = 0; i < kNrGpuValues; i++) unplaced |= uint32_t{part.row.values[i] > 0} << i;
  return unplaced;
}

void GpuMachine::AddStanding(const GpuPart& part, int32_t sign) {
  if (!has(part.gpu)) return unplaced_standing_.AddUnmeasured(UnplacedOf(part), sign);
  Standing& standing = use(part.gpu).standing;
  standing.AddUnmeasured(part.row.unmeasured, sign);
  for (size_t i = 0; i < kNrGpuValues; i++)
    standing.values[i] += sign > 0 ? part.row.values[i] : 0 - part.row.values[i];
}

void GpuMachine::Add(const GpuPart& part) {
  if (!has(part.gpu)) {
    unplaced_ |= UnplacedOf(part);
    return;
  }
  Use& here = use(part.gpu);
  here.any |= part.row.any;
  here.total.row.unmeasured |= part.row.unmeasured;
  for (size_t i = 0; i < kNrGpuValues; i++)
    if (i != kGpuActiveNs) here.total.row.values[i] += part.row.values[i];  // that one is of spans
}

void GpuMachine::TakeSlot(uint64_t end_ns, std::vector<GpuTotal>* totals) {
  for (; !samples_.empty() && samples_.front().ts_ns < end_ns; samples_.pop_front()) {
    const auto& [ts_ns, sample] = samples_.front();
    Use& here = uses_[sample.gpu];
    here.any = true;
    here.total.known = (here.total.known & ~kGpuSampleUsed) | (sample.known & kGpuSampleUsed);
    here.total.used_bytes = sample.used_bytes;
    here.used_ns = ts_ns;
    if (!(sample.known & kGpuSampleSmActive)) continue;
    here.total.known |= kGpuSampleSmActive;
    here.total.sm_active_ppm = std::min<uint64_t>(sample.sm_active_ppm, 1'000'000);
    here.total.sm_since_ns = std::min(sample.since_ns, ts_ns);
    here.total.sm_until_ns = ts_ns;
  }
  unplaced_ |= unplaced_standing_.unmeasured();
  for (size_t i = 0; i < uses_.size(); i++) {
    Use& here = uses_[i];
    here.total.gpu = static_cast<int32_t>(i);
    for (size_t value = 0; value < kNrGpuValues; value++)
      here.total.row.values[value] += here.standing.values[value];
    here.total.row.unmeasured |= here.standing.unmeasured();
    here.total.row.values[kGpuActiveNs] = here.activity.Take(end_ns);
    here.any |= here.total.row.values[kGpuActiveNs] > 0;
    here.total.row.any = here.any;
    // Why is asked of a process.
    here.total.row.unmeasured |= unplaced_ | kOfLaunches;
    if (here.total.sm_until_ns + kMaxSampleAgeNs < end_ns) here.total.known &= ~kGpuSampleSmActive;
    if (here.used_ns + kMaxSampleAgeNs < end_ns) here.total.known &= ~kGpuSampleUsed;
    if (here.any) totals->push_back(here.total);
    here.any = false;
    here.total.row = {};
  }
  unplaced_ = 0;
}

}  // namespace slotscope
