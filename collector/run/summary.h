// SPDX-License-Identifier: MIT
// What a recording says at its end, on the screen and at the end of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/counts.h"
#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "sinks/pair_table.h"
#include "sinks/top_table.h"

namespace slotscope {

// Of them, in the summary.
inline constexpr size_t kShownPairs = 5;

struct RunSummary {
  RunCounts counts;
  std::vector<std::string> notes;
  bool has_selection = false;  // of processes: --pid, --comm, a command
  // Columns, with blanks between them; why: see the header, or slotscope check.
  std::string not_measured;
  uint64_t slot_ns = 0;
  size_t nr_cpus = 0;
  size_t nr_more = 0;                   // perf counters behind the first ones
  double elapsed_s = 0;                 // of the recording; 0: not known
  std::vector<std::string> late_notes;  // of the last moments, behind the last slot
  std::string input_error;              // of a replayed file: it is damaged, and where
  std::string input_cut;                // it ends early
  std::vector<Total> totals;
  std::vector<PairTotal> pairs;  // who kept whom waiting, the worst first
};

// All but what the sinks know.
RunSummary Summarize(const Engine& engine);

// "identity: holds: ..." in one line, without the key.
std::string IdentityText(const RunSummary& run);

// The counters for the file's last lines.
HeaderLines SummaryLines(const RunSummary& run);

// What was counted, in a file of a recording that goes on.
HeaderLines CountsSoFar(const RunCounts& counts);

}  // namespace slotscope
