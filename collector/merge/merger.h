// SPDX-License-Identifier: MIT
// The merge: many streams in, one stream in the order of time out.
//
// The watermark is the smallest time that every online CPU has passed. A CPU has passed the clock as it
// was read before its ring was last drained to the end, less a grace of 1 ms: a message takes its
// timestamp some time before it is in the ring. (Its last message's timestamp is not used: it would gain
// a fraction of a round, and let a broken one run ahead.)
//
//            t1   t2        t3     clock before drain
//   CPU 0  --m----m---------|m-----|            passed: clock - grace
//   CPU 1  -----m-----------|-------------|     nothing new since t2, and passed all the same
//                           ^ watermark = min over CPUs: everything before it may be handed out
//
// Inside one stream small inversions are normal (an interrupt between taking a timestamp and writing)
// and are repaired here. A CPU that falls more than the window behind the newest one is stalled: it no
// longer holds the watermark back, and what it sends later is late until it catches up.
//
// No clock is read here: the same frames give the same output.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <vector>

#include "merge/message.h"
#include "ring/frame.h"
#include "ring/frame_queue.h"

namespace slotscope {

inline constexpr uint64_t kGraceNs = 1'000'000;

// Gets what the merge hands out, in the order of time except what is late.
struct MergeSink {
  virtual ~MergeSink() = default;
  // `late`: the watermark had passed its timestamp before it arrived.
  virtual void OnMessage(const ss_any_message& message, bool late) = 0;
  // At once, out of order: measures of this CPU are to be expected from about now on.
  virtual void OnExpected(int cpu) = 0;
  // In order: every process alive at begin_ns has been named since.
  virtual void OnDumpEnd(uint64_t begin_ns) = 0;
  virtual void OnWatermark(uint64_t ts_ns) = 0;
};

struct MergeStats {
  uint64_t nr_messages = 0;   // valid ones
  uint64_t nr_unknown = 0;    // of a type that we do not know
  uint64_t nr_malformed = 0;  // too short, or with impossible values
  uint64_t nr_lost = 0;       // records the kernel could not write
  uint64_t nr_dropped = 0;    // messages we could not queue
  uint64_t nr_late = 0;       // valid, but behind the watermark
  uint64_t nr_reordered = 0;  // inversions repaired inside a stream
  uint64_t nr_stalls = 0;     // times a CPU was declared stalled
};

class Merger {
 public:
  // `nr_cpus` rings and one more stream for state dumps, which holds nothing back.
  Merger(size_t nr_cpus, uint64_t window_ns, MergeSink* sink);

  void OnFrame(size_t stream, const FrameBuffer& frame);
  // Hands out everything up to the watermark.
  void Advance();
  // The end: everything that is left, in order.
  void Flush();

  const MergeStats& stats() const { return stats_; }
  uint64_t watermark_ns() const { return watermark_ns_; }

 private:
  struct Stream {
    std::vector<ss_any_message> pending;  // in order of ts_ns from `first` on
    size_t first = 0;
    uint64_t passed_ns = 0;
    bool online = false;
    bool stalled = false;
  };

  void OnMessage(size_t stream, const FrameBuffer& frame);
  void Insert(Stream* stream, const ss_any_message& message);
  void HandOut(const ss_any_message& message, bool late);
  void HandOutUpTo(uint64_t limit_ns);
  uint64_t ComputeWatermark();

  size_t nr_cpus_;
  uint64_t window_ns_;
  MergeSink* sink_;
  std::vector<Stream> streams_;
  std::vector<std::pair<uint64_t, size_t>> heap_;  // (ts_ns of a stream's first message, stream)
  uint64_t watermark_ns_ = 0;
  uint64_t dump_begin_ns_ = 0;
  MergeStats stats_;
};

}  // namespace slotscope
