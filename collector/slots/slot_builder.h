// SPDX-License-Identifier: MIT
// From measures to slots.
//
// A measure covers [start_ns, ts_ns) on one CPU. It is cut at the slot borders; time and counters go to
// the pieces in proportion to time, integer remainders to the last piece. Counts (switches,
// preemptions) belong to the slot that contains ts_ns - 1, where the switch was; the counts of a measure
// that a tick emitted, to the slot that contains start_ns: a tick comes some microseconds after the
// border, and what it brings happened before. Waiting goes where it passed, by waits.h; without that, to
// the slot in which it ended.
//
// Each CPU has a cursor: up to it, every nanosecond of that CPU is accounted for, once, in some slot. A
// measure that starts behind the cursor brings late pieces (their time is already in rows of kind
// lost); one that starts ahead of it leaves a gap, which is lost, or offline if the CPU was.
//
//   cursor ......|                                     .
//   measure      |   [start_ns ------- ts_ns)          .
//                |gap|-- process piece --|-- piece --|  then the cursor is at ts_ns
//                    slot border ^
//
// What RDT counted is attributed when a slot retires: see rdt_attribution.h.
//
// Most measures continue their CPU's cursor and end in the slot in which they start: these are added to
// one row and nothing else is looked at.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/rdt_shape.h"
#include "merge/merger.h"
#include "slots/accounting.h"
#include "slots/cut.h"
#include "slots/gpu_join.h"
#include "slots/more_counters.h"
#include "slots/open_slots.h"
#include "slots/rdt_attribution.h"
#include "slots/slot.h"
#include "slots/waits.h"
#include "track/identity.h"
#include "track/tracker.h"

namespace slotscope {

static_assert(kMaxSlotNs <= SlotLengths::kMaxNs);

struct SlotBuilderOptions {
  uint64_t slot_ns = SS_TICK_PERIOD_NS;    // until OnSlotLength()
  uint64_t window_ns = 64'000'000;         // a slot retires when the watermark is this far past its end
  std::vector<int> present_cpus;           // all that count for the identity
  bool needs_dump = true;                  // no slot before the first state dump is complete
  int64_t unix_offset_ns = 0;              // CLOCK_REALTIME - CLOCK_MONOTONIC at the start
  RdtShape rdt = {};                       // what samples of RDT counters there may be
  size_t nr_more = 0;                      // perf counters behind each measure
  uint32_t unmeasured = 0;                 // bit Additive: no measure has it, so no row does
  uint32_t unmeasured_more = 0;            // the same of those behind, by a bit each
  GpuJoin* gpu = nullptr;                  // outlives the builder
  WaitCauses wait_causes = kNoWaitCauses;  // any: measures tell single waits (SS_MEASURE_ONE_WAIT)
  bool has_states = false;                 // and how a process left the CPU (SS_MEASURE_LEFT)
};

struct SlotStats {
  uint64_t nr_late_pieces = 0;      // of measures, whose slots had retired
  uint64_t nr_seq_gaps = 0;         // in the sequence numbers of a CPU's measures
  uint64_t nr_foreign = 0;          // measures of CPUs that were not present at the start: in no row
  uint64_t nr_missed_switches = 0;  // measures during which a switch was missed: lost time
  uint64_t nr_missed_ticks = 0;
  uint64_t nr_unwatched = 0;  // CPUs from which measures should have come when the first slot began
};

class SlotBuilder final : public MergeSink {
 public:
  SlotBuilder(const SlotBuilderOptions& options, SlotSink* sink);

