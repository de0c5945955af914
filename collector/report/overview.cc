// SPDX-License-Identifier: MIT
#include "report/overview.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/table_rows.h"
#include "base/when.h"
#include "recording/segment_name.h"
#include "report/tracks.h"

namespace slotscope {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr size_t kMostMarks = 1000;

void ReadEvents(const RecordingTables& tables, std::vector<Mark>* marks) {
  TableRows rows("slot_start_ns");
  (void)tables.ReadTableLines(kEventsTable, {}, [&](std::string_view line) {
    if (rows.Take(line) != TableRows::Line::kRow || marks->size() >= kMostMarks) return;
    marks->push_back({rows.Number<int64_t>("slot_start_unix_ns"), std::string(rows["event"]),
                      std::string(rows["what"])});
  });
}

// Lines of JSON, see deploy/schemas: what was found, and from when on.
void ReadVerdicts(const RecordingTables& tables, std::vector<Mark>* marks) {
  (void)tables.ReadTableLines(kVerdictsTable, {}, [&](std::string_view line) {
    const auto verdict = nlohmann::json::parse(line, nullptr, false);
    if (!verdict.is_object() || marks->size() >= kMostMarks) return;
    const auto text = [&](const char* key) {
      const auto found = verdict.find(key);
      return found != verdict.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    // When it began; of some that says only the first piece of evidence.
    std::string when = text("earliest_created_at");
    if (const auto trail = verdict.find("evidence_trail"); when.empty() && trail != verdict.end() &&
                                                           trail->is_array() && !trail->empty() &&
                                                           trail->front().is_object())
      when = trail->front().value("timestamp", nlohmann::json()).dump();
    if (when.size() > 1 && when.front() == '"') when = when.substr(1, when.size() - 2);
    int64_t at_ns = 0;
    if (ParseWhen(when, {}, &at_ns).ok()) marks->push_back({at_ns, "verdict", text("headline")});
  });
}

void Add(const SlotRow& row, double share, OverviewSecond* second) {
  if (row.kind == "idle" || row.kind == "offline") return;
  (row.kind == "lost" ? second->lost_ns : second->cpu_ns) += share * static_cast<double>(row.cpu_ns);
  for (const uint64_t ns : row.wait_ns) second->wait_ns += share * static_cast<double>(ns);
}

// Where there are no seconds.
Status ReadMinutes(const RecordingTables& tables, std::map<int64_t, OverviewSecond>* seconds) {
  std::map<int64_t, OverviewSecond> gone;
  const Status status = tables.ReadSlotRows(kMinutesTable, {}, [&](const SlotRow& row) {
    const int64_t first = row.start_ns / kSecondNs;
    const int64_t nr = std::clamp<int64_t>((row.slot_ns + kSecondNs - 1) / kSecondNs, 1, 60);
    for (int64_t second = first; second < first + nr; second++)
      if (!seconds->contains(second)) Add(row, 1.0 / static_cast<double>(nr), &gone[second]);
  });
  seconds->merge(gone);
  return status;
}

}  // namespace

Status ReadOverview(const RecordingTables& tables, Overview* overview) {
  *overview = {};
  const std::string_view table = tables.Has(kSecondsTable) ? kSecondsTable : kSlotsTable;
  Status status = tables.ReadSlotRows(
      table, {}, [&](const SlotRow& row) { Add(row, 1, &overview->seconds[row.start_ns / kSecondNs]); });
  if (tables.Has(kMinutesTable))
    if (Status minutes = ReadMinutes(tables, &overview->seconds); status.ok()) status = minutes;
  if (tables.Has(kEventsTable)) ReadEvents(tables, &overview->marks);
  if (tables.Has(kVerdictsTable)) ReadVerdicts(tables, &overview->marks);
  std::stable_sort(overview->marks.begin(), overview->marks.end(),
                   [](const Mark& a, const Mark& b) { return a.at_ns < b.at_ns; });
  return status;
}

}  // namespace slotscope
