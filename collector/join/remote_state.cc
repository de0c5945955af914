// SPDX-License-Identifier: MIT
#include "join/remote_state.h"

#include <algorithm>

namespace slotscope {

void RemoteState::OnMemory(const RemoteMemory& memory) {
  Queue(memory.ts_ns, {Change::Kind::kMemory, memory, {}});
}

void RemoteState::OnStraggle(const RemoteStraggle& straggle) {
  Queue(straggle.ts_ns, {Change::Kind::kStraggle, {}, straggle});
}

void RemoteState::OnGone(uint64_t ts_ns) { Queue(ts_ns, {Change::Kind::kGone, {}, {}}); }

void RemoteState::Queue(uint64_t ts_ns, const Change& change) {
  if (queued_.size() >= kMaxQueued) {
    stats_.nr_rejected++;
    return;
  }
  stats_.nr_late += ts_ns < applied_ns_;
  queued_.emplace(std::max(ts_ns, applied_ns_), change);
}

void RemoteState::Prune(uint64_t now_ns) {
  constexpr uint64_t kPeriodNs = 1'000'000'000;  // it looks at all of them
  if (now_ns - pruned_ns_ < kPeriodNs) return;
  pruned_ns_ = now_ns;
  std::erase_if(processes_, [&](const auto& entry) { return entry.second.said_ns + kQuietNs < now_ns; });
}

RemoteState::Process* RemoteState::ProcessOf(int32_t tgid, uint64_t ts_ns) {
  if (processes_.size() >= kMaxProcesses) Prune(ts_ns);
  if (processes_.size() >= kMaxProcesses && !processes_.contains(tgid)) {
    stats_.nr_rejected++;
    return nullptr;
  }
  Process& process = processes_[tgid];
  process.said_ns = ts_ns;
  process.unheard_ns = 0;
  stats_.nr_joined++;
  return &process;
}

void RemoteState::Apply(uint64_t ts_ns, const Change& change) {
  if (change.kind == Change::Kind::kGone) {
    gone_ns_ = ts_ns;
    for (auto& [tgid, process] : processes_)
      if (process.unheard_ns == 0) process.unheard_ns = ts_ns;
    return;
  }
  if (change.kind == Change::Kind::kMemory) {
    Process* process = ProcessOf(change.memory.tgid, ts_ns);
    if (!process) return;
    if (process->bytes.size() < kMaxGpus || process->bytes.contains(change.memory.gpu_id))
      process->bytes[change.memory.gpu_id] = change.memory.bytes;
    else
      stats_.nr_rejected++;
    return;
  }
  Process* process = ProcessOf(change.straggle.tgid, ts_ns);
  if (!process) return;
  process->straggled_ns = std::max<uint64_t>(ts_ns, 1);
  process->sustained = change.straggle.sustained;
  process->drop_ppm = change.straggle.drop_ppm;
}

void RemoteState::Join(Slot* slot, Row* row, const Process& process, uint64_t end_ns) const {
  constexpr uint32_t kNoMemory = 1u << kGpuMemBytes;
  if (row->gpu == 0) {
    GpuRow nothing;
    nothing.unmeasured = (1u << kNrGpuValues) - 1;
    slot->gpu.push_back(nothing);
    row->gpu = static_cast<uint32_t>(slot->gpu.size());
  }
  GpuRow& gpu = slot->gpu[row->gpu - 1];
  if (!process.bytes.empty() && (gpu.unmeasured & kNoMemory)) {
    uint64_t sum = 0;
    for (const auto& [gpu_id, bytes] : process.bytes) sum += bytes;
    gpu.values[kGpuMemBytes] = sum;
    gpu.unmeasured &= ~kNoMemory;
  }
  if (process.straggled_ns == 0 || gpu.straggle != Straggle::kUnknown) return;
  if (end_ns - process.straggled_ns > kStraggleStaleNs) {
    if (process.unheard_ns != 0) return;  // who knows
    gpu.straggle = Straggle::kNone;
    gpu.drop_ppm = 0;
    return;
  }
  gpu.straggle = process.sustained ? Straggle::kSustained : Straggle::kInitial;
  gpu.drop_ppm = static_cast<uint32_t>(std::min<uint64_t>(process.drop_ppm, 1'000'000));
}

void RemoteState::OnSlot(Slot* slot) {
  const uint64_t end_ns = slot->end_ns;
  while (!queued_.empty() && queued_.begin()->first < end_ns) {
    Apply(queued_.begin()->first, queued_.begin()->second);
    queued_.erase(queued_.begin());
  }
  applied_ns_ = end_ns;
  if (gone_ns_ != 0) {
    std::erase_if(processes_, [&](const auto& entry) {
      return entry.second.unheard_ns != 0 && end_ns - entry.second.unheard_ns > kMemoryStaleNs;
    });
    if (end_ns - gone_ns_ > kMemoryStaleNs) gone_ns_ = 0;
  }
  if (!processes_.empty())
    for (Row& row : slot->rows) {
      if (!IsProcess(row.kind)) continue;
      auto found = processes_.find(row.key.tgid);
      if (found == processes_.end()) continue;
      if (found->second.said_ns < row.key.start_time_ns)
        processes_.erase(found);  // of another one, which had that number before
      else
        Join(slot, &row, found->second, end_ns);
    }
  next_->OnSlot(slot);
}

}  // namespace slotscope
