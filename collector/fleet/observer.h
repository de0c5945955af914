// SPDX-License-Identifier: MIT
// Makes an observation of the node out of each interval's slots. A step between two stages: slots pass
// through.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "fleet/health.h"
#include "slots/slot.h"

namespace slotscope {

class NodeObserver final : public SlotSink {
 public:
  using ObserveFn = std::function<void(const Observation&)>;
  using HeadroomFn = std::function<std::optional<double>()>;

  // `headroom` is asked once an interval. Intervals are whole slots.
  NodeObserver(uint64_t interval_ns, HeadroomFn headroom, ObserveFn observe, SlotSink* next)
      : interval_ns_(interval_ns),
        headroom_(std::move(headroom)),
        observe_(std::move(observe)),
        next_(next) {}

  void OnSlot(Slot* slot) override;

 private:
  // A GPU of this machine (of no process); or, if it is not known which one, a process's device.
  struct Place {
    ProcessKey process;
    int32_t number;
    auto operator<=>(const Place&) const = default;
  };

  void Add(const Slot& slot);
  void AddGpus(const GpuDetail& detail);
  std::optional<Signals> Take();

  const uint64_t interval_ns_;
  HeadroomFn headroom_;
  ObserveFn observe_;
  SlotSink* next_;
  // Of this interval.
  uint64_t begin_ns_ = 0;  // 0: none has begun
  uint64_t covered_ns_ = 0;
  uint64_t nr_launches_ = 0;
  uint64_t cpu_ns_ = 0;
  uint64_t idle_ns_ = 0;
  bool is_unmeasured_ = false;
  // A GPU stays, as long as any is active; a device of a process only in the intervals in which it is.
  std::map<Place, uint64_t> active_ns_;
  std::map<Place, uint64_t> active_in_slot_ns_;
  std::set<ProcessKey> processes_;  // that have used a GPU, and live
};

}  // namespace slotscope
