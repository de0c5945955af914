// SPDX-License-Identifier: MIT
// Moments, told to people and to programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/zone.h"
#include "explain/history.h"
#include "explain/stall.h"
#include "explain/usual_waiting.h"

namespace slotscope {

// Of the recording in which they are.
struct StoryContext {
  std::string path;  // as it is named on the command line
  std::string host;
  Zone zone;
  int64_t from_ns = 0, to_ns = 0;  // Unix time: what was asked for
  int64_t read_ns = 0;             // of that, what was read by the millisecond
  uint64_t nr_rows = 0;            // in that
  double lost_share = 0;           // of the CPUs' time in that
  bool has_waits_table = false;
  bool has_waits = false, has_states = false;  // they were measured
  size_t nr_found = 0;                         // stalls, of which the worst are told
  // Why it tells what it tells.
  enum class Told {
    kWorst,    // the worst moments
    kAt,       // that moment, whatever is usual
    kWhatWas,  // no moment was worse than usual: all of the range
  } told = Told::kWorst;
  // Of a recording in which no moment was worse than usual.
  std::vector<UsualWaiting> usual_waiting;
  bool has_selection = false;
  bool is_part = false;     // of the recording
  bool is_damaged = false;  // some of it could not be read
};

// What happened, in a sentence: "web (4711) waited 212 of 340 ms for a CPU while hog (812) ran".
std::string Headline(const Stall& stall);
// Where no moment was worse than usual: who waited for much of the time all the same. Empty: nobody.
std::string UsualSentence(const StoryContext& context);
// What it was made of, and who else was held up, a line each, indented.
std::vector<std::string> DetailLines(const Stall& stall, const StoryContext& context);
std::string StoryText(const std::vector<Stall>& stalls, const StoryContext& context);
// One of them, as it is in that line.
nlohmann::ordered_json StallJson(const Stall& stall, const StoryContext& context);
// A line of JSON; see doc/explain.md.
std::string StoryJson(const std::vector<Stall>& stalls, const StoryContext& context);

}  // namespace slotscope
