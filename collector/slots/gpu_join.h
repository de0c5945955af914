// SPDX-License-Identifier: MIT
// What a slot's rows get from the GPU's stage, which comes after this one and is only known as this.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

struct GpuUse {
  ProcessKey process;
  GpuRow row;
};

struct GpuJoin {
  virtual ~GpuJoin() = default;
  virtual void OnCall(const ss_cuda_call& call) = 0;
  virtual void OnTurn(const ss_cuda_turn& turn) = 0;
  // The process has ended at ts_ns.
  virtual void OnExit(ProcessKey process, uint64_t ts_ns) = 0;
  // It is another program from ts_ns on: all that it held is gone, and it may use GPUs anew.
  virtual void OnExec(ProcessKey process, uint64_t ts_ns) = 0;
  // It has ended some time before ts_ns, as it seems: its exit was lost, but nobody names it any more.
  virtual void OnMissing(ProcessKey process, uint64_t ts_ns) = 0;
  // Calls were lost, somewhere from from_ns to to_ns, of whoever.
  virtual void OnLostCalls(uint64_t from_ns, uint64_t to_ns) = 0;
  // Fills *uses with the processes that have used a GPU and are not still, in order, those that ended in
  // the slot included, and *detail, but for names. REQUIRES: slots one after the other.
  virtual void TakeSlot(uint64_t start_ns, uint64_t end_ns, std::vector<GpuUse>* uses,
                        GpuDetail* detail) = 0;
  // After TakeSlot(): the others, in which nothing happens until they call again; the same ones with the
  // same rows as long as the version is the same. Rows of them say nothing that makes a row.
  virtual uint64_t still_version() const { return 0; }
  virtual std::vector<GpuUse> Still() const { return {}; }
};

}  // namespace slotscope
