// SPDX-License-Identifier: MIT
// What a thread that launches does, from turn to turn (ss_cuda_turn), as far back as its slot goes.
#pragma once

#include <slotscope/events.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace slotscope {

enum class ThreadDoing : uint8_t { kUnknown, kRuns, kWaits, kSleepsInCuda, kOnDisk, kStopped, kSleeps };

class ThreadLine {
 public:
  // In a slot; our own limit: those beyond it are not known.
  static constexpr size_t kMaxMarks = 4096;

  // REQUIRES: times of turns do not go back; nor do those of calls.
  void OnTurn(const ss_cuda_turn& turn, uint64_t at_ns);
  // A call that it made itself; at_ns: when that is told, and it runs.
  void OnCall(uint64_t from_ns, uint64_t to_ns, uint64_t at_ns);
  // What it does from then on was not seen, until its next turn.
  void Forget(uint64_t at_ns) { Mark(at_ns, ThreadDoing::kUnknown); }
  // The slot ends: what was before is not asked for any more. True: nothing is left but what it does
  // now.
  bool Drop(uint64_t end_ns);

  bool empty() const { return marks_.empty(); }
  // For each piece of [from_ns, to_ns), in the order of time: on_piece(ThreadDoing, from, to); all of it
  // is in one.
  template <typename Fn>
  void ForEach(uint64_t from_ns, uint64_t to_ns, const Fn& on_piece) const {
    ThreadDoing doing = ThreadDoing::kUnknown;
    for (const auto& [at_ns, what] : marks_) {
      if (at_ns >= to_ns) break;
      if (at_ns > from_ns) {
        on_piece(doing, from_ns, at_ns);
        from_ns = at_ns;
      }
      doing = what;
    }
    if (from_ns < to_ns) on_piece(doing, from_ns, to_ns);
  }
  // Of [from_ns, to_ns): in calls that have returned, or are launches.
  uint64_t InCallsNs(uint64_t from_ns, uint64_t to_ns) const;

  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state) {
    const size_t nr = state.Count(marks_.size());
    marks_.resize(nr);
    for (auto& [at_ns, doing] : marks_) {
      state(at_ns);
      state.Enum(doing, ThreadDoing::kSleeps);
    }
    state(calls_);
    state.Require(marks_.size() <= kMaxMarks && calls_.size() <= kMaxMarks);
  }

 private:
  void Mark(uint64_t at_ns, ThreadDoing doing);

  std::vector<std::pair<uint64_t, ThreadDoing>> marks_;  // from when on it does what
  std::vector<std::pair<uint64_t, uint64_t>> calls_;     // one behind the other
};

}  // namespace slotscope
