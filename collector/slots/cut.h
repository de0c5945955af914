// SPDX-License-Identifier: MIT
// A measure of some length, of which piece after piece is taken.
//
// A piece is what the rounded-down share grows by, so the last one gets the remainders. What happened at
// one moment is not split: a wait ended when the process was switched in, at the start; switches ended
// the interval, or, under a tick, were among its threads some time before.
#pragma once

#include <slotscope/events.h>

#include <cstdint>

#include "slots/slot.h"

namespace slotscope {

class Cut {
 public:
  // `whole`: what the measure adds up to. Both outlive the cut. REQUIRES: the measure is of some length.
  Cut(const ss_measure& measure, const Sums& whole) : measure_(measure), whole_(whole), left_(whole) {}

  // What is left of the measure up to at_ns, which is not behind its end.
  Sums TakeUntil(uint64_t at_ns);
  // All that is left.
  const Sums& left() const { return left_; }

 private:
  const ss_measure& measure_;
  const Sums& whole_;
  Sums left_;
};

}  // namespace slotscope
