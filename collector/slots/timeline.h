// SPDX-License-Identifier: MIT
// Who ran on a CPU, one after the other, as far back as slots are open, and then some seconds: of a wait
// that was longer, it is still to be known who ran.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "slots/share.h"
#include "track/tracker.h"

namespace slotscope {

class Timeline {
 public:
  enum class Kind : uint8_t { kProcess, kIdle, kUnknown };
  // It begins where the one before it ends.
  struct Run {
    uint64_t end_ns = 0;
    ProcessKey key = {};
    Kind kind = Kind::kUnknown;
    bool is_sum = false;     // who ran in a batch, one behind the other: how long is right, and not when
    uint32_t stolen_ns = 0;  // of it, in which the hypervisor ran something else

    template <typename Archive>
    void State(Archive& state) {
      state(end_ns, key, is_sum, stolen_ns);
      state.Enum(kind, Kind::kUnknown);
    }
  };

  // Each measure of the CPU, in the order of time; what is behind the end already is left out.
  void Add(const ss_measure& measure);
  // Slots in front of until_ns have retired. Some of what is there is kept.
  void Retire(uint64_t until_ns);
  static constexpr size_t kKeptRuns = 2048;  // 100 KB per CPU, and what a wait looks at, at most
  static constexpr uint64_t kKeptNs = 5'000'000'000;

  uint64_t end_ns() const { return runs_.empty() ? begin_ns_ : runs_.back().end_ns; }
  // How many end in front of ts_ns, or there.
  size_t NrUntil(uint64_t ts_ns) const;
  const Run& operator[](size_t i) const { return runs_[i]; }
  size_t size() const { return runs_.size(); }
  // The first one of the batch that run i is of: those in front of it in its slot.
  size_t FirstOfBatch(size_t i) const;
  uint64_t StartOf(size_t i) const { return i == 0 ? begin_ns_ : runs_[i - 1].end_ns; }
  // What the hypervisor took of a run. When in it is not known: of each part its share.
  struct Stolen {
    uint64_t from_ns = 0, to_ns = 0;  // the run
    uint64_t ns = 0;

    uint64_t Between(uint64_t a_ns, uint64_t b_ns) const {
      if (ns == 0) return 0;
      return Share(ns, b_ns - from_ns, to_ns - from_ns) - Share(ns, a_ns - from_ns, to_ns - from_ns);
    }
  };
  Stolen StolenOf(size_t i) const {
    const uint64_t from_ns = StartOf(i), to_ns = runs_[i].end_ns;
    return {from_ns, to_ns, std::min<uint64_t>(runs_[i].stolen_ns, to_ns - from_ns)};
  }

  template <typename Archive>
  void State(Archive& state) {
    state(begin_ns_, runs_);
    if constexpr (Archive::kReads) state.Require(IsInOrder());
  }

 private:
  bool IsInOrder() const;
  void Put(const Run& run);

  uint64_t begin_ns_ = 0;
  std::deque<Run> runs_;
  size_t nr_retired_ = 0;  // of them, from the first one on: found anew when it is 0
};

}  // namespace slotscope
