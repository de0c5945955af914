// SPDX-License-Identifier: MIT
#include "straggle/detector.h"

#include <algorithm>
#include <utility>

namespace slotscope {
namespace {

const Row* FindRow(const Slot& slot, const ProcessKey& key) {
  const auto row = std::partition_point(slot.rows.begin(), slot.rows.end(), [&](const Row& one) {
    return (IsProcess(one.kind) || one.kind == RowKind::kIdle) && one.key < key;
  });
  return row != slot.rows.end() && IsProcess(row->kind) && row->key == key ? &*row : nullptr;
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
    AddValues(*slot, row, kNoWorkColumns, &state.no_work);
    AddValues(*slot, row, kWaitCauseColumns, &state.wait_causes);
    if (row.named) {
      state.named = true;
      state.comm = row.comm;
    }
    gpu.straggle = state.straggle;
    gpu.drop_ppm = state.drop_ppm;
  }
  ObserveWaits(*slot);
}

void StraggleDetector::ObserveWaits(const Slot& slot) {
  for (const WaitDetail& one : slot.wait_details) {    // those of a waiter are one behind the other
    if (!one.has_ran() || one.is_earlier()) continue;  // values beside it are of the slot
    auto found = states_.find(one.waiter);
    if (found == states_.end()) continue;
    auto& ran_instead = found->second.ran_instead;
    if (ran_instead.size() >= kMaxRanInstead && !ran_instead.contains(one.ran)) {
      found->second.left_out_ns += one.ns;
      continue;
    }
    auto [at, is_new] = ran_instead.try_emplace(one.ran);
    RanInstead& ran = at->second;
    if (is_new) ran.effort = kUnknownEffort;
    ran.ns += one.ns;
    if (one.ran_comm != Comm{}) {
      ran.named = true;
      ran.comm = one.ran_comm;
    }
    if (ran.slot_ns == slot.start_ns) continue;  // it ran on several CPUs
    ran.slot_ns = slot.start_ns;
    const Row* row = FindRow(slot, one.ran);
    if (!row) continue;
    if (!std::exchange(ran.has_row, true)) ran.effort = {};
    AddValues(slot, *row, kEffortColumns, &ran.effort);
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
    state->nr_recovered = had_episode && !dropped ? state->nr_recovered + 1 : 0;
    const bool goes_on = had_episode && state->nr_recovered < kRecoveredTicks;
    if (contended && (dropped || goes_on)) {
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
  state->nr_launches = state->nr_switches = state->left_out_ns = 0;
  state->unmeasured = false;
  state->effort = {};
  state->no_work = {};
  state->wait_causes = {};
  state->ran_instead.clear();
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
            {state->ran_instead.begin(), state->ran_instead.end()},
            has_waits_,
            state->left_out_ns,
            state->no_work,
            state->wait_causes};
  std::stable_sort(report.ran_instead.begin(), report.ran_instead.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
}

}  // namespace slotscope
