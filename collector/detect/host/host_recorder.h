// SPDX-License-Identifier: MIT
// Keeps what slots say of ranks. A step between two stages: slots pass through.
#pragma once

#include <functional>
#include <mutex>

#include "detect/host/host_history.h"
#include "slots/slot.h"

namespace slotscope {

class HostRecorder final : public SlotSink {
 public:
  // `next` may be null: they end here. See HostHistory for the rest.
  HostRecorder(int64_t bucket_ns, int64_t keep_ns, SlotSink* next)
      : history_(bucket_ns, keep_ns), next_(next) {}

  void OnSlot(Slot* slot) override;

  // Any thread.
  template <typename Fn>
  auto Look(Fn&& look) {
    std::lock_guard lock(mutex_);
    return look(history_);
  }

 private:
  void Take(const Slot& slot);

  std::mutex mutex_;
  HostHistory history_;
  SlotSink* next_;
};

}  // namespace slotscope
