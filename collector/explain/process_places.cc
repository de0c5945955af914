// SPDX-License-Identifier: MIT
#include "explain/process_places.h"

#include <array>
#include <cstddef>

namespace slotscope {
namespace {

constexpr size_t kShortContainer = 12;  // as docker and crictl show it
constexpr size_t kShortUid = 8;

bool IsLogin(std::string_view unit) {
  return unit == "init.scope" || unit.starts_with("session-") || unit.starts_with("user@");
}

}  // namespace

std::string PlaceText(const Cgroup& cgroup) {
  if (!cgroup.pod.empty()) return "pod " + cgroup.pod;
  if (!cgroup.pod_uid.empty()) return "pod " + cgroup.pod_uid.substr(0, kShortUid);
  if (!cgroup.container_id.empty()) return "container " + cgroup.container_id.substr(0, kShortContainer);
  return IsLogin(cgroup.unit) ? "" : cgroup.unit;
}

void ProcessPlaces::OnLine(std::string_view line) {
  if (rows_.Take(line) != TableRows::Line::kRow) return;
  const ProcessKey key = {rows_.Number<int32_t>("tgid"), rows_.Number<uint64_t>("start_time_ns")};
  const std::array fields = {rows_["cgroup"], rows_["container_id"], rows_["pod_uid"], rows_["pod"],
                             rows_["unit"]};
  if (const std::string_view name = rows_["comm"]; !names_.contains(name)) names_.emplace(name);
  std::string text;
  for (const std::string_view field : fields) {
    text += field;
    text += ',';
  }
  std::shared_ptr<const Cgroup>& cgroup = by_text_[text];
  if (!cgroup) {
    Cgroup made;
    made.path = fields[0];
    made.container_id = fields[1];
    made.pod_uid = fields[2];
    made.pod = fields[3];
    made.unit = fields[4];
    cgroup = std::make_shared<const Cgroup>(std::move(made));
  }
  places_[key] = cgroup;
}

std::shared_ptr<const Cgroup> ProcessPlaces::Find(const ProcessKey& process) const {
  const auto found = places_.find(process);
  return found == places_.end() ? nullptr : found->second;
}

}  // namespace slotscope
