// SPDX-License-Identifier: MIT
#include "cli/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/say.h"
#include "base/table_rows.h"
#include "cli/exit_code.h"
#include "explain/moments.h"
#include "recording/segment_name.h"
#include "slots/column.h"

namespace slotscope {
namespace {

Status CannotWrite() {
  return {Exit::kOutput, fmt::format("cannot write to standard output: {}", ErrnoText(errno))};
}

Status Print(const std::string& text) {
  if (fwrite(text.data(), 1, text.size(), stdout) == text.size() && fflush(stdout) == 0) return {};
  return CannotWrite();
}

// The rows of a table that are meant, as they stand there.
class RowPrinter {
 public:
  RowPrinter(const UnixRange& range, const Selection& selection)
      : range_(range), selection_(selection) {}

  void OnLine(std::string_view line) {
    switch (rows_.Take(line)) {
      case TableRows::Line::kHeader:
        if (header_ == line) return;  // of each segment one
        header_ = line;
        return Put(line);
      case TableRows::Line::kRow:
        if (IsMeant()) Put(line);
        return;
      case TableRows::Line::kComment:
      case TableRows::Line::kMalformed:
        return;
    }
  }
  bool has_header() const { return !header_.empty(); }
  const Status& status() const { return status_; }

 private:
  bool IsMeant() const {
    const auto start_ns = rows_.Number<int64_t>("slot_start_unix_ns");
    // A second, or a minute, is meant if a part of it is.
    const bool is_period = !rows_["slots"].empty();
    const bool ends_in_it = is_period && start_ns >= 0 && start_ns < range_.from_ns &&
                            range_.from_ns - start_ns < rows_.Number<int64_t>("slot_ns");
    return (start_ns >= range_.from_ns || ends_in_it) && start_ns < range_.to_ns &&
           (!selection_.any() ||
            selection_.Has({rows_.Number<int32_t>("tgid"), rows_.Number<uint64_t>("start_time_ns")},
                           std::string(rows_["comm"])));
  }

  void Put(std::string_view line) {
    if (!status_.ok()) return;
    if (fwrite(line.data(), 1, line.size(), stdout) != line.size() || fputc('\n', stdout) == EOF)
      status_ = CannotWrite();
  }

  const UnixRange range_;
  const Selection& selection_;
  TableRows rows_{kSlotColumns[0].name};
  std::string header_;
  Status status_;
};

// Of the table processes: who was there, and not only who changed then.
Status PrintRows(const RecordingTables& tables, const std::string& table, const UnixRange& asked,
                 const Selection& selection) {
  const UnixRange range = table == kProcessesTable ? tables.FromSegmentStart(asked) : asked;
  RowPrinter printer(range, selection);
  const Status status =
      tables.ReadTableLines(table, range, [&](std::string_view line) { printer.OnLine(line); });
  if (!printer.status().ok()) return printer.status();
  if (fflush(stdout)) return CannotWrite();
  if (!printer.has_header() && status.ok())
    return {Exit::kUsage,
            fmt::format("--rows {}: its rows are not of slots; zstdcat shows them", EscapeName(table))};
  return status;
}

Status RunExplain(const ExplainOptions& options) {
  RecordingTables tables;
  const std::string table = options.rows.empty() ? std::string(kSlotsTable) : options.rows;
  if (Status status = OpenRecording(options.reader, table, &tables); !status.ok()) return status;
  ReaderRange asked;
  if (Status status = FindRange(options.reader, tables.facts(), &asked); !status.ok()) return status;
  Selection selection = options.reader.selection;
  ProcessPlaces places;
  Status damage;
  if (Status status = FindPlaces(tables, asked.range, &selection, &places, &damage); !status.ok())
    return status;
  if (!options.rows.empty()) {
    const Status printed = PrintRows(tables, table, asked.range, selection);
    return printed.ok() ? damage : printed;
  }
  if (tables.facts().is_cut)
    Say(stderr, "slotscope: {} ends in the midst of a row: it was cut, or is being written\n",
        EscapeName(tables.path()));

  Moments moments;
  if (Status status = FindMoments(tables, {asked.range, asked.has_at, asked.is_part, options.nr},
                                  selection, places, asked.zone, &moments);
      damage.ok())
    damage = status;
  const Status printed = Print(options.reader.json ? StoryJson(moments.stalls, moments.context)
                                                   : StoryText(moments.stalls, moments.context));
  return printed.ok() ? damage : printed;
}

}  // namespace

int Explain(const ExplainOptions& options) { return ExitCode(RunExplain(options)); }

}  // namespace slotscope
