// SPDX-License-Identifier: MIT
#include "cli/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/escape.h"
#include "base/part_file.h"
#include "base/say.h"
#include "base/size_text.h"
#include "cli/exit_code.h"
#include "explain/moments.h"
#include "report/cast.h"
#include "report/overview.h"
#include "report/page.h"
#include "report/page_data.h"
#include "report/tracks.h"
#include "report/wait_table.h"

namespace slotscope {
namespace {

constexpr int64_t kUsualRange = 120'000'000'000;
constexpr size_t kMoments = 20;

// Two minutes around the worst moment, or the last ones if there is none.
UnixRange WorstRange(const Moments& moments, const RecordingFacts& facts) {
  const int64_t around_ns =
      moments.stalls.empty() ? facts.last_ns : (moments.stalls[0].from_ns + moments.stalls[0].to_ns) / 2;
  UnixRange range;
  range.to_ns = std::min(facts.last_ns, around_ns + kUsualRange / 2);
  range.from_ns = std::max(facts.first_ns, range.to_ns - kUsualRange);
  range.to_ns = std::min(facts.last_ns, range.from_ns + kUsualRange);
  return range;
}

// It begins at a whole millisecond of Unix time before that.
void Align(UnixRange* range) { range->from_ns = range->from_ns / kMsNs * kMsNs; }

Status WritePage(const ReportOptions& options, const std::string& page) {
  PartFile file;
  if (Status status = file.Open(options.output); !status.ok()) return status;
  if (Status status = file.Write(page); !status.ok()) return status;
  return file.Commit();
}

Status RunReport(const ReportOptions& options) {
  RecordingTables tables;
  if (Status status = OpenRecording(options.reader, std::string(kSlotsTable), &tables); !status.ok())
    return status;
  ReaderRange asked;
  if (Status status = FindRange(options.reader, tables.facts(), &asked); !status.ok()) return status;
  const RecordingFacts& facts = tables.facts();
  UnixRange range = {std::max(asked.range.from_ns, facts.first_ns),
                     std::min(asked.range.to_ns, facts.last_ns)};
  if (asked.is_part && range.to_ns - range.from_ns > Tracks::kMostMs * kMsNs)
    return Usage(fmt::format("--since and --until are {:.1f} h from each other: a page has room for one",
                             static_cast<double>(range.to_ns - range.from_ns) / 3.6e12));
  Selection selection = options.reader.selection;
  ProcessPlaces places;
  Status damage;
  if (Status status = FindPlaces(tables, asked.range, &selection, &places, &damage); !status.ok())
    return status;
  Moments moments;
  if (Status status = FindMoments(tables, {asked.range, asked.has_at, asked.is_part, kMoments},
                                  selection, places, asked.zone, &moments);
      damage.ok())
    damage = status;
  Overview overview;
  if (Status status = ReadOverview(tables, &overview); damage.ok()) damage = status;
  if (!asked.is_part) range = WorstRange(moments, facts);
  Align(&range);
  Tracks tracks(range);
  if (Status status =
          tables.ReadSlotRows(kSlotsTable, range, [&](const SlotRow& row) { tracks.OnRow(row); });
      damage.ok())
    damage = status;
  const Cast cast(moments, tracks, places, selection.group_by);
  const Stretches near = NearMarks(moments, overview, range, tracks.nr_ms());
  WaitTable waits(range, near, [&](const ProcessKey& process) { return cast.Find(process); });
  if (Status status = ReadWaitTable(tables, range, &waits); damage.ok()) damage = status;
  moments.context.is_damaged = !damage.ok();
  const std::string data =
      PageData({moments, overview, facts, range, tracks, cast, near, waits, places, selection.group_by});
  const std::string page =
      MakePage(fmt::format("{} {}", facts.host, asked.zone.Text(range.from_ns)), data);
  if (Status status = WritePage(options, page); !status.ok()) return status;
  Say(stdout, "wrote {} ({}): {:.3g} s of {}\n", EscapeName(options.output),
      SizeText(static_cast<double>(page.size())), static_cast<double>(range.to_ns - range.from_ns) / 1e9,
      EscapeName(tables.path()));
  return damage;
}

}  // namespace

int Report(const ReportOptions& options) { return ExitCode(RunReport(options)); }

}  // namespace slotscope
