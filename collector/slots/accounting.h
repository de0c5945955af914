// SPDX-License-Identifier: MIT
// The accounting identity, checked as the run goes.
#pragma once

#include <cstdint>

#include "slots/slot.h"

namespace slotscope {

// The same for bytes of memory traffic. Those of an RMID that nobody is known to have had, or of a
// domain that is not known, are unowned.
struct MbmAccounting {
  MbmSums received = {};
  MbmSums written = {};
  MbmSums late = {};
  MbmSums before = {};
  MbmSums after = {};
  MbmSums unowned = {};

  bool Holds(size_t i) const {
    return received[i] == written[i] + late[i] + before[i] + after[i] + unowned[i];
  }
  bool Holds() const { return Holds(kMbmTotal) && Holds(kMbmLocal); }
};

// And for the perf counters that come behind the first ones.
struct MoreAccounting {
  MoreSums received = {};
  MoreSums written = {};
  MoreSums late = {};
  MoreSums before = {};
  MoreSums after = {};

  bool Holds(size_t i) const {
    const auto holds = [&](auto of) {
      return received[i].*of == written[i].*of + late[i].*of + before[i].*of + after[i].*of;
    };
    return holds(&ss_counter::delta) && holds(&ss_counter::enabled_ns) && holds(&ss_counter::running_ns);
  }
  bool Holds() const {
    for (size_t i = 0; i < SS_MAX_MORE; i++)
      if (!Holds(i)) return false;
    return true;
  }
};

// Per run, for every additive counter: received = written + late + before the first slot + after the
// last one. Per slot: the cpu_ns of all rows add up to its length times the number of CPUs.
struct Accounting {
  Sums received = {};
  Sums written = {};  // as it stands in the retired slots, without rows of kind lost and offline
  Sums late = {};
  Sums before = {};
  Sums after = {};
  uint64_t wait_earlier_ns = 0;  // of kWaitNs: written as such, see WaitRow
  uint64_t nr_broken_waits = 0;  // rows whose causes of waiting did not add up
  MbmAccounting mbm;
  MoreAccounting more;
  uint64_t nr_slots = 0;
  uint64_t slots_ns = 0;         // the length of all of them
  uint64_t nr_broken_slots = 0;  // where cpu_ns did not add up
  uint64_t lost_ns = 0;          // in rows of kind lost
  uint64_t offline_ns = 0;

  uint64_t earlier(size_t i) const { return i == kWaitNs ? wait_earlier_ns : 0; }
  bool Holds() const {
    if (nr_broken_slots > 0 || nr_broken_waits > 0) return false;
    for (size_t i = 0; i < kNrAdditive; i++)
      if (received[i] != written[i] + earlier(i) + late[i] + before[i] + after[i]) return false;
    return mbm.Holds() && more.Holds();
  }
};

}  // namespace slotscope
