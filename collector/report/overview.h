// SPDX-License-Identifier: MIT
// All of a recording, second by second, and what happened in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "explain/history_reader.h"

namespace slotscope {

struct OverviewSecond {
  double cpu_ns = 0, wait_ns = 0, lost_ns = 0;
};

// Something that the recording says of a moment: a trigger, or a verdict.
struct Mark {
  int64_t at_ns = 0;  // Unix time
  std::string kind;   // "straggle", "xid", "verdict"...
  std::string text;   // a sentence
};

struct Overview {
  std::map<int64_t, OverviewSecond>
      seconds;              // by their Unix time in seconds; what is not there is a gap
  std::vector<Mark> marks;  // in order
};

// Of the tables seconds (else slots), minutes (where there are no seconds any more: each of its seconds
// has its share), events and verdicts. Exit::kBadInput: something of it is damaged;
// what could be read is in *overview.
Status ReadOverview(const RecordingTables& tables, Overview* overview);

}  // namespace slotscope
