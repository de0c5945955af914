// SPDX-License-Identifier: MIT
#include "detect/host/rank_note.h"

#include <fmt/core.h>

#include "base/scan.h"

namespace slotscope {
std::string RankNoteText(const RankNote& note) {
  return fmt::format("rank {} is process {} ({})", note.rank, note.tgid, note.comm);
}

std::optional<RankNote> ParseRankNote(std::string_view text) {
  RankNote note;
  if (!TakeText(&text, "rank ") || !TakeNumber(&text, &note.rank) || !TakeText(&text, " is process ") ||
      !TakeNumber(&text, &note.tgid) || !TakeText(&text, " (") || !text.ends_with(')'))
    return {};
  note.comm = text.substr(0, text.size() - 1);
  return note;
}

}  // namespace slotscope