  void OnMeasure(const ss_measure& measure) override { OnAnyMeasure(measure, nullptr); }
  void OnLongMeasure(const ss_long_measure& measure) override;
  void OnRun(Run* run) override;
  void OnTick(const ss_tick& tick) override;
  void OnCpuState(const ss_cpu_state& state) override;
  void OnMessage(const ss_any_message& message, bool late) override;
  void OnText(const ss_text& text, bool late) override;
  void OnPods(uint64_t from_ns, std::string_view lines) override;
  void OnExpected(int cpu) override;
  void OnDumpEnd(uint64_t begin_ns, uint64_t end_ns) override;
  void OnClock(uint64_t from_ns, int64_t unix_offset_ns) override;
  void OnNote(uint64_t from_ns, std::string_view text) override;
  void OnSlotLength(uint64_t from_ns, uint64_t slot_ns) override;
  void OnWaitCauses(uint64_t from_ns, bool told) override;
  void OnMalformedCall(uint64_t from_ns, uint64_t to_ns) override;
  void OnWatermark(uint64_t ts_ns) override;
  // See Tracker::Follow().
  void Follow(int32_t tgid) { tracker_.Follow(tgid); }
  // With first_ns(): everything, after OnWatermark(), of this stage and those in it, but not of GPUs
  // (base/state.h).
  template <typename Archive>
  void State(Archive& state);
  // The end: retires the slots that every CPU has passed, counts the rest as after the last.
  void Finish();

  // Where the first slot starts; 0 until that is known.
  uint64_t first_ns() const { return first_ns_; }
  // With first_ns(): of the slot that retires next.
  uint64_t next_start_ns() const { return next_start_ns_; }
  uint64_t slot_ns() const { return options_.slot_ns; }
  // What some CPU has been measured up to.
  uint64_t latest_ns() const;
  // CLOCK_REALTIME - CLOCK_MONOTONIC, as of the slot that retires next.
  int64_t unix_offset_ns() const { return unix_offset_ns_; }
  size_t nr_cpus() const { return options_.present_cpus.size(); }
  size_t nr_more() const { return options_.nr_more; }
  const Accounting& accounting() const { return accounting_; }
  const Tracker& tracker() const { return tracker_; }
  const RdtStats& rdt() const { return rdt_.stats(); }
  const WaitStats& waits() const { return waits_.stats(); }
  const SlotStats& stats() const { return stats_; }
  // After Finish(): notes that came behind the last slot.
  std::vector<std::string> late_notes() const {
    std::vector<std::string> texts;
    for (const Note& note : notes_) texts.push_back(note.text);
    return texts;
  }

 private:
  struct Cpu {
    uint64_t cursor_ns = 0;  // valid with begun, as is begun_ns
    // The slot that the cursor is in and its end, or 0: not known. Never one that has retired: then the
    // cursor is at its end or behind.
    uint64_t slot_end_ns = 0;
    OpenSlot* slot = nullptr;
    uint32_t next_seq = 0;
    bool has_seq = false;
    bool present = false;
    bool expected = false;  // measures should come
    bool begun = false;
    bool online = false;
    uint64_t begun_ns = 0;

    // Which slot the cursor is in is found again.
    template <typename Archive>
    void State(Archive& state) {
      state(cursor_ns, next_seq, has_seq, present, expected, begun, online, begun_ns);
    }
  };
  struct Clock {
    uint64_t from_ns;
    int64_t unix_offset_ns;

    template <typename Archive>
    void State(Archive& state) {
      state(from_ns, unix_offset_ns);
    }
  };
  struct Note {
    uint64_t from_ns;
    std::string text;

