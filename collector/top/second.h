// SPDX-License-Identifier: MIT
// The last second of a recording, a row for each process or for each of its groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explain/history.h"
#include "explain/stall.h"
#include "recording/reader.h"
#include "top/board.h"

namespace slotscope {

// Whose rows are one: nothing: each process has its own, and those that lived for a moment one for each
// name; else those of a name, a pod, a unit or a cgroup.
using TopGroupBy = std::optional<GroupBy>;

struct TopRow {
  std::string id;  // the same in the next second, whatever else changes
  Party who;
  Doing did;
  Hindered wait_ns = {};       // what its waiting was made of, up to kByUnknown
  uint64_t worst_wait_ns = 0;  // of its slots, in the one with the most waiting
  int64_t worst_start_ns = 0;  // Unix time of that one; 0: it did not wait
  LastState state;             // of a single process
  // False: it waited, and has no slot that says when.
  bool has_worst() const { return did.has_waits && (worst_wait_ns > 0 || did.wait_ns == 0); }
  std::vector<std::pair<std::string, uint64_t>> ran_instead;  // for how long (ns); most first
  std::vector<ProcessKey> members;
  std::vector<ProcessKey> earlier;  // of the same name or place, that ended before that second

  // All that its last ten seconds are of.
  std::vector<ProcessKey> AllMembers() const {
    std::vector<ProcessKey> all = members;
    all.insert(all.end(), earlier.begin(), earlier.end());
    return all;
  }
};

struct TopSecond {
  int64_t from_ns = 0, to_ns = 0;  // Unix time; both 0: nothing was recorded yet
  uint64_t nr_cpus = 1;
  int64_t recorded_ns = 0;  // of it
  uint64_t cpu_ns = 0, lost_ns = 0, wait_ns = 0;
  bool has_waits = false;
  uint64_t worst_wait_ns = 0;  // of all, in one slot
  int64_t worst_start_ns = 0;  // 0: nobody waited
  std::string worst_who;       // of those that are shown, who waited longest in that slot
  std::vector<TopRow> rows;    // in no order
};

// Which second a board ends with: history is to be of that.
UnixRange LastSecondOf(const Board& board);

// history: of that second, with places. Of those that are selected.
TopSecond MakeSecond(const Board& board, const History& history, TopGroupBy by,
                     const Selection& selection);

}  // namespace slotscope
