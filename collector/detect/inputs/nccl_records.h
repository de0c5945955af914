// SPDX-License-Identifier: MIT
// What all ranks of a job say of their collectives, joined.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "detect/inputs/fr_dump.h"

namespace slotscope {

struct NcclRecord {
  int32_t rank = 0;
  uint32_t group = 0;      // index into groups
  uint32_t operation = 0;  // index into operations
  uint32_t inputs = 0;     // index into tensors; 0: not said
  int64_t sequence = 0;    // of the group's collectives, or of its point to point operations
  int64_t created_ns = 0;  // Unix time
  std::optional<int64_t> timeout_ms;
  FrState state = FrState::kScheduled;
  bool is_p2p = false;
};

// Ranks number their groups each in their own way: a group is its name, description and members.
class NcclRecords {
 public:
  // `receipt_ns`: when the dump came (Unix time), if that is known.
  void Add(int32_t rank, const FrDump& dump, int64_t receipt_ns = 0);

  const std::vector<FrGroup>& groups() const { return groups_; }
  const std::vector<std::string>& operations() const { return operations_; }
  const std::vector<FrTensors>& tensors() const { return tensors_; }
  // In the order in which they were added; what a rank says later of the same operation counts.
  const std::vector<NcclRecord>& records() const { return records_; }
  // Those of which there is a dump, perhaps an empty one.
  const std::set<int32_t>& ranks() const { return ranks_; }
  // When its dump came; 0: not known.
  int64_t receipt_ns(int32_t rank) const {
    const auto at = receipt_of_.find(rank);
    return at == receipt_of_.end() ? 0 : at->second;
  }
  // In any dump; 0: there is none.
  int64_t newest_ns() const { return newest_ns_; }
  // Entries of dumps that lack what all have.
  uint64_t nr_malformed() const { return nr_malformed_; }

 private:
  using GroupKey = std::tuple<std::string, std::string, std::vector<int32_t>>;

  std::vector<FrGroup> groups_;
  std::vector<std::string> operations_;
  std::vector<FrTensors> tensors_ = {{}};
  std::vector<NcclRecord> records_;
  std::set<int32_t> ranks_;
  std::map<GroupKey, uint32_t> group_of_;
  std::map<std::string, uint32_t> operation_of_;
  std::map<std::tuple<std::string, uint64_t, std::string>, uint32_t> tensors_of_ = {{{}, 0}};
  std::map<int32_t, int64_t> receipt_of_;
  int64_t newest_ns_ = 0;
  uint64_t nr_malformed_ = 0;
};

}  // namespace slotscope
