// SPDX-License-Identifier: MIT
// Counts what goes by in slots, for a monitoring system. A step between two stages: slots pass through.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "metrics/pod_waits.h"
#include "metrics/time_histogram.h"
#include "slots/slot.h"

namespace slotscope {

struct SlotCounts {
  uint64_t nr_slots = 0;
  uint64_t nr_gpu_launches = 0;  // of which slots know
  uint64_t nr_straggle_reports = 0;
  std::array<uint64_t, kRowKindNames.size()> cpu_ns = {};  // by RowKind
  WaitCauseSums wait_ns = {};
  WaitCauses wait_causes = kNoWaitCauses;
  std::map<std::string, PodWaits::Pod> pods;
  // In the last slot.
  uint64_t slot_ns = 0;  // its length
  uint64_t nr_processes = 0;
  uint64_t nr_gpu_processes = 0;  // that have used a GPU, and ran
  uint64_t nr_straggling = 0;
  TimeHistogram wait;     // on run queues, of a process in a slot in which it waited
  TimeHistogram latency;  // from a slot's end until it was finished
};

class SlotMeter final : public SlotSink {
 public:
  explicit SlotMeter(SlotSink* next) : next_(next) {}

  void OnSlot(Slot* slot) override;
  // Any thread.
  SlotCounts counts() const {
    std::lock_guard lock(mutex_);
    SlotCounts counts = counts_;
    counts.pods = pods_.pods();
    return counts;
  }

 private:
  void Count(const Slot& slot);

  SlotSink* next_;
  mutable std::mutex mutex_;
  SlotCounts counts_;
  PodWaits pods_;
};

}  // namespace slotscope
