// SPDX-License-Identifier: MIT
#include "metrics/pod_waits.h"

#include <algorithm>

namespace slotscope {
namespace {

constexpr const char* kOther = "other";

}  // namespace

void PodWaits::Leave(const ProcessKey& process) {
  const auto known = pod_of_.find(process);
  if (known == pod_of_.end()) return;
  pods_[known->second].nr_processes--;
  pod_of_.erase(known);
}

void PodWaits::Enter(const ProcessKey& process, const std::string& pod) {
  std::string name = pod;
  if (!pods_.contains(name) && pods_.size() >= kMost) {
    const auto ended = std::find_if(pods_.begin(), pods_.end(), [](const auto& one) {
      return one.second.nr_processes == 0 && one.first != kOther;
    });
    if (ended != pods_.end())
      pods_.erase(ended);
    else
      name = kOther;
  }
  pods_[name].nr_processes++;
  pod_of_[process] = name;
}

void PodWaits::OnSlot(const Slot& slot) {
  for (const ProcessIdentity& one : slot.identities) {
    Leave(one.key);
    if (one.cgroup && !one.cgroup->pod_uid.empty())
      Enter(one.key, one.cgroup->pod.empty() ? one.cgroup->pod_uid : one.cgroup->pod);
  }
  if (pod_of_.empty()) return;
  for (const Row& row : slot.rows) {
    if (row.wait == 0 || !IsProcess(row.kind)) continue;
    const auto pod = pod_of_.find(row.key);
    if (pod == pod_of_.end()) continue;
    AddCauses(slot.waits[row.wait - 1], &pods_[pod->second].wait_ns);
  }
  for (const WaitDetail& one : slot.wait_details) {
    if (!one.is_earlier()) continue;
    const auto pod = pod_of_.find(one.waiter);
    if (pod != pod_of_.end()) AddEarlierCause(one, &pods_[pod->second].wait_ns);
  }
}

}  // namespace slotscope
