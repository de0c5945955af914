// SPDX-License-Identifier: MIT
// Which process is a rank of a job, as a recording says it between its rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotscope {

struct RankNote {
  int32_t rank = 0;
  int32_t tgid = 0;
  std::string comm;  // escaped; "": not known
};

// "rank 3 is process 4711 (python3)".
std::string RankNoteText(const RankNote& note);
// "rank 3 was process 4711 (python3), which has ended".
std::string RankEndText(const RankNote& note);

// Nothing if it is about something else.
std::optional<RankNote> ParseRankNote(std::string_view text);
std::optional<RankNote> ParseRankEnd(std::string_view text);

}  // namespace slotscope
