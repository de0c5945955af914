// SPDX-License-Identifier: MIT
#include "detect/host/slots_csv.h"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/escape.h"
#include "detect/host/rank_note.h"
#include "detect/inputs/scan.h"
#include "detect/inputs/text_input.h"
#include "recording/reader.h"
#include "recording/segment_name.h"
#include "slots/column.h"

namespace slotscope {
namespace {

// Columns by name: others may come between them.
enum Needed : size_t {
  kKind,
  kStart,
  kTgid,
  kBegan,
  kComm,
  kLength,  // older ones do not have it: then the header says it
  kFirstValue,
  kNrNeeded = kFirstValue + kHostColumns.size()
};
consteval auto NamesOfNeeded() {
  std::array<std::string_view, kNrNeeded> names = {
      ColumnOf("kind").name, ColumnOf("slot_start_unix_ns").name,
      ColumnOf("tgid").name, ColumnOf("start_time_ns").name,
      ColumnOf("comm").name, ColumnOf("slot_ns").name};
  for (size_t i = 0; i < kHostColumns.size(); i++) names[kFirstValue + i] = kHostColumns[i]->name;
  return names;
}
constexpr auto kNames = NamesOfNeeded();

class Reader {
 public:
  explicit Reader(HostHistory* history) : history_(*history) {}

  void OnLine(std::string_view line) {
    if (line.starts_with("# ")) return OnComment(line.substr(2));
    if (places_.empty() || line.starts_with(kSlotColumns[0].name)) return OnHeader(line);  // per segment
    OnRow(line);
  }

  bool is_slots_csv() const { return !places_.empty(); }
  uint64_t nr_malformed() const { return nr_malformed_; }

 private:
  void OnComment(std::string_view line) {
    constexpr std::string_view kSlot = "slot_ns: ", kNote = "note: ";
    if (line.starts_with(kSlot)) {
      if (const auto ns = NumberOf<int64_t>(line.substr(kSlot.size())); ns && *ns > 0) {
        slot_ns_ = *ns;
        history_.SetSlot(slot_ns_);
      }
    } else if (line.starts_with(kNote)) {
      if (const auto rank = ParseRankNote(line.substr(kNote.size())))
        history_.SetRank(*rank, last_start_ns_);
    }
  }

  void OnHeader(std::string_view line) {
    std::array<bool, kNrNeeded> found = {};
    std::vector<size_t> places;
    while (!line.empty()) {
      const std::string_view name = line.substr(0, line.find(','));
      line.remove_prefix(std::min(line.size(), name.size() + 1));
      size_t column = 0;
      while (column < kNrNeeded && kNames[column] != name) column++;
      if (column < kNrNeeded) found[column] = true;
      places.push_back(column);
    }
    for (size_t column = 0; column < kNrNeeded; column++)
      if (!found[column] && column != kLength) return;
    places_ = std::move(places);
  }

  void OnRow(std::string_view line) {
    std::array<std::string_view, kNrNeeded> fields;
    size_t at = 0;
    for (;;) {
      const size_t comma = line.find(',');
      if (at < places_.size() && places_[at] < kNrNeeded) fields[places_[at]] = line.substr(0, comma);
      at++;
      if (comma == line.npos) break;
      line.remove_prefix(comma + 1);
    }
    const auto start_ns = NumberOf<int64_t>(fields[kStart]);
    if (at != places_.size() || !start_ns) {
      nr_malformed_++;  // such as a line that is not complete yet
      return;
    }
    if (*start_ns != last_start_ns_)
      history_.OnSlot(*start_ns, NumberOf<int64_t>(fields[kLength]).value_or(slot_ns_));
    last_start_ns_ = *start_ns;
    if (fields[kKind] == "other") history_.OnFolded(*start_ns);
    if (fields[kKind] == "lost")
      history_.OnLost(
          *start_ns,
          NumberOf<uint64_t>(fields[kFirstValue + static_cast<size_t>(kHostCpuNs)]).value_or(0));
    const auto tgid = NumberOf<int32_t>(fields[kTgid]);
    const auto began_ns = NumberOf<uint64_t>(fields[kBegan]);
    if (!tgid || !began_ns || !history_.IsRank(*tgid)) return;
    HostSample sample;
    sample.start_ns = *start_ns;
    for (size_t i = 0; i < kHostColumns.size(); i++) {
      if (const auto number = NumberOf<uint64_t>(fields[kFirstValue + i]))
        sample.values[i] = *number;
      else
        sample.unmeasured |= 1u << i;
    }
    history_.Add(*tgid, *began_ns, fields[kComm], sample);
  }

  HostHistory& history_;
  std::vector<size_t> places_;  // which column each field is; kNrNeeded: none that we need
  int64_t slot_ns_ = 1'000'000;
  int64_t last_start_ns_ = 0;
  uint64_t nr_malformed_ = 0;
};

}  // namespace

Status ReadSlotsCsv(const std::string& path, HostHistory* history) {
  Reader reader(history);
  const auto on_line = [&](std::string_view line) { reader.OnLine(line); };
  Status status;
  if (RecordingReader::Reads(path)) {
    RecordingReader recording;
    status = recording.Open(path);
    LineSplitter lines;
    if (status.ok())
      status =
          recording.Read(kSlotsTable, {}, [&](std::string_view text) { lines.Feed(text, on_line); });
    lines.Finish(on_line);
  } else {
    status = ReadLines(path, on_line);
  }
  if (!status.ok()) return status;
  if (!reader.is_slots_csv())
    return {Exit::kBadInput, fmt::format("{}: these are no slots: columns that all have are missing",
                                         EscapeControls(path))};
  // The last line of a recording that goes on may be half.
  if (reader.nr_malformed() > 1)
    return {Exit::kBadInput, fmt::format("{}: rows that cannot be read: {}", EscapeControls(path),
                                         reader.nr_malformed())};
  return {};
}

}  // namespace slotscope
