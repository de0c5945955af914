// SPDX-License-Identifier: MIT
// The merge: the drained bytes of many rings in; out comes everything in an order that cannot be told
// from the order of time.
//
// The watermark is the smallest time that every online CPU has passed. A CPU has passed the clock as it
// was read before its ring was last drained to the end, less a grace of 3 ms: a message takes its
// timestamp some time before it is in the ring, a batch of them up to a slot (see slotscope/batch.h).
// (Its last message's timestamp is not used: it would gain a fraction of a round, and let a broken one
// run ahead.)
//
//            t1   t2        t3     clock before drain
//   CPU 0  --m----m---------|m-----|            passed: clock - grace
//   CPU 1  -----m-----------|-------------|     nothing new since t2, and passed all the same
//                           ^ watermark = min over CPUs: nothing that is before it is still to come
//
// What is ordered is what order can be seen in:
//   - A measure that begins where the last one of its CPU ended is handed out at once: nothing can come
//     between them, and sums do not care which CPU was first. Others wait in the CPU's `held`, in the
//     order of time, until they continue it or the watermark has passed them: inside one ring small
//     inversions are normal (an interrupt between taking a timestamp and writing).
//   - State (births, names, RMIDs) is handed out at once; the tracker sorts it, and applies it to a slot
//     when the slot retires, a window behind the watermark.
//
// A CPU that falls more than the window behind the newest one is stalled: it no longer holds the
// watermark back, and what it sends later is late until it catches up. No clock is read here.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "merge/message.h"
#include "merge/run.h"
#include "ring/item.h"

namespace slotscope {

inline constexpr uint64_t kGraceNs = 3'000'000;
// Gets what the merge hands out.
struct MergeSink {
  virtual ~MergeSink() = default;
  // Measures and states of one CPU come in the order of its time, except those that are late.
  virtual void OnMeasure(const ss_measure& measure) = 0;
  virtual void OnLongMeasure(const ss_long_measure& measure) { OnMeasure(measure.measure); }
  // Pulls all that there is.
  virtual void OnRun(Run* run) {
    run->TakeAll([this](const ss_measure& measure) { OnMeasure(measure); },
                 [this](const ss_tick& tick) { OnTick(tick); });
  }
  virtual void OnCpuState(const ss_cpu_state& state) = 0;
  virtual void OnTick(const ss_tick& tick) = 0;
  // Everything else, in any order. `late`: the watermark had passed its timestamp before it arrived.
  virtual void OnMessage(const ss_any_message& message, bool late) = 0;
  // The same, of who a process is, in words.
  virtual void OnText(const ss_text& text, bool late) {
    (void)text;
    (void)late;
  }
  // The names of all pods of this machine: "UID NAMESPACE/NAME" lines.
  virtual void OnPods(uint64_t from_ns, std::string_view lines) {
    (void)from_ns;
    (void)lines;
  }
  // Measures of this CPU are to be expected from about now on.
  virtual void OnExpected(int cpu) = 0;
  // When the watermark has passed end_ns: every process alive at begin_ns has been named.
  virtual void OnDumpEnd(uint64_t begin_ns, uint64_t end_ns) = 0;
  // From from_ns on, CLOCK_REALTIME - CLOCK_MONOTONIC is another.
  virtual void OnClock(uint64_t from_ns, int64_t unix_offset_ns) = 0;
  virtual void OnNote(uint64_t from_ns, std::string_view text) = 0;
  // From about from_ns on slots are so long: 1 ns to kMaxSlotNs.
  virtual void OnSlotLength(uint64_t from_ns, uint64_t slot_ns) {
    (void)from_ns;
    (void)slot_ns;
  }
  // From about from_ns on it is to be said why processes wait, or not any more.
  virtual void OnWaitCauses(uint64_t from_ns, bool told) {
    (void)from_ns;
    (void)told;
  }
  // A CUDA call that cannot be read, made somewhere from from_ns to to_ns.
  virtual void OnMalformedCall(uint64_t from_ns, uint64_t to_ns) {
    (void)from_ns;
    (void)to_ns;
  }
  virtual void OnWatermark(uint64_t ts_ns) = 0;
};

struct MergeStats {
  uint64_t nr_messages = 0;         // valid ones
  uint64_t nr_unknown = 0;          // of a type that we do not know
  uint64_t nr_malformed = 0;        // too short, with impossible values or at an impossible time
  uint64_t nr_malformed_calls = 0;  // of these: of CUDA calls
  uint64_t nr_lost = 0;             // records the kernel could not write
  uint64_t nr_late = 0;             // valid, but behind the watermark
  uint64_t nr_reordered = 0;        // inversions repaired inside a stream
  uint64_t nr_stalls = 0;           // times a CPU was declared stalled
  uint64_t nr_rounds = 0;
};

class Merger {
 public:
  // `nr_cpus` rings and one more stream for state dumps, which holds nothing back. `others` gets the
  // items that say nothing of rings and time; null: nobody is interested. measure_size: of
  // kMeasureSizes.
  Merger(size_t nr_cpus, uint64_t window_ns, MergeSink* sink, ItemSink* others = nullptr,
         size_t measure_size = sizeof(ss_measure));

