// SPDX-License-Identifier: MIT
#include "slots/preemptions.h"

#include <algorithm>
#include <tuple>

namespace slotscope {

bool Preemptions::IsVictim(ProcessKey key) const {
  return std::binary_search(victims_.begin(), victims_.end(), key);
}

void Preemptions::OnMeasure(const ss_measure& measure, OpenSlot* slot) {
  const size_t index = measure.hdr.cpu;
  if (index >= cpus_.size()) cpus_.resize(index + 1);
  Cpu& cpu = cpus_[index];
  if (slot->preemptions.size() >= kMaxPerSlot) Fold(&slot->preemptions);
  const bool has_room = slot->preemptions.size() < kMaxPerSlot;
  if (cpu.tgid != 0) {
    const bool is_it = cpu.tgid == measure.tgid && !(measure.flags & SS_MEASURE_UNKNOWN);
    if (is_it && has_room)
      slot->preemptions.push_back({cpu.victim, cpu.tgid, 0, measure.hdr.ts_ns - measure.start_ns});
    if (!is_it || measure.next_tgid != measure.tgid) cpu.tgid = 0;
  }
  const ProcessKey key = {measure.tgid, measure.start_time_ns};
  if (measure.preemptions == 0 || measure.next_tgid <= 0 || measure.next_tgid == measure.tgid ||
      (measure.flags & (SS_MEASURE_UNKNOWN | SS_MEASURE_IDLE)) || !IsVictim(key))
    return;
  cpu = {key, measure.next_tgid};
  if (has_room) slot->preemptions.push_back({key, measure.next_tgid, 1, 0});
}

void Preemptions::Fold(std::vector<Preemption>* preemptions) {
  std::sort(preemptions->begin(), preemptions->end(), [](const Preemption& a, const Preemption& b) {
    return std::tie(a.victim, a.tgid) < std::tie(b.victim, b.tgid);
  });
  auto out = preemptions->begin();
  for (auto at = preemptions->begin(); at != preemptions->end(); ++out) {
    *out = *at;
    for (++at; at != preemptions->end() && at->victim == out->victim && at->tgid == out->tgid; ++at) {
      out->nr += at->nr;
      out->ns += at->ns;
    }
  }
  preemptions->erase(out, preemptions->end());
}

}  // namespace slotscope