    template <typename Archive>
    void State(Archive& state) {
      state(from_ns, text);
    }
  };
  // Null if it was not present at the start.
  Cpu* FindCpu(uint32_t cpu);
  // Late state takes effect now: what retired stays as it was.
  uint64_t EffectOf(uint64_t ts_ns) const { return std::max(ts_ns, next_start_ns_); }
  void OnAnyMeasure(const ss_measure& measure, const MoreSums* more);
  void AddMeasure(Cpu* cpu, const ss_measure& measure, const MoreSums* more);
  void AddAcross(Cpu* cpu, OpenSlot* next, const ss_measure& measure);
  void AddOtherMeasure(Cpu* cpu, const ss_measure& measure);
  void TellGpu(const ss_task_meta& meta, uint64_t ts_ns);
  void OnUnknown(Cpu* cpu, uint64_t until_ns);
  // What a measure adds to its rows. Its waiting does so by itself.
  Addends AddendsFor(const ss_measure& measure) const {
    Addends addends = AddendsOf(measure);
    if (waits_.on()) addends.sums[kWaitNs] = 0;
    return addends;
  }
  void FinishWaits(OpenSlot* slot);
  static void Begin(Cpu* cpu, uint64_t ts_ns, bool online);
  bool IsReadyForFirst(uint64_t watermark_ns) const;
  void FixFirst();
  void AccountGap(Cpu* cpu, uint64_t until_ns);
  bool AddPieces(Cpu* cpu, const ss_measure& measure, const Addends& addends);
  void AddCounts(const ss_measure& measure, const Addends& addends);
  void AddPiece(OpenSlot* slot, uint32_t process, const ss_measure& measure, const Sums& sums,
                uint32_t unmeasured, uint64_t from_ns, uint64_t to_ns);
  OpenRow* AddTo(OpenSlot* slot, uint32_t process, const ss_measure& measure, const Sums& sums,
                 uint32_t unmeasured, uint32_t run_ns, uint64_t to_ns);
  uint32_t ProcessOf(const ss_measure& measure) {
    return tracker_.Resolve({measure.tgid, measure.start_time_ns}, measure.rmid, measure.hdr.ts_ns);
  }
  OpenSlot* SlotOf(const Cpu& cpu, uint64_t ts_ns);
  void CountLate(const Sums& sums, uint64_t until_ns);
  void CountBefore(const Sums& sums, uint64_t until_ns);
  OpenSlot* SlotAt(uint64_t ts_ns) { return open_.At(ts_ns, first_fixed_ ? next_start_ns_ : 0); }
  void Retire();
  void SplitThrottled(const OpenSlot& slot, const OpenRow* row, GpuRow* gpu) const;
  void JoinGpu(OpenSlot* slot);
  void FindStill();
  template <size_t kVectors>
  void OrderFew(const OpenSlot& slot, const std::vector<uint32_t>& ranks);
  void OrderMany(const OpenSlot& slot, const std::vector<uint32_t>& ranks);
  uint64_t FillRows(const OpenSlot& slot);
  StateSince StateOfRow(const OpenSlot& slot, const OpenRow& row);
  void FillRow(const OpenSlot& slot, const OpenRow& open, Row* row);
  void AddBeside(const OpenSlot& slot, size_t index, Row* row);
  void AddTimeRow(RowKind kind, uint64_t time_ns);
  void TakeClockAndNotes(uint64_t end_ns);
  // Takes the oldest open slot away; its rows are accounted for in these.
  void DiscardFront(Sums* into, MbmSums* mbm, MoreSums* more);
  uint64_t MeasuredUntil() const;
  bool FindAgain();

  SlotBuilderOptions options_;
  SlotSink* sink_;
  Tracker tracker_;
  Identities identities_;
  std::vector<Cpu> cpus_;
  size_t nr_cpus_ = 0;  // of cpus_
  OpenSlots open_;
  bool first_fixed_ = false;
  uint64_t first_ns_ = 0;       // with first_fixed_: where the first slot starts
  uint64_t next_start_ns_ = 0;  // with first_fixed_: of the slot that retires next
  bool dumped_ = false;
  uint64_t dumped_ns_ = 0;
  int64_t unix_offset_ns_ = 0;  // of the slot that retires next
  std::deque<Clock> clocks_;    // changes to come
  std::deque<Note> notes_;
  Accounting accounting_;
  RdtAttribution rdt_;
  MoreCounters more_;
  Waits waits_;
  Slot finished_;
  std::vector<GpuUse> gpu_uses_;
  struct KnownState {
    ProcessKey key = {};
    StateSince now;

    template <typename Archive>
    void State(Archive& state) {
      state(key, now);
    }
  };
  std::vector<KnownState> states_;  // [process] at the end of the last slot in which it had a row
  std::vector<GpuUse> still_;       // see GpuJoin
  std::vector<uint32_t> still_of_;  // [process] -> its index in still_ + 1, 0: it is not among them
  uint64_t still_version_ = 0;
  bool has_unfound_still_ = false;    // the tracker does not know one of them yet
  std::vector<uint32_t> order_;       // of a slot's rows, by rank; for FillRows()
  std::vector<uint64_t> ranks_used_;  // a bit per rank, for OrderMany()
  std::vector<uint32_t> row_at_rank_;
  SlotStats stats_;
};

}  // namespace slotscope
