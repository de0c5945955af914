// SPDX-License-Identifier: MIT
#include "top/follower.h"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "recording/folder.h"
#include "recording/segment_name.h"
#include "slots/wait_row.h"

namespace slotscope {
namespace {

// A recorder writes once a second, and what it writes is some 0.1 s old.
constexpr int64_t kFreshNs = 5 * kSecondNs;
// Places are read anew then, as those of who has ended stay in them.
constexpr int64_t kPlacesAgeNs = 60 * kSecondNs;

namespace fs = std::filesystem;

// Those that a recorder has open, here or as a service.
std::vector<std::string> HeldRecordings() {
  std::vector<std::string> held;
  const auto add = [&held](const std::string& path) {
    if (IsRecording(path) && IsHeld(path)) held.push_back(path);
  };
  std::error_code error;
  for (fs::directory_iterator it(".", error), end; !error && it != end; it.increment(error))
    add(it->path().filename().string());
  add(kServiceRecording);
  return held;
}

}  // namespace

bool IsBeingWritten(const std::string& path) {
  RecordingTables tables;
  if (!tables.Open(path).ok()) return false;
  if (tables.facts().last_ns <= static_cast<int64_t>(ClockNs(CLOCK_REALTIME)) - kFreshNs) return false;
  // A segment that is complete has its name; one that a killed recorder left is old soon. For a second
  // in a minute the last one is complete and the next one is not there: then its recorder shows.
  const std::vector<std::string> files = tables.FilesOf(kSlotsTable, {});
  return !files.empty() && (files.back().ends_with(kPart) || IsHeld(path));
}

std::string FindBeingWritten(const std::function<bool()>& wants_end) {
  constexpr uint64_t kFirstRowNs = 10'000'000'000;
  constexpr int kPauseMs = 50;
  for (const uint64_t until_ns = MonotonicNs() + kFirstRowNs;;) {
    const std::vector<std::string> held = HeldRecordings();
    for (const std::string& path : held)
      if (IsBeingWritten(path)) return path;
    if (held.empty() || wants_end() || MonotonicNs() > until_ns) return "";
    poll(nullptr, 0, kPauseMs);
  }
}

Status Follower::Poll(bool* is_new) {
  *is_new = false;
  RecordingTables tables;
  if (Status status = tables.Open(path_); !status.ok()) return status;
  facts_ = tables.facts();
  if (facts_.last_ns == 0 || facts_.last_ns <= slots_from_ns_) return {};
  *is_new = true;
  return ReadNews(tables);
}

// The newest ten seconds at first, and what has come since then. Whatever else stands in the way, time
// goes on.
Status Follower::ReadNews(const RecordingTables& tables) {
  const int64_t first_ns = facts_.last_ns - Board::kKeptNs;
  const UnixRange slots = {std::max(first_ns, slots_from_ns_), facts_.last_ns};
  Status status =
      tables.ReadSlotRows(kSlotsTable, slots, [this](const SlotRow& row) { board_.OnSlot(row); });
  slots_from_ns_ = facts_.last_ns;
  const auto keep = [&status](const Status& other) {
    if (status.ok()) status = other;
  };
  if (tables.Has(kWaitsTable)) {
    const UnixRange waits = {std::max(first_ns, waits_from_ns_), facts_.last_ns};
    keep(tables.ReadWaitRows(waits, [this](const WaitTableRow& row) {
      if (row.cause == kWaitCauseNames.back()) board_.OnEarlierWait(row);
      waits_from_ns_ = std::max(waits_from_ns_, row.start_ns + 1);
    }));
  }
  keep(ReadPlaces(tables));
  history_ = History();
  keep(tables.ReadHistory(LastSecondOf(board_), &history_));
  history_.SetPlaces(places_);
  return status;
}

Status Follower::ReadPlaces(const RecordingTables& tables) {
  if (!tables.Has(kProcessesTable)) return {};
  const bool all = places_from_ns_ == 0 || facts_.last_ns > all_places_ns_ + kPlacesAgeNs;
  Status status;
  if (all) {
    places_ = ProcessPlaces();
    all_places_ns_ = facts_.last_ns;
    status = tables.ReadPlaces({facts_.last_ns - 1, facts_.last_ns}, &places_);
  } else {
    status = tables.ReadTableLines(kProcessesTable, {places_from_ns_, facts_.last_ns},
                                   [this](std::string_view line) { places_.OnLine(line); });
  }
  places_from_ns_ = facts_.last_ns - kSecondNs;  // what is said twice does no harm
  board_.SetPlaces(places_, all ? Board::Known::kAll : Board::Known::kSome);
  return status;
}

}  // namespace slotscope
