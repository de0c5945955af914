// SPDX-License-Identifier: MIT
// What the page shows, as one object of JSON, whose numbers are packed (packer.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "explain/moments.h"
#include "report/cast.h"
#include "report/overview.h"
#include "report/tracks.h"
#include "report/wait_table.h"

namespace slotscope {

// All that a page is made of; nothing of it is owned.
struct PageInput {
  const Moments& moments;    // of the whole recording, or of what was asked for
  const Overview& overview;  // of the whole recording
  const RecordingFacts& facts;
  const UnixRange& range;  // that the page shows
  const Tracks& tracks;    // of that range
  const Cast& cast;
  const Stretches& near;  // where all are known to the millisecond
  const WaitTable& waits;
  const ProcessPlaces& places;
  GroupBy group_by;  // which of them
};

// An object of JSON, without a newline.
std::string PageData(const PageInput& input);

}  // namespace slotscope
