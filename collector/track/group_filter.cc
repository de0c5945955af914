// SPDX-License-Identifier: MIT
#include "track/group_filter.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace slotscope {
namespace {

constexpr std::string_view kMount = "/sys/fs/cgroup";
constexpr size_t kShortId = 12;  // that docker and crictl show
constexpr size_t kShortUid = 8;  // that explain shows

bool IsIn(std::string_view path, std::string_view group) {
  if (group.starts_with(kMount)) group.remove_prefix(kMount.size());
  while (group.starts_with('/')) group.remove_prefix(1);
  while (group.ends_with('/')) group.remove_suffix(1);
  if (path.starts_with('/')) path.remove_prefix(1);
  return group.empty() ||
         (path.starts_with(group) && (path.size() == group.size() || path[group.size()] == '/'));
}

bool IsOfCgroup(const Cgroup& cgroup, const std::string& wanted) {
  return IsIn(cgroup.path, wanted) ||
         (wanted.size() >= kShortId && cgroup.container_id.starts_with(wanted));
}

bool IsOfPod(const Cgroup& cgroup, const std::string& wanted) {
  if (cgroup.pod_uid.empty()) return false;
  const std::string_view name = cgroup.pod;
  return cgroup.pod_uid == wanted ||
         (wanted.size() >= kShortUid && cgroup.pod_uid.starts_with(wanted)) ||
         (!name.empty() && (name == wanted || name.substr(name.find('/') + 1) == wanted));
}

bool IsOfUnit(const Cgroup& cgroup, const std::string& wanted) {
  if (cgroup.unit.empty()) return false;
  return cgroup.unit == wanted || cgroup.unit == wanted + ".service";
}

template <typename IsOf>
bool AnyOf(const std::vector<std::string>& wanted, const Cgroup& cgroup, const IsOf& is_of) {
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const std::string& one) { return is_of(cgroup, one); });
}

}  // namespace

bool GroupFilter::Matches(const Cgroup& cgroup) const {
  return AnyOf(cgroups, cgroup, IsOfCgroup) || AnyOf(pods, cgroup, IsOfPod) ||
         AnyOf(units, cgroup, IsOfUnit);
}

}  // namespace slotscope
