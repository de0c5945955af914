// SPDX-License-Identifier: MIT
// Finds collectives in which ranks wait for others that do not come (pattern 15).
#pragma once

#include <cstdint>
#include <vector>

#include "detect/nccl_records.h"

namespace slotscope {

// What says how old an operation is.
enum class NcclClock : uint8_t {
  kAsOf,     // a time that was given
  kReceipt,  // when the dump came
  // The newest time in any dump. Since dumps are written when an operation's timeout has passed, what is
  // in flight counts as at least as old as the shortest timeout.
  kDumps,
};

struct NcclHangOptions {
  int64_t threshold_ns = 300'000'000'000;  // or the operation's own timeout, if that is less
  NcclClock clock = NcclClock::kDumps;
  int64_t as_of_ns = 0;  // Unix time; not for kDumps
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
  int64_t sequence;
  std::vector<int32_t> hanging_ranks;  // at least two
  std::vector<int64_t> since_ns;       // of these: when each called it, Unix time
  std::vector<NcclSuspect> suspects;   // by rank; none if all members are at the same point
  std::vector<int32_t> unknown_ranks;  // members of which there is no dump
  int64_t earliest_ns;                 // when the first of them called it, Unix time
  int64_t age_ns;                      // of that
  int64_t limit_ns;                    // which that is past
};

inline constexpr size_t kMinHangingRanks = 2;

// One per group and operation, by sequence and then by time.
std::vector<NcclHang> FindNcclHangs(const NcclRecords& records, const NcclHangOptions& options);

}  // namespace slotscope
