// SPDX-License-Identifier: MIT
// What a run has counted, and the one table that says what each counter means. The last lines of
// slots.csv, the summary on the screen, Prometheus and --strict come from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gpu/tracker.h"
#include "join/remote_state.h"
#include "merge/merger.h"
#include "ring/item.h"
#include "slots/accounting.h"
#include "slots/slot_builder.h"
#include "track/tracker.h"

namespace slotscope {

class Engine;

struct RunCounts {
  SourceLosses losses;
  MergeStats merge;
  Accounting accounting;
  TrackerStats tracker;
  SlotStats slots;
  RdtStats rdt;
  WaitStats waits;
  GpuStats gpu;
  RemoteCounts remote;
  RemoteStats joined;
  uint64_t nr_episodes = 0;             // of straggling
  uint64_t nr_unwatched_launchers = 0;  // slots of them, beyond StraggleDetector::kMaxProcesses
  uint64_t nr_rows = 0;
  uint64_t nr_unwritten_slots = 0;
  uint64_t nr_unwritten_blocks = 0;  // of the raw stream
  uint64_t nr_incidents = 0;
  uint64_t nr_uncaptured_incidents = 0;
};

// All but what the sinks know.
RunCounts CountsOf(const Engine& engine);

enum class Severity : uint8_t {
  kNone,  // it is how much there was
  kNote,  // the rows are right, and something is to be known about them
  kLost,  // something is not in the rows that should be, or not where it belongs
};

// Which runs have it: in others it is not shown.
enum class CountScope : uint8_t {
  kAll,
  kWaits,
  kRdt,
  kCuda,
  kUnprobed,
  kJoined,
  kRaw,
  kTriggered,
  kEnd
};
bool IsInScope(CountScope scope, const RunCounts& counts);

struct Counter {
  std::string_view name;  // in slots.csv
  Severity severity;
  CountScope scope;
  std::string_view where;    // who counts it
  std::string_view meaning;  // of one, or of all: "N: <meaning>"
  uint64_t (*of)(const RunCounts&);
  std::string_view metric;  // what Prometheus calls it; "": by its name
};

// In the order of the lines in slots.csv.
std::span<const Counter> Counters();

// Was anything lost that should be in the file?
bool HasLosses(const RunCounts& counts);
// Of counters of losses those that are not 0, but for CPU time: "late_pieces 3, output_errors 1".
std::string LossNames(const RunCounts& counts);
// Of CPU time. From so much on it is a warning.
double LostPercent(const RunCounts& counts, size_t nr_cpus);
inline constexpr double kMuchLostPercent = 1;

}  // namespace slotscope
