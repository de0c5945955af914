// SPDX-License-Identifier: MIT
#include "slots/slot_lengths.h"

#include <numeric>

namespace slotscope {
namespace {

uint64_t RoundUp(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace

void SlotLengths::Change(uint64_t from_ns, uint64_t slot_ns) {
  const Era last = eras_.back();
  slot_ns = std::max(RoundUp(slot_ns, shortest_ns_), shortest_ns_);
  if (slot_ns == last.slot_ns || eras_.size() >= kMaxEras) return;
  eras_.push_back({RoundUp(std::max(from_ns, last.from_ns), std::lcm(last.slot_ns, slot_ns)), slot_ns});
}

void SlotLengths::Forget(uint64_t before_ns) {
  while (eras_.size() > 1 && eras_[1].from_ns <= before_ns) eras_.erase(eras_.begin());
}

bool SlotLengths::IsValid() const {
  if (eras_.empty() || eras_.size() > kMaxEras) return false;
  for (size_t i = 0; i < eras_.size(); i++) {
    const Era& era = eras_[i];
    if (era.slot_ns == 0 || era.slot_ns % shortest_ns_ ||
        era.slot_ns > std::max(shortest_ns_, 2 * kMaxNs) || era.from_ns > UINT64_MAX / 2)
      return false;
    if (i > 0 && (era.from_ns < eras_[i - 1].from_ns || era.from_ns % era.slot_ns ||
                  era.from_ns % eras_[i - 1].slot_ns))
      return false;
  }
  return true;
}

}  // namespace slotscope
