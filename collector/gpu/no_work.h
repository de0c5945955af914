// SPDX-License-Identifier: MIT
// The time in which a process that launches has nothing launched that it has not waited for: its GPU, or
// one of them, has no work of it. A lower bound of what is idle, since work is done before it is waited
// for.
//
// Which thread is to launch next is known when it has: a piece is of the thread that ended it, and in a
// slot that is over before of the one that launched last.
//
//   launch ---- wait)              launch ---- wait)
//                    [  no work   )                  [ no work ...  slot ends
//
// Of a process that has never waited it is not known: whatever its GPU does cannot be seen. Whether it
// launches as fast as a CPU can is told by all of the time of the thread that launches: how long it ran,
// and how much of that was in CUDA calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "slots/gpu_detail.h"

namespace slotscope {

class ThreadLine;

class NoWork {
 public:
  // Nobody says of a process that has not launched for so long that it launches.
  static constexpr uint64_t kLaunchesNs = 60'000'000'000;
  static constexpr size_t kMaxPieces = 4096;  // in a slot; beyond that what a thread did is not known
  // Of a slot: with more than that part unknown, nothing is said of the thread that launches.
  static constexpr uint64_t kMostUnknown = 100;

  // Thread `tid` launches, and nothing was in flight before: then comes OnLaunch(), too.
  void Begin(uint64_t at_ns, int32_t tid) {
    if (launches_ && !is_active_) Close({since_ns_, at_ns, tid}, &pieces_);
    if (!launches_) turn_since_ns_ = at_ns;
    launches_ = is_active_ = true;
  }
  void OnLaunch(uint64_t at_ns, int32_t tid) {
    CloseTurn(at_ns, tid);
    tid_ = tid;
  }
  // Nothing is in flight any more: all of it has been waited for, or for another reason.
  void End(uint64_t at_ns, bool has_waited) {
    is_active_ = false;
    has_waited_ |= has_waited;
    since_ns_ = ended_ns_ = std::max(at_ns, since_ns_);
  }
  bool launches() const { return launches_; }

  // The slot ends. Fills in the values from kGpuNoWork on, or that they are not known. `line_of`: of a
  // tid; null: nothing is known of it.
  template <typename LineOf>
  void TakeSlot(uint64_t end_ns, const LineOf& line_of, GpuRow* row) {
    if (launches_ && !is_active_) {
      Close({since_ns_, end_ns, tid_}, &pieces_);
      since_ns_ = std::max(since_ns_, end_ns);
    }
    if (launches_) CloseTurn(end_ns, tid_);
    if (!launches_) row->unmeasured |= kOfLaunches;
    if (!has_waited_) row->unmeasured |= kOfLaunches & ~kOfLauncher;
    for (const Piece& piece : pieces_) AddTo(piece, line_of(piece.tid), row);
    uint64_t unknown_ns = std::exchange(lost_turns_ns_, 0), turns_ns = unknown_ns;
    for (const Piece& turn : turns_) {
      unknown_ns += AddTurn(turn, line_of(turn.tid), row);
      turns_ns += turn.to_ns - turn.from_ns;
    }
    if (unknown_ns * kMostUnknown > turns_ns) row->unmeasured |= kOfLauncher;
    row->values[kGpuNoWork] += overflow_ns_;
    row->values[kNoWorkUnknown] += overflow_ns_;
    overflow_ns_ = 0;
    pieces_.clear();
    turns_.clear();
    if (launches_ && !is_active_ && end_ns - ended_ns_ >= kLaunchesNs) launches_ = false;
  }

  // Everything, between two slots (base/state.h).
  template <typename Archive>
  void State(Archive& state) {
    state(launches_, is_active_, has_waited_, tid_, since_ns_, turn_since_ns_, ended_ns_, overflow_ns_,
          lost_turns_ns_);
    for (auto* pieces : {&pieces_, &turns_}) {
      const size_t nr = state.Count(pieces->size());
      pieces->resize(nr);
      for (Piece& piece : *pieces) state(piece.from_ns, piece.to_ns, piece.tid);
      state.Require(nr <= kMaxPieces);
    }
  }

 private:
  struct Piece {
    uint64_t from_ns;
    uint64_t to_ns;
    int32_t tid;
  };

  void Close(const Piece& piece, std::vector<Piece>* pieces) {
    if (piece.to_ns <= piece.from_ns) return;
    if (pieces->size() < kMaxPieces)
      pieces->push_back(piece);
    else
      (pieces == &pieces_ ? overflow_ns_ : lost_turns_ns_) += piece.to_ns - piece.from_ns;
  }
  // Up to there it was that thread that was to launch.
  void CloseTurn(uint64_t at_ns, int32_t tid) {
    if (!turns_.empty() && turns_.back().tid == tid && turns_.back().to_ns == turn_since_ns_)
      turns_.back().to_ns = std::max(turns_.back().to_ns, at_ns);
    else
      Close({turn_since_ns_, at_ns, tid}, &turns_);
    turn_since_ns_ = std::max(turn_since_ns_, at_ns);
  }
  // `line`: what that thread did; null: that is not known.
  static void AddTo(const Piece& piece, const ThreadLine* line, GpuRow* row);
  // Returns of how much of it is not known what the thread did.
  static uint64_t AddTurn(const Piece& turn, const ThreadLine* line, GpuRow* row);

  bool launches_ = false;
  bool is_active_ = false;
  bool has_waited_ = false;     // for all that it had launched
  int32_t tid_ = 0;             // that launched last
  uint64_t since_ns_ = 0;       // with !is_active_: what is not in a piece yet begins here
  uint64_t turn_since_ns_ = 0;  // what is not in a turn yet
  uint64_t ended_ns_ = 0;       // when it was last active
  uint64_t overflow_ns_ = 0, lost_turns_ns_ = 0;  // beyond kMaxPieces
  std::vector<Piece> pieces_;                     // of the slot: without work
  std::vector<Piece> turns_;                      // all of it, by who was to launch
};

}  // namespace slotscope
