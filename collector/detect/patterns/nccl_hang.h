// SPDX-License-Identifier: MIT
// Finds collectives in which ranks wait for others that do not come (pattern 15).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "detect/inputs/nccl_records.h"

namespace slotscope {

inline constexpr size_t kMinHangingRanks = 2;

// What says how old an operation is.
enum class NcclClock : uint8_t {
  kAsOf,     // a time that was given
  kReceipt,  // when each rank's dump came
  // The newest time in any dump. Since dumps are written when an operation's timeout has passed, what is
  // in flight counts as at least as old as the shortest timeout.
  kDumps,
};

struct NcclHangOptions {
  int64_t threshold_ns = 300'000'000'000;  // or the operation's own timeout, if that is less
  NcclClock clock = NcclClock::kDumps;
  int64_t as_of_ns = 0;  // Unix time; for kAsOf
  size_t min_ranks = kMinHangingRanks;
};

// A member that holds the others up.
struct NcclSuspect {
  enum class Why : uint8_t {
    kLacks,   // it has no such operation: it never called it, or never got that far
    kBehind,  // it is still in an operation that others have done
  };
  int32_t rank;
  Why why;
  int64_t sequence;  // of kBehind: where it is
};

struct NcclHang {
  uint32_t group;      // index into the records' groups
  uint32_t operation;  // index into the records' operations
  bool is_p2p;
  // Of a point to point operation: the ranks that it is between, the lower one first, if its name says
  // so. Each rank counts these operations for itself, whoever they are with: only between two ranks do
  // numbers mean the same, and not always.
  std::optional<std::pair<int32_t, int32_t>> ends;
  int64_t sequence;
  std::vector<int32_t> hanging_ranks;  // at least two
  std::vector<int64_t> since_ns;       // of these: when each called it, Unix time
  std::vector<NcclSuspect> suspects;   // by rank; none if all members are at the same point
  std::vector<int32_t> unknown_ranks;  // members of which there is no dump
  int64_t earliest_ns;                 // when the first of them called it, Unix time
  int64_t age_ns;                      // of that
  int64_t limit_ns;                    // which that is past
};

// All that hold up any of them.
std::set<int32_t> SuspectsOf(const std::vector<NcclHang>& hangs);

// One per group and operation, by sequence and then by time.
std::vector<NcclHang> FindNcclHangs(const NcclRecords& records, const NcclHangOptions& options);

}  // namespace slotscope
