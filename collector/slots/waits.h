// SPDX-License-Identifier: MIT
// Waiting for a CPU, to the nanosecond: when it passed, and who ran meanwhile.
//
// A wait is an interval of one thread in one CPU's queue. It is cut at the slots' borders and at those
// of the CPU's timeline, and each piece goes to one cause, in the slot in which it passed:
//
//   CPU's timeline   | A | idle |   B    |  A  |
//   wait of A's          [---------------)
//   pieces               wakeup | others (B)         A itself: self
//
// What of a long wait passed in slots that have retired is said in the slot in which it ended
// (earlier_ns), with its causes, as far back as timelines go. A wait that is told by its measure ends
// where that begins, so all of its CPU's time in front of it is known. Others stay here until it is, and
// until the first slot is known.
//
// OnCauses(): a recording that is to cost less can do without who ran meanwhile. How long, when, and
// what was due to a quota, is said as before.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "slots/accounting.h"
#include "slots/open_slots.h"
#include "slots/timeline.h"
#include "slots/wait_row.h"
#include "track/tracker.h"

namespace slotscope {

struct WaitStats {
  uint64_t nr_waits = 0;
  uint64_t nr_hidden = 0;    // ended by a switch that the kernel kept from us
  uint64_t nr_phantom = 0;   // of threads that slept, and were moved meanwhile
  uint64_t nr_sums = 0;      // sums of many waits of which no more is known
  uint64_t nr_unfolded = 0;  // pieces that do not count for who ran longest: too many in a slot
  uint64_t nr_unplaced = 0;  // that came before the first slot was known, beyond what is kept: before
};

class Waits {
 public:
  // What is given outlives it. Not on(): nothing may be called but that.
  Waits(WaitCauses causes, size_t nr_cpus, OpenSlots* open, Tracker* tracker, Accounting* accounting)
      : causes_(causes),
        lines_(on() ? nr_cpus : 0),
        open_(open),
        tracker_(tracker),
        accounting_(accounting) {}

  bool on() const { return causes_ != kNoWaitCauses; }
  // Each measure of a CPU, in the order of its time, before it is added to a row.
  void OnMeasure(const ss_measure& measure);
  void OnWait(const ss_wait& wait);
  // Of waits that end from from_ns on the cause is told, or is unknown, until the next such call.
  void OnCauses(uint64_t from_ns, bool told);
  // Every CPU has passed it. A CPU that has not said who runs is waited for, for patience_ns.
  void OnWatermark(uint64_t ts_ns, uint64_t patience_ns);
  // From now on: slots begin at first_ns, and those in front of next_ns have retired.
  void OnSlots(uint64_t first_ns, uint64_t next_ns);
  // The end: nothing comes any more.
  void OnEnd();
  // When the slot retires: finds who ran longest, and one detail for each reason.
  static void Finish(OpenSlot* slot);
  const WaitStats& stats() const { return stats_; }

  template <typename Archive>
  void State(Archive& state);

 private:
  struct Waiter {
    ProcessKey key;
    uint32_t process;
    uint32_t rmid;
    uint32_t flags;  // SS_MEASURE_*
  };
  struct Stretch {
    uint64_t from_ns = 0, to_ns = 0;
  };
  // What ran in a piece of a wait.
  struct Piece {
    WaitCause cause;
    ProcessKey ran;
    uint32_t cpu = WaitDetail::kNoCpu;
    uint64_t nr = 1;
    // In earlier_.
    uint64_t ns = 0;
    Comm ran_comm = {};  // of several

    auto Reason() const { return std::tie(cause, ran, ran_comm, cpu); }
  };

  // What goes off and on more often than slots retire is not followed.
  static constexpr size_t kMaxEras = 64;
  // From `first` on it is told why.
  using Era = std::pair<uint64_t, bool>;

  bool TellsCauseAt(uint64_t ts_ns) const;
  void Put(const ss_wait& wait, bool is_known);
  void Resolve(const ss_wait& wait);
  bool HasThreads(const Waiter& who) const {
    return who.process < threaded_.size() && threaded_[who.process] == who.key;
  }
  static Piece PieceOf(const Timeline::Run& run, const ProcessKey& waiter, uint32_t cpu, uint64_t nr);
  Timeline::Stolen StolenOf(const Timeline& line, size_t i) const {
    return IsToldApart(causes_, kWaitSteal) ? line.StolenOf(i) : Timeline::Stolen();
  }
  uint64_t StolenWhile(const Waiter& who, const Piece& ran, uint64_t from_ns, uint64_t to_ns,
                       uint64_t ns) const;
  void AddShares(const Waiter& who, uint32_t cpu, size_t first, size_t end, const Stretch& among,
                 uint64_t from_ns, uint64_t to_ns, uint64_t ns);
  void AttributeFar(const Waiter& who, const ss_wait& wait);
  void Attribute(const Waiter& who, uint32_t cpu, uint64_t end_ns, uint64_t wait_ns, uint64_t cut_ns);
  void AttributeThrottled(const Waiter& who, const ss_wait& wait, uint32_t cpu);
  void Add(const Waiter& who, const Piece& piece, uint64_t from_ns, uint64_t to_ns, uint64_t ns,
           const Timeline::Stolen& stolen = {});
  void AddTo(OpenSlot* slot, const Waiter& who, const Piece& piece, uint64_t ns);
  void NoteThatItLasts(OpenSlot* slot, const Waiter& who, WaitCause cause);
  void AddEarlier(const Piece& piece, uint64_t ns);
  void PutEarlier(const Waiter& who, const Stretch& whole);
  void FoldEarlier();
  void JoinEarlier();
  void AddDetail(OpenSlot* slot, const WaitPair& pair);
  OpenRow* RowOf(OpenSlot* slot, const Waiter& who);

  const WaitCauses causes_;
  std::vector<Timeline> lines_;  // [cpu]
  std::vector<ss_wait> pending_;
  std::vector<ProcessKey>
      threaded_;           // [process] -> its key, if threads of it have waited for each other
  std::vector<Era> eras_;  // in order; in front of the first one, it is told why
  uint64_t first_ns_ = 0, next_ns_ = 0;  // 0: not known
  Stretch one_;                          // the wait that is attributed, if it is one; else empty
  std::vector<Piece> earlier_;           // what of it passed in slots that have retired
  OpenSlots* open_;
  Tracker* tracker_;
  Accounting* accounting_;
  WaitStats stats_;
};

}  // namespace slotscope
