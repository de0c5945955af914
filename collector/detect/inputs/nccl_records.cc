// SPDX-License-Identifier: MIT
#include "detect/inputs/nccl_records.h"

#include <algorithm>

namespace slotscope {

void NcclRecords::Add(int32_t rank, const FrDump& dump, int64_t receipt_ns) {
  ranks_.insert(rank);
  receipt_of_[rank] = receipt_ns;
  newest_ns_ = std::max(newest_ns_, dump.newest_ns);
  std::vector<uint32_t> groups, operations;
  for (const FrGroup& group : dump.groups) {
    const auto [at, is_new] = group_of_.try_emplace({group.name, group.description, group.members},
                                                    static_cast<uint32_t>(groups_.size()));
    if (is_new) groups_.push_back(group);
    groups.push_back(at->second);
  }
  for (const std::string& operation : dump.operations) {
    const auto [at, is_new] =
        operation_of_.try_emplace(operation, static_cast<uint32_t>(operations_.size()));
    if (is_new) operations_.push_back(operation);
    operations.push_back(at->second);
  }
  for (const FrEntry& entry : dump.entries) {
    records_.push_back({rank, groups[entry.group], operations[entry.operation],
                        entry.is_p2p ? entry.p2p_sequence : entry.sequence, entry.created_ns,
                        entry.timeout_ms, entry.state, entry.is_p2p});
    newest_ns_ = std::max(
        {newest_ns_, entry.created_ns, entry.started_ns.value_or(0), entry.completed_ns.value_or(0)});
  }
}

}  // namespace slotscope
