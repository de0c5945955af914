// SPDX-License-Identifier: MIT
#include "detect/inputs/nccl_records.h"

#include <algorithm>

namespace slotscope {

void NcclRecords::Add(int32_t rank, const FrDump& dump, int64_t receipt_ns) {
  // Of one whose every entry is malformed nothing is known.
  if (!dump.entries.empty() || dump.nr_malformed == 0) ranks_.insert(rank);
  receipt_of_[rank] = receipt_ns;
  newest_ns_ = std::max(newest_ns_, dump.newest_ns);
  nr_malformed_ += dump.nr_malformed;
  std::vector<uint32_t> groups, operations, tensors;
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
  for (const FrTensors& one : dump.tensors) {
    const auto [at, is_new] = tensors_of_.try_emplace({one.text, one.elements, one.type},
                                                      static_cast<uint32_t>(tensors_.size()));
    if (is_new) tensors_.push_back(one);
    tensors.push_back(at->second);
  }
  for (const FrEntry& entry : dump.entries) {
    records_.push_back({rank, groups[entry.group], operations[entry.operation], tensors[entry.inputs],
                        entry.is_p2p ? entry.p2p_sequence : entry.sequence, entry.created_ns,
                        entry.timeout_ms, entry.state, entry.is_p2p});
    newest_ns_ = std::max(
        {newest_ns_, entry.created_ns, entry.started_ns.value_or(0), entry.completed_ns.value_or(0)});
  }
}

}  // namespace slotscope
