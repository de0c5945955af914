// SPDX-License-Identifier: MIT
// Finds processes that launch fewer kernels than they used to while others take the CPU from them.
//
// Once a second of slot time each process that launches kernels is judged: has its rate fallen by kDrop
// against its own baseline, and was it switched out often? Both together begin an episode. It goes on
// until the first second without many switches, or until the drop has been gone for kRecoveredTicks: on
// a CPU that is shared switches do not end. Its baseline rests meanwhile. (As the tool whose protocol we
// speak does it, except that there only an end of the switches ends an episode, that here only the first
// message of one is not `sustained`, and that a second of which calls were lost decides nothing.)
#pragma once

#include <cstdint>
#include <map>

#include "slots/slot.h"

namespace slotscope {

class StraggleDetector final : public SlotSink {
 public:
  static constexpr uint64_t kTickNs = 1'000'000'000;
  static constexpr double kDrop = 0.30;
  static constexpr uint64_t kManySwitches = 5;  // in a tick
  static constexpr uint32_t kRecoveredTicks = 3;
  static constexpr double kAlpha = 0.2;
  static constexpr uint32_t kMinSamples = 3;
  static constexpr uint32_t kMaxIdleTicks = 30;  // then it is forgotten
  static constexpr size_t kMaxProcesses = 4096;  // our own limits
  static constexpr size_t kMaxRanInstead = 64;   // of a process in a tick

  // Fills in what rows say of straggling, adds reports, and passes each slot on. `has_waits`: slots say
  // who ran while others waited.
  StraggleDetector(bool has_waits, SlotSink* next) : has_waits_(has_waits), next_(next) {}

  void OnSlot(Slot* slot) override;

  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state);

  // Slots in which a process launched that is not watched.
  uint64_t nr_rejected() const { return nr_rejected_; }
  uint64_t nr_episodes() const { return nr_episodes_; }

 private:
  struct Watched {
    bool named = false;
    Comm comm = {};
    // Since the last tick.
    uint64_t nr_launches = 0;
    uint64_t nr_switches = 0;
    bool unmeasured = false;
    Effort effort;
    NoWorkSums no_work;
    WaitCauseValues wait_causes;
    std::map<ProcessKey, RanInstead> ran_instead;
    uint64_t left_out_ns = 0;
    // Of all ticks.
    bool has_ticked = false;  // since it was first seen: that tick was not a whole one
    double baseline = 0;      // launches per second
    uint32_t nr_samples = 0;
    uint32_t nr_idle_ticks = 0;
    uint64_t episode_ns = 0;    // 0: none
    uint32_t nr_recovered = 0;  // ticks of it behind the last one with a drop
    Straggle straggle = Straggle::kUnknown;
    uint32_t drop_ppm = 0;

    template <typename Archive>
    void State(Archive& state) {
      state(named, comm, nr_launches, nr_switches, unmeasured, effort, no_work, wait_causes, ran_instead,
            left_out_ns, has_ticked, baseline, nr_samples, nr_idle_ticks, episode_ns, nr_recovered,
            drop_ppm);
      state.Enum(straggle, Straggle::kUnknown);
    }
  };

  void Observe(Slot* slot);
  void ObserveWaits(const Slot& slot);
  void Tick(Slot* slot, uint64_t now_ns);
  void Forget(Slot* slot, ProcessKey key, uint64_t now_ns);
  // False: it is to be forgotten.
  bool Decide(Slot* slot, ProcessKey key, Watched* state, uint64_t now_ns);
  void Report(Slot* slot, ProcessKey key, Watched* state, StraggleReport::State what, double rate,
              uint64_t now_ns) const;

  const bool has_waits_;
  SlotSink* next_;
  std::map<ProcessKey, Watched> states_;
  uint64_t ticked_ns_ = 0;  // 0: no slot yet
  uint64_t nr_rejected_ = 0;
  uint64_t nr_episodes_ = 0;
};

}  // namespace slotscope
