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
#include "explain/story.h"
#include "explain/worst_seconds.h"
#include "recording/segment_name.h"
#include "slots/column.h"

namespace slotscope {
namespace {

// A recording up to this length is read by the millisecond, of a longer one the worst seconds.
constexpr int64_t kReadWhole = 120'000'000'000;
constexpr size_t kWorstSeconds = 20;
// Of a range up to this length it is told what happened, whatever is usual.
constexpr int64_t kShortRange = 60'000'000'000;

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
    return start_ns >= range_.from_ns && start_ns < range_.to_ns &&
           (!selection_.any() ||
            selection_.Has(rows_.Number<int32_t>("tgid"), std::string(rows_["comm"])));
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

Status PrintRows(const RecordingTables& tables, const std::string& table, const UnixRange& range,
                 const Selection& selection) {
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

// What is read by the millisecond.
Status FindRanges(const RecordingTables& tables, const UnixRange& wanted, const Selection& selection,
                  std::vector<UnixRange>* ranges) {
  if (wanted.to_ns - wanted.from_ns > kReadWhole)
    return FindWorstSeconds(tables, wanted, selection, kWorstSeconds, ranges);
  *ranges = {{wanted.from_ns - kContextNs, wanted.to_ns + kContextNs}};
  return {};
}

bool Overlaps(const Stall& stall, const UnixRange& range) {
  return stall.from_ns < range.to_ns && stall.to_ns > range.from_ns;
}

Status RunExplain(const ExplainOptions& options) {
  RecordingTables tables;
  const std::string table = options.rows.empty() ? std::string(kSlotsTable) : options.rows;
  if (Status status = OpenRecording(options.reader, table, &tables); !status.ok()) return status;
  ReaderRange asked;
  if (Status status = FindRange(options.reader, tables.facts(), &asked); !status.ok()) return status;
  const Selection& selection = options.reader.selection;
  if (!options.rows.empty()) return PrintRows(tables, table, asked.range, selection);
  if (tables.facts().is_cut)
    Say(stderr, "slotscope: {} ends in the midst of a row: it was cut, or is being written\n",
        EscapeName(tables.path()));

  using Told = StoryContext::Told;
  StoryContext context;
  context.path = tables.path();
  context.host = tables.facts().host;
  context.zone = asked.zone;
  context.from_ns = std::max(asked.range.from_ns, tables.facts().first_ns);
  context.to_ns = std::min(asked.range.to_ns, tables.facts().last_ns);
  context.has_waits_table = tables.Has(kWaitsTable);
  context.has_selection = selection.any();
  if (asked.has_at) {  // to whole bins, as all that is told of it
    context.told = Told::kAt;
    context.from_ns = context.from_ns / kBinNs * kBinNs;
    context.to_ns = (context.to_ns + kBinNs - 1) / kBinNs * kBinNs;
  }

  std::vector<UnixRange> ranges;
  Status damage = FindRanges(tables, {context.from_ns, context.to_ns}, selection, &ranges);
  // Of quiet hours there is no worst second.
  if (ranges.empty()) ranges = {{context.to_ns - kContextNs, context.to_ns}};
  std::vector<Stall> stalls, all;
  uint64_t lost_ns = 0, slots_ns = 0;
  // Where no moment is worse than usual: of a part, or of those who were asked for, it is told what was.
  // Of what is read in pieces there is no such whole, and of an hour nobody wants it.
  const bool is_short = context.to_ns - context.from_ns <= kShortRange;
  const bool tells_all = ranges.size() == 1 && (selection.any() || (asked.is_part && is_short));
  for (const UnixRange& range : ranges) {
    History history;
    if (Status status = tables.ReadHistory(range, &history); damage.ok()) damage = status;
    const UnixRange here = {std::max(context.from_ns, range.from_ns),
                            std::min(context.to_ns, range.to_ns)};
    const MachineBin sum = history.SumOf(here.from_ns, here.to_ns);
    context.nr_rows += sum.nr_rows;
    context.read_ns += static_cast<int64_t>(sum.slots_ns);
    lost_ns += sum.lost_ns;
    slots_ns += sum.slots_ns * history.nr_cpus();
    context.has_waits |= history.has_waits();
    context.has_states |= history.has_states();
    if (context.told != Told::kAt)
      for (Stall& stall : FindStalls(history, selection))
        if (Overlaps(stall, asked.range)) stalls.push_back(std::move(stall));
    if (tells_all && stalls.empty())
      all = StallsIn(history, selection, here.from_ns, here.to_ns, options.nr);
  }
  if (stalls.empty() && context.told != Told::kAt && tells_all) context.told = Told::kWhatWas;
  if (stalls.empty()) stalls = std::move(all);
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.severity_ns > b.severity_ns; });
  context.nr_found = stalls.size();
  stalls.resize(std::min(stalls.size(), options.nr));
  if (slots_ns) context.lost_share = static_cast<double>(lost_ns) / static_cast<double>(slots_ns);
  const Status printed =
      Print(options.reader.json ? StoryJson(stalls, context) : StoryText(stalls, context));
  return printed.ok() ? damage : printed;
}

}  // namespace

int Explain(const ExplainOptions& options) { return ExitCode(RunExplain(options)); }

}  // namespace slotscope
