// SPDX-License-Identifier: MIT
// Moments, told to people and to programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/zone.h"
#include "explain/history.h"
#include "explain/stall.h"

namespace slotscope {

// Of the recording in which they are.
struct StoryContext {
  std::string path;  // as it is named on the command line
  std::string host;
  std::string not_measured;  // names of columns
  Zone zone;
  int64_t from_ns = 0, to_ns = 0;  // Unix time: what was looked at
  uint64_t nr_rows = 0;
  double lost_share = 0;  // of the CPUs' time
  size_t nr_found = 0;    // stalls, of which the worst are told
  bool is_asked = false;  // for that time, whatever is usual; else the worst stalls
  bool has_selection = false;
};

// What happened, in a sentence: "web (4711) waited 212 of 340 ms for a CPU while hog (812) ran".
std::string Headline(const Stall& stall);
std::string StoryText(const std::vector<Stall>& stalls, const StoryContext& context);
// A line of JSON; see doc/README.md.
std::string StoryJson(const std::vector<Stall>& stalls, const StoryContext& context);

}  // namespace slotscope
