// SPDX-License-Identifier: MIT
// What processes did on GPUs over a whole run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "slots/slot.h"

namespace slotscope {

class GpuReport final : public SlotSink {
 public:
  // Of a process on one of its devices.
  struct Use {
    Comm comm = {};
    int32_t gpu = kUnknownGpu;  // index into the facts' list; the last that was known
    uint64_t peak_bytes = 0;    // at the end of some slot
    uint64_t active_ns = 0;
    uint64_t nr_launches = 0;
    bool knows_no_work = false;  // in some slot
    uint64_t no_work_ns = 0;     // at least
    uint64_t nr_leaks = 0;       // allocations that were there when it ended
    uint64_t leaked_bytes = 0;
    uint32_t unmeasured = 0;  // bit GpuValue: in some slot
  };
  using Key = std::pair<ProcessKey, int32_t>;  // and device

  void OnSlot(Slot* slot) override;

  const std::map<Key, Use>& uses() const { return uses_; }
  // Of the recording, in the order of time, each once.
  const std::vector<std::string>& notes() const { return notes_; }
  // Processes and devices beyond kMaxUses.
  uint64_t nr_left_out() const { return nr_left_out_; }

 private:
  static constexpr size_t kMaxUses = 65536;
  static constexpr size_t kMaxNotes = 1000;

  Use* Find(ProcessKey process, int32_t device);

  std::map<Key, Use> uses_;
  std::vector<std::string> notes_;
  uint64_t nr_left_out_ = 0;
};

}  // namespace slotscope
