// SPDX-License-Identifier: MIT
// All processes' use of GPUs, slot by slot.
//
// Calls are queued as they arrive and take effect in the order of time when the slot that they are in
// retires, a window behind the watermark (as in track/tracker.h). One that is late takes effect then.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <map>
#include <vector>

#include "gpu/pool.h"
#include "gpu/process.h"
#include "slots/gpu_join.h"

namespace slotscope {

class GpuTracker final : public GpuJoin {
 public:
  // `sink` may be null.
  GpuTracker(uint64_t slot_ns, SpanSink* sink) : slot_ns_(slot_ns), sink_(sink) {}

  // Queued, to take effect at their times.
  void OnCall(const ss_cuda_call& call) override;
  void OnExit(ProcessKey process, uint64_t ts_ns) override;
  void OnLoss(uint64_t ts_ns) override;
  void TakeSlot(uint64_t start_ns, std::vector<GpuUse>* uses) override;

  const GpuStats& stats() const { return stats_; }
  const Pool& pool() const { return pool_; }
  const std::map<ProcessKey, GpuProcess>& processes() const { return processes_; }

 private:
  struct Change {
    enum class Kind { kCall, kExit, kLoss };
    Kind kind;
    uint64_t at_ns;
    ProcessKey process;
    ss_cuda_call call;
  };

  void Queue(const Change& change);
  void ApplyUntil(uint64_t end_ns);
  void Apply(const Change& change);

  uint64_t slot_ns_;
  SpanSink* sink_;
  Pool pool_;
  GpuStats stats_;
  std::map<uint64_t, std::vector<Change>> queued_;  // by the start of the slot that they are in
  std::vector<std::vector<Change>> spare_;          // empty ones
  std::map<ProcessKey, GpuProcess> processes_;
  std::vector<GpuUse> ended_;  // in the slot that is being taken
  uint64_t applied_ns_ = 0;
};

}  // namespace slotscope
