// SPDX-License-Identifier: MIT
#include "report/tracks.h"

#include <algorithm>

namespace slotscope {
namespace {

// So that what is little is not nothing.
uint32_t Steps(uint64_t amount, uint64_t step) {
  const uint64_t steps = amount ? std::max<uint64_t>(1, (amount + step / 2) / step) : 0;
  return static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX));
}

void Add(uint32_t steps, uint32_t* to) {
  *to = static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, uint64_t{*to} + steps));
}

}  // namespace

Tracks::Tracks(const UnixRange& range) : range_(range) {
  const int64_t nr = std::clamp<int64_t>((range.to_ns - range.from_ns) / kMsNs, 0, kMostMs);
  const auto nr_ms = static_cast<size_t>(nr);
  machine_.is_recorded.resize(nr_ms);
  for (auto* values : {&machine_.cpu, &machine_.wait, &machine_.lost, &machine_.gpu, &machine_.no_work,
                       &machine_.traffic})
    values->resize(nr_ms);
}

Track& Tracks::TrackOf(const SlotRow& row) {
  const auto [place, is_new] = places_.try_emplace(row.key, processes_.size());
  if (is_new) processes_.emplace_back().key = row.key;
  Track& track = processes_[place->second];
  if (track.comm != row.comm) track.comm = row.comm;
  track.is_kernel = row.kind == "kernel";
  return track;
}

// A long slot is as much in each of its milliseconds.
void Tracks::OnRow(const SlotRow& row) {
  const int64_t length_ms = std::max<int64_t>(1, row.slot_ns / kMsNs);
  longest_slot_ms_ = std::max(longest_slot_ms_, length_ms);
  nr_rows_++;
  const auto length = static_cast<uint64_t>(length_ms);
  uint64_t wait_ns = 0;
  for (const uint64_t ns : row.wait_ns) wait_ns += ns;
  const bool is_idle = row.kind == "idle" || row.kind == "offline", is_lost = row.kind == "lost";
  const uint32_t cpu = Steps(row.cpu_ns / length, kStepNs), wait = Steps(wait_ns / length, kStepNs);
  const uint32_t gpu = Steps(row.gpu_active_ns / length, kStepNs);
  const uint32_t no_work = Steps(row.gpu[kGpuNoWork] / length, kStepNs);
  const uint32_t traffic = Steps(row.traffic_bytes / length, kStepBytes);
  machine_.has_waits |= row.has_waits;
  machine_.has_gpu |= row.has_gpu;
  machine_.has_no_work |= row.launches;
  machine_.has_traffic |= row.has_traffic;
  machine_.has_counters |= row.has_counters;
  Track* track = row.key.tgid > 0 && !is_lost && !is_idle ? &TrackOf(row) : nullptr;
  if (track) track->has_gpu |= row.has_gpu;
  for (int64_t i = 0; i < length_ms; i++) {
    const int64_t at_ns = row.start_ns - range_.from_ns + i * kMsNs;
    if (at_ns < 0 || at_ns / kMsNs >= static_cast<int64_t>(nr_ms())) continue;
    const auto ms = static_cast<size_t>(at_ns / kMsNs);
    machine_.is_recorded[ms] = 1;
    Add(traffic, &machine_.traffic[ms]);
    Add(gpu, &machine_.gpu[ms]);
    Add(no_work, &machine_.no_work[ms]);
    if (is_idle) continue;
    Add(cpu, is_lost ? &machine_.lost[ms] : &machine_.cpu[ms]);
    Add(wait, &machine_.wait[ms]);
    if (!track) continue;
    track->cpu += cpu;
    track->wait += wait;
    // Slots need not begin where a millisecond does: two may begin in one.
    if (!track->rows.empty() && track->rows.back().ms == ms) {
      Add(cpu, &track->rows.back().cpu);
      Add(wait, &track->rows.back().wait);
      Add(gpu, &track->rows.back().gpu);
    } else {
      track->rows.push_back({static_cast<uint32_t>(ms), cpu, wait, gpu});
    }
  }
}

}  // namespace slotscope
