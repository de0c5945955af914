// SPDX-License-Identifier: MIT
// What a recording says at its end, on the screen and at the end of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/engine.h"
#include "ring/item.h"
#include "sinks/csv_sink.h"
#include "sinks/top_table.h"

namespace slotscope {

struct RunSummary {
  std::vector<std::string> notes;  // of the source
  SourceLosses losses;
  MergeStats merge;
  Accounting accounting;
  TrackerStats tracker;
  RdtStats rdt;
  GpuStats gpu;
  RemoteCounts remote;
  RemoteStats joined;
  uint64_t nr_episodes = 0;             // of straggling
  uint64_t nr_unwatched_launchers = 0;  // slots of them, beyond StraggleDetector::kMaxProcesses
  uint64_t nr_late_pieces = 0;
  uint64_t nr_seq_gaps = 0;
  uint64_t nr_foreign = 0;
  uint64_t nr_unknown = 0;
  uint64_t nr_missed_ticks = 0;
  uint64_t nr_unwatched = 0;
  uint64_t nr_rows = 0;
  uint64_t nr_unwritten_slots = 0;
  uint64_t slot_ns = 0;
  size_t nr_cpus = 0;
  double elapsed_s = 0;                 // of the recording; 0: not known
  std::vector<std::string> late_notes;  // of the last moments, behind the last slot
  std::string input_error;              // of a replayed file: it is damaged, and where
  std::string input_cut;                // it ends early
  std::vector<Total> totals;
};

// All but what the sinks know.
RunSummary Summarize(const Engine& engine);

// Was anything lost that should be in the file?
bool HasLosses(const RunSummary& run);

// "identity: holds: ..." in one line, without the key.
std::string IdentityText(const RunSummary& run);

// The counters for the file's last lines.
HeaderLines SummaryLines(const RunSummary& run);

// The table for the screen.
std::string SummaryTable(const RunSummary& run);

}  // namespace slotscope
