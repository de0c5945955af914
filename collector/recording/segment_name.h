// SPDX-License-Identifier: MIT
// The names of the files in a recording: slots-000042-20261125T132757Z.csv.zst, table, number and time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotscope {

// The table that every recording has.
inline constexpr std::string_view kSlotsTable = "slots";

// Rows of seconds and of minutes, which are kept for longer, and who ran while somebody waited.
inline constexpr std::string_view kSecondsTable = "seconds";
inline constexpr std::string_view kMinutesTable = "minutes";
inline constexpr std::string_view kWaitsTable = "waits";

// What was found: who straggles, incidents, and what the detectors say.
inline constexpr std::string_view kStraggleTable = "straggle";
inline constexpr std::string_view kEventsTable = "events";
inline constexpr std::string_view kVerdictsTable = "verdicts";

// Who processes are. Each segment begins with all that there are.
inline constexpr std::string_view kProcessesTable = "processes";

// The one that has what the kernel sent.
inline constexpr std::string_view kRawTable = "raw";

// What goes first when room is short: the smaller it is, the longer it is kept.
// With minutes: whose they are, and what was found.
enum class Kept : uint8_t { kMilliseconds, kSeconds, kMinutes };
inline constexpr size_t kNrKept = 3;
// Of a ring's room, what minutes may take, and what they may with seconds.
inline constexpr uint64_t kMinutesTenths = 3, kCoarseTenths = 8;
inline Kept KeptAs(std::string_view table) {
  if (table == kSecondsTable) return Kept::kSeconds;
  for (const std::string_view one :
       {kMinutesTable, kProcessesTable, kStraggleTable, kEventsTable, kVerdictsTable})
    if (table == one) return Kept::kMinutes;
  return Kept::kMilliseconds;
}

inline constexpr const char* kManifestName = "manifest.ndjson";

// While it is being written it ends in this (see PartFile).
inline constexpr std::string_view kPart = ".part";
inline std::string_view WithoutPart(std::string_view name) {
  return name.ends_with(kPart) ? name.substr(0, name.size() - kPart.size()) : name;
}

struct SegmentName {
  std::string table;      // small letters
  uint64_t number = 0;    // one more than the segment before; of all tables of a segment the same
  int64_t unix_s = 0;     // of its first slot, in seconds
  std::string extension;  // "csv", "ndjson" or "raw"
};

std::string FormatSegmentName(const SegmentName& name);
// Nothing if it is none of ours.
std::optional<SegmentName> ParseSegmentName(std::string_view text);

}  // namespace slotscope
