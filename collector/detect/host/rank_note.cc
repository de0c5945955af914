// SPDX-License-Identifier: MIT
#include "detect/host/rank_note.h"

#include <fmt/core.h>

#include "base/scan.h"

namespace slotscope {
namespace {

constexpr std::string_view kHasEnded = "), which has ended";

std::optional<RankNote> Parse(std::string_view text, std::string_view verb, std::string_view end) {
  RankNote note;
  if (!TakeText(&text, "rank ") || !TakeNumber(&text, &note.rank) || !TakeText(&text, verb) ||
      !TakeNumber(&text, &note.tgid) || !TakeText(&text, " (") || !text.ends_with(end))
    return {};
  note.comm = text.substr(0, text.size() - end.size());
  return note;
}

}  // namespace

std::string RankNoteText(const RankNote& note) {
  return fmt::format("rank {} is process {} ({})", note.rank, note.tgid, note.comm);
}

std::string RankEndText(const RankNote& note) {
  return fmt::format("rank {} was process {} ({}{}", note.rank, note.tgid, note.comm, kHasEnded);
}

std::optional<RankNote> ParseRankNote(std::string_view text) { return Parse(text, " is process ", ")"); }

std::optional<RankNote> ParseRankEnd(std::string_view text) {
  return Parse(text, " was process ", kHasEnded);
}

}  // namespace slotscope
