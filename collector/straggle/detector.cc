// SPDX-License-Identifier: MIT
#include "straggle/detector.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace slotscope {
namespace {

// Of the processes with that number the one that is alive at the slot's end, or null.
const Row* FindRow(const Slot& slot, int32_t tgid) {
  const Row* found = nullptr;
  auto row = std::partition_point(slot.rows.begin(), slot.rows.end(), [&](const Row& one) {
    return (IsProcess(one.kind) || one.kind == RowKind::kIdle) && one.key.tgid < tgid;
  });
  for (; row != slot.rows.end() && IsProcess(row->kind) && row->key.tgid == tgid; ++row) found = &*row;
  return found;
}

uint32_t DropPpm(double rate, double baseline) {
  if (baseline <= 0 || rate >= baseline) return 0;
  return static_cast<uint32_t>((baseline - rate) / baseline * 1e6 + 0.5);
}

}  // namespace

void StraggleDetector::OnSlot(Slot* slot) {
  if (ticked_ns_ == 0) ticked_ns_ = slot->start_ns;
  if (!slot->gpu.empty() || !states_.empty()) Observe(slot);
  const uint64_t end_ns = slot->end_ns;
  slot->straggles.clear();
  for (ProcessKey key : slot->gpu_detail.ended) Forget(slot, key, end_ns);
  if (end_ns - ticked_ns_ >= kTickNs) Tick(slot, end_ns);
  next_->OnSlot(slot);
}

void StraggleDetector::Observe(Slot* slot) {
  for (const Row& row : slot->rows) {
    if (row.gpu == 0) continue;
    GpuRow& gpu = slot->gpu[row.gpu - 1];
    auto found = states_.find(row.key);
    if (found == states_.end()) {
      if (gpu.values[kGpuLaunches] == 0) continue;
      if (states_.size() >= kMaxProcesses) {
        nr_rejected_++;
        continue;
      }
      found = states_.try_emplace(row.key).first;
    }
    Watched& state = found->second;
    state.nr_launches += gpu.values[kGpuLaunches];
    state.unmeasured |= gpu.unmeasured >> kGpuLaunches & 1;
    state.nr_switches += row.sums[kSwitches];
    AddValues(*slot, row, kEffortColumns, &state.effort);
    if (row.named) {
      state.named = true;
      state.comm = row.comm;
    }
    gpu.straggle = state.straggle;
    gpu.drop_ppm = state.drop_ppm;
  }
  ObservePreemptions(*slot);
}

void StraggleDetector::ObservePreemptions(const Slot& slot) {
  for (const Preemption& preemption : slot.preemptions) {
    auto found = states_.find(preemption.victim);
    if (found == states_.end()) continue;
    auto& preemptors = found->second.preemptors;
    if (preemptors.size() >= kMaxPreemptors && !preemptors.contains(preemption.tgid)) {
      found->second.nr_left_out += preemption.nr > 0;
      continue;
    }
    auto [at, is_new] = preemptors.try_emplace(preemption.tgid);
    Preemptor& preemptor = at->second;
    if (is_new) preemptor.effort = kUnknownEffort;
    preemptor.tgid = preemption.tgid;
    preemptor.nr += preemption.nr;
    preemptor.ns += preemption.ns;
    const Row* row = FindRow(slot, preemption.tgid);
    if (!row) continue;
    if (!std::exchange(preemptor.has_row, true)) preemptor.effort = {};
    AddValues(slot, *row, kEffortColumns, &preemptor.effort);
    if (row->named) {
      preemptor.named = true;
      preemptor.comm = row->comm;
    }
  }
}

void StraggleDetector::Tick(Slot* slot, uint64_t now_ns) {
  for (auto at = states_.begin(); at != states_.end();)
    if (Decide(slot, at->first, &at->second, now_ns))
      ++at;
    else
      at = states_.erase(at);
  ticked_ns_ = now_ns;
}

// That it launches no more is no straggling.
void StraggleDetector::Forget(Slot* slot, ProcessKey key, uint64_t now_ns) {
  auto found = states_.find(key);
  if (found == states_.end()) return;
  Watched& state = found->second;
  if (state.episode_ns != 0 && now_ns > ticked_ns_)
    Report(slot, key, &state, StraggleReport::State::kResolved,
           static_cast<double>(state.nr_launches) * 1e9 / static_cast<double>(now_ns - ticked_ns_),
           now_ns);
  states_.erase(found);
}

bool StraggleDetector::Decide(Slot* slot, ProcessKey key, Watched* state, uint64_t now_ns) {
  const bool is_idle = state->nr_launches == 0 && state->nr_switches == 0 && !state->unmeasured;
  state->nr_idle_ticks = is_idle ? state->nr_idle_ticks + 1 : 0;
  const bool is_whole = std::exchange(state->has_ticked, true);
  if (state->unmeasured) state->straggle = Straggle::kUnknown;
  if (is_whole && !state->unmeasured) {
    const double rate =
        static_cast<double>(state->nr_launches) * 1e9 / static_cast<double>(now_ns - ticked_ns_);
    const bool is_known = state->nr_samples >= kMinSamples && state->baseline > 0;
    const bool dropped = is_known && rate < state->baseline * (1 - kDrop);
    const bool contended = state->nr_switches >= kManySwitches;
    const bool had_episode = state->episode_ns != 0;
    state->drop_ppm = DropPpm(rate, state->baseline);
    if (contended && (dropped || had_episode)) {
      if (!had_episode) {
        state->episode_ns = ticked_ns_;
        nr_episodes_++;
      }
      state->straggle = had_episode ? Straggle::kSustained : Straggle::kInitial;
      Report(slot, key, state,
             had_episode ? StraggleReport::State::kSustained : StraggleReport::State::kInitial, rate,
             now_ns);
    } else {
      if (had_episode) Report(slot, key, state, StraggleReport::State::kResolved, rate, now_ns);
      state->episode_ns = 0;
      state->baseline = state->nr_samples == 0 ? rate : kAlpha * rate + (1 - kAlpha) * state->baseline;
      state->nr_samples++;
      if (is_known) state->straggle = Straggle::kNone;
    }
  }
  state->nr_launches = state->nr_switches = state->nr_left_out = 0;
  state->unmeasured = false;
  state->effort = {};
  state->preemptors.clear();
  return state->nr_idle_ticks < kMaxIdleTicks;
}

void StraggleDetector::Report(Slot* slot, ProcessKey key, Watched* state, StraggleReport::State what,
                              double rate, uint64_t now_ns) const {
  StraggleReport& report = slot->straggles.emplace_back();
  report = {what,
            key,
            state->named,
            state->comm,
            state->episode_ns,
            ticked_ns_,
            now_ns,
            state->drop_ppm,
            rate,
            state->baseline,
            state->nr_switches,
            state->effort,
            {},
            state->nr_left_out};
  for (const auto& [tgid, preemptor] : state->preemptors) report.preemptors.push_back(preemptor);
  std::stable_sort(report.preemptors.begin(), report.preemptors.end(),
                   [](const Preemptor& a, const Preemptor& b) {
                     return std::tie(b.ns, b.nr) < std::tie(a.ns, a.nr);
                   });
}

}  // namespace slotscope
