// SPDX-License-Identifier: MIT
// From measures to slots.
//
// A measure covers [start_ns, ts_ns) on one CPU. It is cut at the slot borders; time and counters go to
// the pieces in proportion to time, integer remainders to the last piece. Counts (switches,
// preemptions) belong to the slot that contains ts_ns - 1, where the switch was; waits, and the counts
// of a measure that a tick emitted, to the slot that contains start_ns: a tick comes some microseconds
// after the border, and what it brings happened before.
//
// Each CPU has a cursor: up to it, every nanosecond of that CPU is accounted for, once, in some slot. A
// measure that starts behind the cursor brings late pieces (their time is already in rows of kind
// lost); one that starts ahead of it leaves a gap, which is lost, or offline if the CPU was.
//
//   cursor ......|                                     .
//   measure      |   [start_ns ------- ts_ns)          .
//                |gap|-- process piece --|-- piece --|  then the cursor is at ts_ns
//                    slot border ^
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "merge/merger.h"
#include "slots/accounting.h"
#include "slots/slot.h"
#include "track/tracker.h"

namespace slotscope {

struct SlotBuilderOptions {
  uint64_t slot_ns = SS_TICK_PERIOD_NS;
  uint64_t window_ns = 64'000'000;  // a slot retires when the watermark is this far past its end
  std::vector<int> present_cpus;    // all that count for the identity
  bool needs_dump = true;           // no slot before the first state dump is complete
};

class SlotBuilder final : public MergeSink {
 public:
  SlotBuilder(const SlotBuilderOptions& options, SlotSink* sink);

  void OnMessage(const ss_any_message& message, bool late) override;
  void OnExpected(int cpu) override;
  void OnDumpEnd(uint64_t begin_ns) override;
  void OnWatermark(uint64_t ts_ns) override;
  // See Tracker::Follow().
  void Follow(int32_t tgid) { tracker_.Follow(tgid); }
  // The end: retires the slots that every CPU has passed, counts the rest as after the last.
  void Finish();

  // Where the first slot starts; 0 until that is known.
  uint64_t first_ns() const { return first_ns_; }
  const Accounting& accounting() const { return accounting_; }
  const Tracker& tracker() const { return tracker_; }
  uint64_t nr_late_pieces() const { return nr_late_pieces_; }
  uint64_t nr_seq_gaps() const { return nr_seq_gaps_; }
  // Measures during which a switch was missed: lost time.
  uint64_t nr_unknown() const { return nr_unknown_; }
  uint64_t nr_missed_ticks() const { return nr_missed_ticks_; }
  uint64_t nr_unwatched() const { return nr_unwatched_; }

 private:
  struct Cpu {
    bool present = false;
    bool expected = false;  // measures should come
    bool begun = false;
    bool online = false;
    uint64_t begun_ns = 0;  // valid with begun, as is cursor_ns
    uint64_t cursor_ns = 0;
    std::optional<uint32_t> next_seq;
  };
  struct OpenSlot {
    uint64_t start_ns = 0;
    std::vector<Row> rows;
    std::vector<uint32_t> row_of;  // [process id] -> index into rows, +1; 0: none
    uint64_t lost_ns = 0;
    uint64_t offline_ns = 0;
  };

  void OnMeasure(const ss_measure& measure);
  void OnCpuState(const ss_cpu_state& state);
  void OnState(const ss_any_message& message, uint64_t ts_ns);
  static void Begin(Cpu* cpu, uint64_t ts_ns, bool online);
  bool IsReadyForFirst(uint64_t watermark_ns) const;
  void FixFirst();
  void AccountGap(Cpu* cpu, uint64_t until_ns);
  bool AddPieces(const ss_measure& measure, uint64_t cursor_ns);
  void AddCounts(const ss_measure& measure);
  void AddToRow(OpenSlot* slot, uint32_t process, const ss_measure& measure, const Sums& sums,
                uint32_t unmeasured);
  void CountLate(const Sums& sums);
  OpenSlot* SlotAt(uint64_t ts_ns);
  OpenSlot NewSlot(uint64_t start_ns);
  void Retire();
  void FillRow(Row* row) const;
  // Takes the oldest open slot away unwritten; its rows are accounted for in *into.
  void DiscardFront(Sums* into);
  uint64_t SlotStart(uint64_t ts_ns) const { return ts_ns - ts_ns % options_.slot_ns; }
  uint64_t LastBorder() const;

  SlotBuilderOptions options_;
  SlotSink* sink_;
  Tracker tracker_;
  std::vector<Cpu> cpus_;
  std::deque<OpenSlot> open_;    // consecutive slots
  std::vector<OpenSlot> spare_;  // retired ones, to be used again
  bool first_fixed_ = false;
  uint64_t first_ns_ = 0;       // with first_fixed_: where the first slot starts
  uint64_t next_start_ns_ = 0;  // with first_fixed_: of the slot that retires next
  bool dumped_ = false;
  uint64_t dumped_ns_ = 0;
  uint64_t last_event_ns_ = 0;
  Accounting accounting_;
  Slot finished_;
  uint64_t nr_late_pieces_ = 0;
  uint64_t nr_seq_gaps_ = 0;
  uint64_t nr_unknown_ = 0;
  uint64_t nr_missed_ticks_ = 0;
  uint64_t nr_unwatched_ = 0;
};

}  // namespace slotscope
