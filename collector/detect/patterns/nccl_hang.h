// SPDX-License-Identifier: MIT
// Collectives, sends and receives in which ranks wait for others that do not come (pattern 15).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detect/inputs/nccl_records.h"
#include "detect/patterns/finding.h"

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

inline constexpr Pattern kNcclHang = {"15",
                                      "nccl_hang",
                                      "operation hangs",
                                      "operations hang",
                                      true,
                                      kNeedsDumps,
                                      "nccl-hang-threshold",
                                      300'000'000'000,
                                      "seconds (or 5m) after which a collective hangs, at least 1 "
                                      "(default 300), or its own timeout if that "
                                      "is less"};

struct NcclHangOptions {
  int64_t threshold_ns = kNcclHang.threshold_ns;  // or the operation's own timeout, if that is less
  NcclClock clock = NcclClock::kDumps;
  int64_t as_of_ns = 0;  // Unix time; for kAsOf
  size_t min_ranks = kMinHangingRanks;
};

// A member that holds the others up.
struct NcclSuspect {
  enum class Why : uint8_t {
    kLacks,    // it has no such operation: it never called it, or never got that far
    kBehind,   // it is still in an operation that others have done
    kDiffers,  // it has called something else there, or with other sizes
    kNoDump,   // there is no dump of it, and others wait for it alone
  };
  int32_t rank;
  Why why;
  int64_t sequence;  // of kBehind: where it is
};

// What members have called at one place in the order of a group's collectives, where all have to call
// the same.
struct NcclCall {
  std::string operation;
  std::string inputs;  // "1024 Float"; "": not said, or they may differ
  std::vector<int32_t> ranks;
  std::vector<int64_t> called_ns;  // of each, Unix time
  std::set<int32_t> completed;     // of them: who has done it
};

// Whom everybody waits for in the end: who waits for nobody, and circles in which each waits for the
// next.
struct NcclCulprits {
  std::set<int32_t> ranks;
  std::set<int32_t> in_circles;  // of them; the others wait for nobody
};

// deploy/schemas/nccl_hang_verdict.schema.json
struct NcclHang final : Finding {
  NcclHang() : Finding(kNcclHang) {}

  uint32_t group_index = 0;  // in the records' groups
  FrGroup group;
  std::string operation;
  bool is_p2p = false;
  // Of a point to point operation: the ranks that it is between, the lower one first, if its name says
  // so. Each rank counts these operations for itself, whoever they are with: only between two ranks do
  // numbers mean the same, and not always.
  std::optional<std::pair<int32_t, int32_t>> ends;
  int64_t sequence = 0;
  std::vector<int32_t> hanging_ranks;  // at least two, or one that waits for its peer or for who differs
  std::vector<int64_t> since_ns;       // of these: when each called it, Unix time
  std::vector<NcclSuspect> suspects;   // by rank; none if all members are at the same point
  std::vector<int32_t> unknown_ranks;  // members of which there is no dump
  std::vector<NcclCall> calls;         // the most usual first; empty: all have called the same
  int64_t earliest_ns = 0;             // when the first of them called it, Unix time
  int64_t age_ns = 0;                  // of that
  int64_t limit_ns = 0;                // which that is past
  NcclClock clock = NcclClock::kDumps;  // which says so
  // Of all hangs that were found with it.
  std::shared_ptr<const NcclCulprits> culprits;
  // Of a job in which several operations hang: each of them. Then the rest is of the one to look at
  // first, but ranks are those of all, and the suspects are the culprits.
  std::vector<NcclHang> parts;

  Moment When() const override { return {earliest_ns, 1}; }
  std::string Key() const override;
  std::string State() const override;
  // "ranks 12, 14 wait in nccl:all_reduce 6870 of GROUP; ...".
  std::string Headline() const override;
  // Where to look first.
  std::string Remediation() const override;
  std::vector<Evidence> Trail() const override;
  void PutFields(nlohmann::ordered_json* verdict) const override;
  // Whether the hanging ranks have gone on. Dumps that are gone do not say so, nor do those of a job
  // that was started again, and is not there yet.
  bool HasResolved(const DetectRecords& records) const override;

 private:
  std::string JobHeadline() const;
};

// One per group and operation, by sequence and then by time.
std::vector<NcclHang> FindNcclHangs(const NcclRecords& records, const NcclHangOptions& options);
// What they come to, as a job has one trouble; nothing if there are none.
std::optional<NcclHang> JoinNcclHangs(std::vector<NcclHang> hangs);

std::vector<int32_t> RanksOf(const std::vector<NcclSuspect>& suspects);
// "rank 2", "ranks 9 and 14", "ranks 0, 1, 2 and 13 more".
std::string RanksText(const std::vector<int32_t>& ranks);

}  // namespace slotscope
