// SPDX-License-Identifier: MIT
// Who waits for whom in a job: the end of each chain is where to look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace slotscope {

class RankWaits {
 public:
  // Each of those waits for each of these.
  void Add(std::span<const int32_t> waiting, std::span<const int32_t> awaited);

  // Of `from` and all that they wait for, directly or not: those that wait for nobody, and those in
  // circles from which nobody waits for anybody outside. *in_circles: these.
  std::set<int32_t> EndsOf(std::span<const int32_t> from, std::set<int32_t>* in_circles) const;

 private:
  // An operation is a node as well: who waits in it is in front of it, for whom they wait behind it. So
  // there are not as many edges as pairs.
  size_t NodeOf(int32_t rank);

  std::map<int32_t, size_t> nodes_;  // of ranks
  std::vector<std::vector<size_t>> next_;
  std::vector<int32_t> ranks_;  // by node; -1: an operation
};

}  // namespace slotscope
