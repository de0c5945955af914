// SPDX-License-Identifier: MIT
// The worst moments of a recording, or of a part of it: what explain tells, and the report begins with.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "explain/history_reader.h"
#include "explain/process_places.h"
#include "explain/stall.h"
#include "explain/story.h"

namespace slotscope {

// What is to be looked through.
struct MomentsWanted {
  UnixRange range;
  bool is_moment = false;  // it is told what was then, whatever is usual
  bool is_part = false;    // of the recording
  size_t nr = 5;
};

struct Moments {
  std::vector<Stall> stalls;  // the worst first
  StoryContext context;
};

// Reads what it needs: of a long recording, the worst seconds by the millisecond. Exit::kBadInput:
// something of it is damaged; what could be read is in *moments.
Status FindMoments(const RecordingTables& tables, const MomentsWanted& wanted,
                   const Selection& selection, const ProcessPlaces& places, const Zone& zone,
                   Moments* moments);

}  // namespace slotscope