  // Whole items, of which `bytes` begins 4 bytes off an 8-byte border (as a Block does). At each round's
  // end the watermark moves. False: an item cannot be (its size, its stream, a clock that is more than
  // kMaxJumpNs away from the latest one, or has paused for too long in sum); nothing from it on was
  // used.
  bool OnItems(std::span<const std::byte> bytes);
  // The end: hands out everything that is left.
  void Flush();

  const MergeStats& stats() const { return stats_; }
  uint64_t watermark_ns() const { return watermark_ns_; }
  // The latest of all items.
  uint64_t clock_ns() const { return clock_ns_; }
  // Everything, between two calls of OnItems() (base/state.h).
  template <typename Archive>
  void State(Archive& state);

 private:
  // A measure or a CPU state that waits.
  union Held {
    ss_hdr hdr;
    ss_measure measure;
    ss_long_measure long_measure;
    ss_cpu_state cpu_state;
  };
  struct Stream {
    std::vector<Held> held;
    bool sorted = true;            // held, in the order of time
    size_t newest = 0;             // the latest of held
    size_t most_held = 0;          // at once, since the last Trim()
    uint64_t continues_at_ns = 0;  // where the last one handed out ended
    uint64_t passed_ns = 0;
    bool online = false;
    bool stalled = false;

    template <typename Archive>
    void State(Archive& state);
  };
  // Whose messages an item has.
  struct Drain {
    Stream* stream;
    uint32_t cpu;
    TimeRange possible;
  };
  struct Dump {
    uint64_t begin_ns;
    uint64_t end_ns;

    template <typename Archive>
    void State(Archive& state) {
      state(begin_ns, end_ns);
    }
  };

  bool OnItem(const ItemHeader& item, std::span<const std::byte> payload);
  bool OnCpuItem(const ItemHeader& item, std::span<const std::byte> payload);
  Drain DrainOf(const ItemHeader& item);
  void OnRecords(const Drain& drain, std::span<const std::byte> records);
  void OnDump(const Drain& drain, std::span<const std::byte> messages);
  std::span<const std::byte> HandOutRun(const Drain& drain, std::span<const std::byte> records);
  void OnRecord(const Drain& drain, std::span<const std::byte> record);
  template <typename Measure>
  void OnMeasure(const Drain& drain, const Measure& measure);
  void OnTick(const Drain& drain, const ss_tick& tick);
  void OnOther(const Drain& drain, std::span<const std::byte> message);
  void OnText(const Drain& drain, std::span<const std::byte> message);
  bool Count(const Drain& drain, const ss_hdr& hdr, Decoded decoded);
  void OnCalls(const Drain& drain, std::span<const std::byte> calls);
  void OnMalformed(const Drain& drain, uint16_t type);
  uint64_t EndOf(const Stream& stream) const;
  void HandOutMeasure(const ss_measure& measure) { sink_->OnMeasure(measure); }
  void HandOutMeasure(const ss_long_measure& measure) { sink_->OnLongMeasure(measure); }
  static Held MakeOffline(size_t cpu, uint64_t ts_ns);
  static uint64_t StartOf(const Held& message);
  static bool IsEarlier(const Held& a, const Held& b);
  void Hold(Stream* stream, const Held& message);
  void HandOut(Stream* stream, const Held& message);
  void HandOutHeld(Stream* stream, uint64_t until_ns);
  uint64_t ComputeWatermark();
  void Advance();
  void Trim();

  size_t nr_cpus_;
  uint64_t window_ns_;
  MergeSink* sink_;
  ItemSink* others_;
  size_t measure_size_;
  std::vector<Stream> streams_;
  std::vector<Dump> dumps_;  // ended, to be told
  uint64_t watermark_ns_ = 0;
  uint64_t next_trim_ns_ = 0;
  uint64_t clock_ns_ = 0;   // the latest of all items
  uint64_t run_ns_ = 0;     // that it went in steps
  uint64_t paused_ns_ = 0;  // and in pauses, see kPauseNs
  uint64_t dump_begin_ns_ = 0;
  MergeStats stats_;
};

}  // namespace slotscope
