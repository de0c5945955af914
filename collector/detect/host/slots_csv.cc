// SPDX-License-Identifier: MIT
#include "detect/host/slots_csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "base/scan.h"
#include "base/table_rows.h"
#include "base/text_input.h"
#include "detect/host/rank_note.h"
#include "recording/reader.h"
#include "recording/segment_name.h"
#include "slots/column.h"
#include "slots/wait_row.h"

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
    switch (rows_.Take(line)) {
      case TableRows::Line::kComment:
        return OnComment(line.substr(2));
      case TableRows::Line::kHeader:
        return OnHeader();
      case TableRows::Line::kRow:
        if (is_slots_csv_) OnRow();
        return;
      case TableRows::Line::kMalformed:
        nr_malformed_ += is_slots_csv_;
    }
  }

  bool is_slots_csv() const { return is_slots_csv_; }
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

  void OnHeader() {
    is_slots_csv_ = true;
    for (size_t column = 0; column < kNrNeeded; column++) {
      places_[column] = rows_.PlaceOf(kNames[column]);
      is_slots_csv_ &= places_[column] != TableRows::kNone || column == kLength ||
                       column >= kFirstValue + kFirstLater;
    }
  }

  std::string_view Field(size_t column) const { return rows_.At(places_[column]); }

  void OnRow() {
    const auto start_ns = NumberOf<int64_t>(Field(kStart));
    if (!start_ns) {
      nr_malformed_++;
      return;
    }
    if (*start_ns != last_start_ns_)
      history_.OnSlot(*start_ns, NumberOf<int64_t>(Field(kLength)).value_or(slot_ns_));
    last_start_ns_ = *start_ns;
    if (Field(kKind) == "other") history_.OnFolded(*start_ns);
    if (Field(kKind) == "lost")
      history_.OnLost(
          *start_ns,
          NumberOf<uint64_t>(Field(kFirstValue + static_cast<size_t>(kHostCpuNs))).value_or(0));
    const auto tgid = NumberOf<int32_t>(Field(kTgid));
    const auto began_ns = NumberOf<uint64_t>(Field(kBegan));
    if (!tgid || !began_ns || !history_.IsRank(*tgid)) return;
    HostSample sample;
    sample.start_ns = *start_ns;
    for (size_t i = 0; i < kHostColumns.size(); i++) {
      if (const auto number = NumberOf<uint64_t>(Field(kFirstValue + i)))
        sample.values[i] = *number;
      else
        sample.unmeasured |= 1u << i;
    }
    history_.Add(*tgid, *began_ns, Field(kComm), sample);
  }

  HostHistory& history_;
  TableRows rows_{kSlotColumns[0].name};
  std::array<size_t, kNrNeeded> places_ = {};
  bool is_slots_csv_ = false;  // all columns that are needed are there
  int64_t slot_ns_ = 1'000'000;
  int64_t last_start_ns_ = 0;
  uint64_t nr_malformed_ = 0;
};

// Who ran while a rank waited, which a table of its own says.
class WaitsReader {
 public:
  explicit WaitsReader(HostHistory* history) : history_(*history) {}

  void OnLine(std::string_view line) {
    const auto what = rows_.Take(line);
    if (what == TableRows::Line::kHeader)
      for (size_t i = 0; i < kNames.size(); i++) places_[i] = rows_.PlaceOf(kNames[i]);
    if (what == TableRows::Line::kRow) OnRow();
  }

 private:
  enum Wanted : size_t { kStart, kTgid, kCause, kRanTgid, kRanComm, kNs, kNrWanted };
  static constexpr std::array<std::string_view, kNrWanted> kNames = {
      "slot_start_unix_ns", "tgid", "cause", "ran_tgid", "ran_comm", "ns"};

  std::string_view Field(Wanted column) const { return rows_.At(places_[column]); }

  void OnRow() {
    const auto start_ns = NumberOf<int64_t>(Field(kStart));
    const auto tgid = NumberOf<int32_t>(Field(kTgid)), ran_tgid = NumberOf<int32_t>(Field(kRanTgid));
    const auto ns = NumberOf<uint64_t>(Field(kNs));
    // What passed in slots that were finished is in no row beside it.
    if (!start_ns || !tgid || !ran_tgid || !ns || Field(kCause) == kWaitCauseNames[kWaitEarlier]) return;
    if (history_.IsRank(*tgid))
      history_.AddRanInstead(*tgid, {*start_ns, *ran_tgid, std::string(Field(kRanComm)), *ns});
  }

  HostHistory& history_;
  TableRows rows_{kSlotColumns[0].name};
  std::array<size_t, kNrWanted> places_ = {};
};

// What is wanted, with a minute on each side for slots that are long, and from the beginning of the
// segment in which that begins: ranks may be said in between.
UnixRange RangeIn(const RecordingReader& recording, std::pair<int64_t, int64_t> wanted) {
  constexpr int64_t kMinute = 60'000'000'000;
  UnixRange range;
  if (wanted.first > range.from_ns + kMinute) range.from_ns = wanted.first - kMinute;
  if (wanted.second < range.to_ns - kMinute) range.to_ns = wanted.second + kMinute;
  const UnixRange wide = range;
  for (const auto& [number, segment] : recording.segments()) {
    if (segment.times.unix_start_ns() >= wide.to_ns || wide.from_ns >= segment.times.unix_end_ns())
      continue;
    range.from_ns = std::min(range.from_ns, segment.times.unix_start_ns());
    range.to_ns = UnixRange().to_ns;  // whether a rank lived on is seen later
  }
  return range;
}

}  // namespace

Status ReadSlotsCsv(const std::string& path, HostHistory* history) {
  Reader reader(history);
  const auto on_line = [&](std::string_view line) { reader.OnLine(line); };
  Status status;
  bool any = true;
  if (RecordingReader::Reads(path)) {
    RecordingReader recording;
    status = recording.Open(path);
    LineSplitter lines;
    any = recording.FilesOf(kSlotsTable).empty();  // else there may be nothing of what is wanted
    const auto on_text = [&](std::string_view text) {
      any = true;
      lines.Feed(text, on_line);
    };
    const UnixRange range = RangeIn(recording, history->WantedSpan());
    if (status.ok()) status = recording.Read(kSlotsTable, range, on_text);
    lines.Finish(on_line);
    WaitsReader waits(history);
    LineSplitter wait_lines;
    const auto on_wait = [&](std::string_view line) { waits.OnLine(line); };
    if (status.ok())
      status = recording.Read(kWaitsTable, range,
                              [&](std::string_view text) { wait_lines.Feed(text, on_wait); });
    wait_lines.Finish(on_wait);
  } else {
    status = ReadLines(path, on_line);
  }
  if (!status.ok()) return status;
  if (any && !reader.is_slots_csv())
    return {Exit::kBadInput, fmt::format("{}: these are no slots: columns that all have are missing",
                                         EscapeControls(path))};
  // The last line of a recording that goes on may be half.
  if (reader.nr_malformed() > 1)
    return {Exit::kBadInput, fmt::format("{}: rows that cannot be read: {}", EscapeControls(path),
                                         reader.nr_malformed())};
  return {};
}

}  // namespace slotscope
