// SPDX-License-Identifier: MIT
// All processes' use of GPUs, slot by slot.
//
// Calls are queued as they arrive and take effect in the order of time when the slot that they are in
// retires, a window behind the watermark (as in track/tracker.h). One that is late takes effect then.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "gpu/machine.h"
#include "gpu/pool.h"
#include "gpu/process.h"
#include "ring/item_router.h"
#include "slots/gpu_join.h"

namespace slotscope {

class GpuTracker final : public GpuJoin, public GpuItemSink, private SpanSink {
 public:
  // That end in one slot: our own limit, some 10 MB.
  static constexpr size_t kMaxSpans = 100'000;

  // What is kept for a slot's GpuDetail beside parts and totals.
  enum Keeps : uint32_t { kNothing = 0, kSpans = 1, kBalances = 2 };

  // `slot_ns`: of the shortest slot. `keeps`: of Keeps. `gpus`, and whether there are turns: as in the
  // facts.
  GpuTracker(uint64_t slot_ns, uint32_t keeps, std::vector<GpuDevice> gpus = {}, bool has_turns = false)
      : slot_ns_(slot_ns), keeps_(keeps), has_turns_(has_turns), machine_(std::move(gpus)) {}

  // Queued, to take effect at their times.
  void OnCall(const ss_cuda_call& call) override;
  void OnTurn(const ss_cuda_turn& turn) override;
  void OnExit(ProcessKey process, uint64_t ts_ns) override { OnEnd(kExit, process, ts_ns); }
  void OnExec(ProcessKey process, uint64_t ts_ns) override { OnEnd(kExec, process, ts_ns); }
  // If it makes a call all the same, what it holds is not known from then on.
  void OnMissing(ProcessKey process, uint64_t ts_ns) override { OnEnd(kMissing, process, ts_ns); }
  void OnLostCalls(uint64_t from_ns, uint64_t to_ns) override;
  void OnLostCalls(const LostCalls& lost, uint64_t from_ns, uint64_t to_ns) override;
  void OnView(int32_t tgid, std::span<const int32_t> gpus, uint64_t ts_ns) override {
    WakeAll(tgid);
    machine_.OnView(tgid, gpus, ts_ns);
  }
  void OnSample(const GpuSample& sample, uint64_t ts_ns) override { machine_.OnSample(sample, ts_ns); }
  void TakeSlot(uint64_t start_ns, uint64_t end_ns, std::vector<GpuUse>* uses,
                GpuDetail* detail) override;
  uint64_t still_version() const override { return still_version_; }
  std::vector<GpuUse> Still() const override;

  // Everything, between two slots (base/state.h).
  template <typename Archive>
  void State(Archive& state);

  const GpuStats& stats() const { return stats_; }
  const Pool& pool() const { return pool_; }
  const std::map<ProcessKey, GpuProcess>& processes() const { return processes_; }

 private:
  enum Kind { kCall, kExit, kExec, kMissing, kLoss, kLossOfAll, kTurn };
  struct Change {
    Kind kind;
    uint64_t at_ns;
    ProcessKey process;
    ss_cuda_call call;
    uint64_t until_ns = 0;  // of losses
    ss_cuda_turn turn = {};

    template <typename Archive>
    void State(Archive& state) {
      state(at_ns, process, until_ns);
      state.Enum(kind, kTurn);
      state.Plain(call);
      state.Plain(turn);
      state.Require(kind != kCall || (call.start_ns <= call.hdr.ts_ns && call.op < SS_CUDA_NR_OPS));
    }
  };

  struct End {
    uint64_t ts_ns;
    Kind kind;
    ProcessKey process;

    template <typename Archive>
    void State(Archive& state) {
      state(ts_ns, process);
      state.Enum(kind, kMissing);
    }
  };

  bool IsQuietUntil(uint64_t start_ns, uint64_t end_ns) const;
  void TakeBusySlot(uint64_t start_ns, uint64_t end_ns, std::vector<GpuUse>* uses, GpuDetail* detail);
  void OnKernels(const KernelSpan& span) override;
  void OnMemory(const MemorySpan& span) override;
  bool HasRoomForSpan();
  void Queue(const Change& change);
  void OnEnd(Kind kind, ProcessKey process, uint64_t ts_ns);
  void QueueEnds(uint64_t end_ns);
  void ApplyUntil(uint64_t end_ns);
  void Apply(const Change& change);
  void ApplyCall(const Change& change);
  void ApplyTurn(const Change& change);
  void ApplyEnd(const Change& change);
  void AddGone(ProcessKey process, bool is_missing);
  GpuProcess& ProcessOf(const Change& change);
  void BeStill();
  void Wake(ProcessKey process);
  void WakeAll(int32_t tgid);

  uint64_t slot_ns_;
  uint32_t keeps_;
  bool has_turns_;
  GpuSpans spans_;
  std::vector<GpuBalance> balances_;
  Pool pool_;
  GpuStats stats_;
  GpuMachine machine_;
  std::map<uint64_t, std::vector<Change>> queued_;  // by the start of the shortest slot that they are in
  std::vector<std::vector<Change>> spare_;          // empty ones
  std::vector<End> ends_;                           // of all processes: most have no GPU
  uint64_t first_end_ns_ = UINT64_MAX;              // of these
  std::map<ProcessKey, GpuProcess> processes_;
  // Each is in one of these. Who is still has its row and parts counted once, and is not looked at again
  // before it is awake.
  struct Rest {
    GpuRow row;
    std::vector<GpuPart> parts;

    template <typename Archive>
    void State(Archive& state) {
      state(row, parts);
    }
  };
  std::map<ProcessKey, GpuProcess*> awake_;
  std::map<ProcessKey, Rest> still_;
  std::map<ProcessKey, Rest> soon_still_;  // of awake_: from the next slot on, if nothing happens before
  uint64_t still_version_ = 0;
  std::vector<GpuUse> ended_;  // in the slot that is being taken
  std::vector<GpuPart> ended_parts_;
  // Processes that have ended lately: a call of one that is very late must not make it anew. True: it is
  // only missing.
  static constexpr size_t kMaxGone = 4096;
  std::map<ProcessKey, bool> gone_;
  std::deque<ProcessKey> gone_in_order_;
  static constexpr size_t kMaxInits = 4096;
  std::map<ProcessKey, uint64_t> inits_;  // when the latest call of each returned that initialized it
  uint64_t applied_ns_ = 0;
  uint64_t taken_until_ns_ = 0;  // where the last slot ended
  uint64_t lossy_until_ns_ = 0;  // launches up to there may have been lost
};

}  // namespace slotscope
