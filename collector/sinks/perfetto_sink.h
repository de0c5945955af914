// SPDX-License-Identifier: MIT
// A trace for Perfetto (ui.perfetto.dev): per process a track for each stream with its kernel spans,
// tracks of memory spans, and counters with a value per slot. Of who waited for a CPU while others ran
// there: a slice at each of the two, and an arrow between them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/out_file.h"
#include "sinks/side_sink.h"
#include "slots/column.h"

namespace slotscope {

class PerfettoSink final : public SideSink {
 public:
  using SideSink::SideSink;

  // Comments have no place in a trace: the header's lines are not written.
  void WriteHeader(const HeaderLines& lines) override;
  void EndSegment() override;
  std::string Contents() const override;

  // Less in a slot, in thousandths of it, is in the counters only.
  static constexpr uint64_t kShownWaitPermille = 100;

 private:
  void Append(const Slot& slot) override;
  // A counter is a column of slots.csv, by its place there.
  using Tracks = std::array<uint64_t, kSlotColumns.size() + kMoreColumns.size()>;
  struct Process {
    uint64_t track;
    std::string name;
    Tracks tracks = {};    // 0: not described yet
    Tracks shown = {};     // values
    uint64_t slot_ns = 0;  // the last slot in which it had a row
  };
  // Slots one behind the other in which the same process ran longest while this one waited.
  struct Waiting {
    ProcessKey ran = {};
    Comm ran_comm = {};
    uint64_t start_ns = 0, end_ns = 0;  // of these slots
    uint64_t ns = 0;                    // of waiting
  };
  // Spans that overlap cannot share a track: when the last one on it ended, and the track.
  using Lane = std::pair<uint64_t, uint64_t>;
  // Of processes, streams and memory each; beyond it all begin anew.
  static constexpr size_t kMaxTracks = 65536;

  Process& ProcessOf(ProcessKey key, const std::string& name);
  void ForgetTracks();
  void Describe(const Process& process, ProcessKey key);
  static constexpr uint32_t kNoUnit = 0;
  // With a unit it is a counter's.
  uint64_t DescribeTrack(uint64_t parent, const std::string& name, uint32_t unit = kNoUnit);
  void Show(Process* process, size_t counter, uint64_t ns, uint64_t value);
  void AppendWaits(const Slot& slot);
  void Append(ProcessKey waiter, const Waiting& waiting);
  // What the lanes of a process are of: a device's memory or one of its streams, or waits.
  struct LaneKind {
    static constexpr uint64_t kNoStream = UINT64_MAX;

    ProcessKey process;
    int32_t device = 0;
    uint64_t stream = kNoStream;
    auto operator<=>(const LaneKind&) const = default;
  };
  uint64_t LaneOf(const LaneKind& kind, const std::string& name, uint64_t start_ns, uint64_t end_ns);
  void Append(const KernelSpan& span);
  void Append(const MemorySpan& span);
  void AppendSlice(uint64_t track, uint64_t start_ns, uint64_t end_ns, const std::string& name,
                   const std::vector<std::pair<const char*, uint64_t>>& annotations,
                   uint32_t flow_field = 0, uint64_t flow = 0);
  void AppendClock(const Slot& slot);

  uint64_t next_track_ = 1;
  std::map<ProcessKey, Process> processes_;
  std::map<LaneKind, std::set<Lane>> lanes_;
  std::map<ProcessKey, Waiting> waiting_;  // that may go on in the next slot
  size_t nr_lanes_ = 0;
  std::vector<Process*> running_;  // those with a row in the last slot: what adds up is not shown as 0
  int64_t unix_offset_ns_ = 0;
  bool has_clock_ = false;
  uint64_t nr_spans_ = 0;
  uint64_t nr_arrows_ = 0;
  uint64_t nr_values_ = 0;
};

}  // namespace slotscope
