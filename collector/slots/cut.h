// SPDX-License-Identifier: MIT
// What a measure adds up to, and what of that falls to which piece of its time.
//
// A piece is what the rounded-down share grows by, so the last one gets the remainders. What happened at
// one moment is not split: a wait and a migration ended when the process was switched in; switches ended
// the interval, or, under a tick, were among its threads some time before.
#pragma once

#include <slotscope/events.h>

#include <cstdint>

#include "slots/share.h"
#include "slots/slot.h"

namespace slotscope {

// Bits of `unmeasured` (Additive) say what it does not know.
struct Addends {
  Sums sums;
  uint32_t unmeasured;
};

// Of a measure that does not know everything.
[[gnu::noinline]] inline Addends PartialAddendsOf(const ss_measure& measure) {
  Addends addends = {};
  addends.sums[kCpuNs] = measure.hdr.ts_ns - measure.start_ns;
  addends.sums[kWaitNs] = measure.wait_ns;
  addends.sums[kSwitches] = measure.switches;
  addends.sums[kPreemptions] = measure.preemptions;
  addends.sums[kMigrations] = measure.migrations;
  if (measure.flags & SS_MEASURE_NO_WAIT) addends.unmeasured |= 1u << kWaitNs;
  // From the last to the first, so that the times are those of the first that was measured.
  for (size_t i = SS_NR_COUNTERS; i-- > 0;) {
    const ss_counter& counter = measure.counters[i];
    if (counter.running_ns == 0) {
      addends.unmeasured |= 1u << (kCycles + i);
      continue;
    }
    addends.sums[kCycles + i] = counter.delta;
    addends.sums[kEnabledNs] = counter.enabled_ns;
    addends.sums[kRunningNs] = counter.running_ns;
  }
  if (addends.sums[kRunningNs] == 0) addends.unmeasured |= 1u << kEnabledNs;
  return addends;
}

inline Addends AddendsOf(const ss_measure& measure) {
  const auto& counters = measure.counters;
  if (counters[0].running_ns == 0 || counters[1].running_ns == 0 || counters[2].running_ns == 0 ||
      (measure.flags & SS_MEASURE_NO_WAIT))
    return PartialAddendsOf(measure);
  return {{measure.hdr.ts_ns - measure.start_ns, measure.wait_ns, measure.switches, measure.preemptions,
           counters[SS_CYCLES].delta, counters[SS_INSTRUCTIONS].delta, counters[SS_LLC_MISSES].delta,
           counters[0].enabled_ns, counters[0].running_ns, measure.migrations},
          0};
}

// What falls to [start_ns, at_ns) of a measure. `whole`: what it adds up to. REQUIRES: at_ns is behind
// its start and before its end.
inline Sums SumsUntil(const ss_measure& measure, const Sums& whole, uint64_t at_ns) {
  const uint64_t part_ns = at_ns - measure.start_ns;
  const auto share = [&](Additive of) { return Share(whole[of], part_ns, whole[kCpuNs]); };
  const bool tick = measure.flags & SS_MEASURE_TICK;
  return {part_ns,
          whole[kWaitNs],
          tick ? whole[kSwitches] : 0,
          tick ? whole[kPreemptions] : 0,
          share(kCycles),
          share(kInstructions),
          share(kLlcMisses),
          share(kEnabledNs),
          share(kRunningNs),
          whole[kMigrations]};
}

class Cut {
 public:
  // Both outlive the cut. REQUIRES: the measure is of some length.
  Cut(const ss_measure& measure, const Sums& whole) : measure_(measure), whole_(whole) {}

  // What has not been taken of the measure up to at_ns, which is behind its start, not behind its end,
  // and never goes back.
  Sums TakeUntil(uint64_t at_ns) {
    const Sums until = at_ns == measure_.hdr.ts_ns ? whole_ : SumsUntil(measure_, whole_, at_ns);
    const Sums piece = Difference(until, taken_);
    taken_ = until;
    return piece;
  }
  // All that has not been taken.
  Sums left() const { return Difference(whole_, taken_); }

 private:
  const ss_measure& measure_;
  const Sums& whole_;
  Sums taken_ = {};
};

}  // namespace slotscope
