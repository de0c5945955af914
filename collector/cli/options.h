// SPDX-License-Identifier: MIT
// The command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ring/counters.h"
#include "slots/fold.h"

namespace slotscope {

enum class SourceChoice { kAuto, kKmod, kBpf };

struct RecordOptions {
  SourceChoice source = SourceChoice::kAuto;
  uint64_t duration_ns = 0;  // 0: until a signal, or until the command exits
  std::string output = "slots.csv";
  uint64_t slot_ns = 1'000'000;
  uint64_t window_ns = 64'000'000;
  CounterSpecs counters;
  uint32_t nr_rmids = 512;
  FoldOptions fold;
  uint64_t max_size = 0;  // bytes; 0: no limit
  bool strict = false;
  std::vector<std::string> command;
};

struct Options {
  enum class Verb { kShowHelp, kShowVersion, kRecord, kRmids } verb = Verb::kShowHelp;
  std::string help;  // for kShowHelp
  RecordOptions record;
};

// Exit::kUsage with a sentence for whatever cannot be meant.
Status ParseOptions(int argc, char** argv, Options* options);

}  // namespace slotscope
