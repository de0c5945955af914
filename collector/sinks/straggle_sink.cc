// SPDX-License-Identifier: MIT
#include "sinks/straggle_sink.h"

#include <fmt/core.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/json_line.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStates[] = {"initial", "sustained", "resolved"};  // StraggleReport::State

// What was not measured is null.
template <size_t N>
void Add(const ColumnList<N>& columns, const ColumnValues<N>& sums, Json* to) {
  for (size_t i = 0; i < N; i++)
    (*to)[std::string(columns[i]->name)] = sums.unmeasured >> i & 1 ? Json() : Json(sums.values[i]);
}

Json NameOf(bool named, const Comm& comm) { return named ? Json(CommText(comm)) : Json(); }

double Tenths(double value) { return std::round(value * 10) / 10; }

Json RanInsteadOf(const StraggleReport& report) {
  // Where nobody knows who ran for most of the time, it is not nobody.
  const auto& causes = report.wait_causes.values;
  const uint64_t all_ns = std::accumulate(std::begin(causes), std::end(causes), uint64_t{0});
  if (!report.has_waits || (report.ran_instead.empty() && causes[kWaitUnknown] > all_ns / 2)) return {};
  Json list = Json::array();
  for (const auto& [key, ran] : report.ran_instead) {
    Json one = {{"tgid", key.tgid},
                {"start_time_ns", key.start_time_ns},
                {"comm", NameOf(ran.named, ran.comm)},
                {"ran_instead_ns", ran.ns}};
    Add(kEffortColumns, ran.effort, &one);
    list.push_back(std::move(one));
  }
  return list;
}

Json ObjectOf(const Slot& slot, const StraggleReport& report) {
  const auto unix_ns = static_cast<int64_t>(report.until_ns) + slot.unix_offset_ns;
  Json object = {{"state", kStates[static_cast<size_t>(report.state)]},
                 {"tgid", report.process.tgid},
                 {"start_time_ns", report.process.start_time_ns},
                 {"comm", NameOf(report.named, report.comm)},
                 {"episode_ns", report.episode_ns},
                 {"since_ns", report.since_ns},
                 {"until_ns", report.until_ns},
                 {"until_unix_ns", unix_ns},
                 {"throughput_drop_pct", Tenths(report.drop_ppm / 1e4)},
                 {"launches_per_s", Tenths(report.launches_per_s)},
                 {"baseline_launches_per_s", Tenths(report.baseline_per_s)},
                 {"switches", report.nr_switches}};
  Add(kEffortColumns, report.effort, &object);
  Add(kNoWorkColumns, report.no_work, &object);
  object["ran_instead"] = RanInsteadOf(report);
  if (report.left_out_ns) object["left_out_ns"] = report.left_out_ns;
  return object;
}

}  // namespace

void StraggleSink::WriteHeader(const HeaderLines& lines) {
  Json header = {{"state", "header"}};
  Json notes = Json::array();
  for (const auto& [key, value] : lines)
    if (key == "note")
      notes.push_back(value);
    else
      header[key] = value;
  header["notes"] = std::move(notes);
  text_ += JsonLine(header);
  Flush();
}

void StraggleSink::Append(const Slot& slot) {
  for (const StraggleReport& report : slot.straggles) text_ += JsonLine(ObjectOf(slot, report));
  nr_lines_ += slot.straggles.size();
}

std::string StraggleSink::Contents() const { return fmt::format("{} reports", nr_lines_); }

}  // namespace slotscope
