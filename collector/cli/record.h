// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/status.h"
#include "cli/options.h"
#include "raw/facts.h"
#include "run/counts.h"

namespace slotscope {

// slotscope record. Prints progress to stderr and the summary to stdout. Returns the exit code.
int Record(const RecordOptions& options);

// What a recording was.
struct RecordReport {
  Facts facts;
  RunCounts counts;
  size_t ring_bytes = 0;               // of one CPU
  double seconds = 0;                  // recorded
  std::optional<double> cost_percent;  // of all CPUs: the most that it took in a second

  void TakeCost(double percent) { cost_percent = std::max(cost_percent.value_or(0), percent); }
};

// The same, without a word, and whatever it costs. *report is filled if it ends well.
Status RecordQuietly(const RecordOptions& options, RecordReport* report);

}  // namespace slotscope
