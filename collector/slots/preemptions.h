// SPDX-License-Identifier: MIT
// Finds who preempts the processes that use GPUs, in the measures of each CPU.
//
// A measure ends with a preemption if one of its switches was against its process's will, and another
// process runs next: that one. The measures that follow on the CPU are what it took, as long as it runs
// on. While a CPU switches very often sums come in place of measures (slotscope/batch.h): then the last
// preemptor is known, and the times are not.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <vector>

#include "slots/open_slot.h"
#include "slots/preemption.h"

namespace slotscope {

class Preemptions {
 public:
  // Of different ones in an open slot, our own limit: beyond it new ones are not kept.
  static constexpr size_t kMaxPerSlot = 4096;

  // From now on these, in order. None: OnMeasure() need not be called.
  void Watch(const std::vector<ProcessKey>& victims) { victims_ = victims; }
  bool on() const { return !victims_.empty(); }
  // Every measure of each CPU, in the order of its time. `slot`: the one in which it ends.
  void OnMeasure(const ss_measure& measure, OpenSlot* slot);
  // One for each victim and preemptor, in order.
  static void Fold(std::vector<Preemption>* preemptions);
  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state) {
    state(victims_, cpus_);
  }

 private:
  struct Cpu {
    ProcessKey victim = {};
    int32_t tgid = 0;  // who took it from the victim, 0: nobody

    template <typename Archive>
    void State(Archive& state) {
      state(victim, tgid);
    }
  };

  bool IsVictim(ProcessKey key) const;

  std::vector<ProcessKey> victims_;
  std::vector<Cpu> cpus_;
};

}  // namespace slotscope
