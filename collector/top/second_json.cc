// SPDX-License-Identifier: MIT
#include "top/second_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slots/wait_row.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

Json RowJson(const TopRow& row) {
  Json object = {{"name", row.who.name}, {"processes", row.members.size()}};
  if (row.members.size() == 1) {
    object["pid"] = row.who.tgid;
    object["start_time_ns"] = row.members.front().start_time_ns;
  }
  if (!row.state.name.empty()) object["state"] = row.state.name;
  if (row.state.since_ns > 0) object["state_since_unix_ns"] = row.state.since_ns;
  object["cpu_ns"] = row.did.cpu_ns;
  if (row.did.has_waits) {
    object["wait_ns"] = row.did.wait_ns;
    for (size_t i = 0; i < kNrWaitCauses; i++)
      if (row.did.IsMeasured(static_cast<Hindrance>(i)))
        object["wait_causes_ns"][kWaitCauseNames[i]] = row.wait_ns[i];
    if (row.has_worst()) object["worst_slot_wait_ns"] = row.worst_wait_ns;
    if (row.worst_start_ns > 0) object["worst_slot_start_unix_ns"] = row.worst_start_ns;
  }
  if (row.did.has_gpu) object["gpu_active_ns"] = row.did.gpu_active_ns;
  if (row.did.has_traffic) object["mbm_total_bytes"] = row.did.traffic_bytes;
  object["ran_instead"] = Json::array();
  for (const auto& [who, ns] : row.ran_instead)
    object["ran_instead"].push_back({{"who", who}, {"ns", ns}});
  return object;
}

}  // namespace

std::string SecondJson(const TopView& view, size_t nr_rows, const TopControl& control) {
  const TopSecond& second = view.second;
  Json object = {{"host", view.host},
                 {"recording", view.source},
                 {"from_unix_ns", second.from_ns},
                 {"to_unix_ns", second.to_ns},
                 {"recorded_ns", second.recorded_ns},
                 {"cpus", second.nr_cpus},
                 {"cpu_ns", second.cpu_ns},
                 {"lost_ns", second.lost_ns}};
  if (second.has_waits) object["wait_ns"] = second.wait_ns;
  if (second.worst_start_ns > 0)
    object["worst_slot"] = {{"start_unix_ns", second.worst_start_ns},
                            {"wait_ns", second.worst_wait_ns},
                            {"most_by", second.worst_who}};
  const auto rows = SortedRows(second, control);
  object["rows_in_all"] = rows.size();
  object["rows"] = Json::array();
  for (size_t i = 0; i < std::min(nr_rows, rows.size()); i++)
    object["rows"].push_back(RowJson(*rows[i]));
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace slotscope
