// SPDX-License-Identifier: MIT
// What slots say of the processes that are ranks of a job, for as long as it may be asked for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detect/host/rank_note.h"
#include "slots/column.h"

namespace slotscope {

// What is kept of rows, in the order in which it is shown.
inline constexpr ColumnList<12> kHostColumns = {
    &ColumnOf("cpu_ns"),          &ColumnOf("wait_ns"),       &ColumnOf("preemptions"),
    &ColumnOf("mbm_total_bytes"), &ColumnOf("gpu_active_ns"), &ColumnOf("gpu_no_work_ns"),
    &ColumnOf("wait_others_ns"),  &ColumnOf("wait_self_ns"),  &ColumnOf("wait_throttled_ns"),
    &ColumnOf("wait_wakeup_ns"),  &ColumnOf("wait_steal_ns"), &ColumnOf("wait_unknown_ns")};
// Of these, those that somebody asks for by name.
enum HostValue : size_t {
  kHostCpuNs,
  kHostWaitNs,
  kHostMbmTotal = 3,
  kHostGpuActiveNs,
  kHostGpuNoWork,   // from here on older recordings lack them
  kHostWaitOthers,  // the causes of waiting, to the end
};
inline constexpr size_t kFirstLater = kHostGpuNoWork, kFirstCause = kHostWaitOthers;
static_assert(kHostColumns[kHostCpuNs]->name == "cpu_ns" &&
              kHostColumns[kHostWaitNs]->name == "wait_ns" &&
              kHostColumns[kHostMbmTotal]->name == "mbm_total_bytes" &&
              kHostColumns[kHostGpuActiveNs]->name == "gpu_active_ns" &&
              kHostColumns[kHostGpuNoWork]->name == "gpu_no_work_ns" &&
              kHostColumns[kHostWaitOthers]->name == "wait_others_ns");

// A process in a slot, or in some of them.
struct HostSample : ColumnValues<kHostColumns.size()> {
  int64_t start_ns = 0;  // Unix time

  void Add(const HostSample& other);
};

// Who ran while it waited for that CPU.
struct HostRanInstead {
  int64_t start_ns = 0;  // Unix time of the slot
  int32_t tgid = 0;
  std::string comm;  // "": not known
  uint64_t ns = 0;
};

struct RankProcess {
  int32_t rank = 0;
  int32_t tgid = 0;
  uint64_t start_time_ns = 0;  // as rows have it; 0: none has been seen
  int64_t since_ns = 0;        // Unix time: when that was said
  std::string comm;
  std::deque<HostSample> samples;
  std::deque<HostRanInstead> ran_instead;
  int64_t last_ns = 0;  // Unix time of the latest sample, kept or not; 0: there was none
};

// The span (Unix time) that is looked at for a moment.
inline std::pair<int64_t, int64_t> EvidenceSpan(int64_t at_ns, int64_t bucket_ns) {
  constexpr int64_t kBucketsBefore = 200, kBucketsAfter = 800;
  return {at_ns - kBucketsBefore * bucket_ns, at_ns + kBucketsAfter * bucket_ns};
}

using IsAliveFn = std::function<bool(int32_t tgid, uint64_t start_time_ns)>;

class HostHistory {
 public:
  // Samples of less than bucket_ns are added up. What is older than keep_ns is forgotten; 0: nothing is.
  HostHistory(int64_t bucket_ns, int64_t keep_ns) : bucket_ns_(bucket_ns), keep_ns_(keep_ns) {}

  // From the first call on only samples around these moments (Unix time) are kept.
  void Want(int64_t at_ns) { wanted_.push_back(at_ns); }
  // [from, to): samples outside are not kept.
  std::pair<int64_t, int64_t> WantedSpan() const;
  // Rows are of slots that are so long; before the first one.
  void SetSlot(int64_t slot_ns) { bucket_ns_ = std::max(bucket_ns_, slot_ns); }
  // In that slot some processes have no row of their own, though they ran.
  void OnFolded(int64_t start_ns) {
    if (IsWanted(start_ns)) folded_.push_back(start_ns);
  }

  // Where there are too many, the one that has been quiet for the longest goes.
  void SetRank(const RankNote& note, int64_t since_ns);
  // Ranks of which nothing has been kept for so long, and whose process has ended: a later job may have
  // the same ranks elsewhere. Of the others nobody is asked whether they are alive.
  void ForgetEnded(const IsAliveFn& is_alive);
  bool IsRank(int32_t tgid) const;
  // Slots come in order. Of a process that is no rank nothing is kept.
  void OnSlot(int64_t start_ns, int64_t slot_ns);
  void Add(int32_t tgid, uint64_t start_time_ns, std::string_view comm, const HostSample& sample);
  void AddRanInstead(int32_t waiter_tgid, HostRanInstead ran);

  // CPU time in that slot of which nobody knows whose it was.
  void OnLost(int64_t start_ns, uint64_t ns);

  // The process that was that rank then; null: none that is known.
  const RankProcess* Find(int32_t rank, int64_t at_ns) const;
  // Whether there were slots then.
  bool Covers(int64_t at_ns) const {
    return first_ns_ <= at_ns && at_ns < end_ns_ && (!keep_ns_ || at_ns >= end_ns_ - keep_ns_) &&
           std::none_of(gaps_.begin(), gaps_.end(),
                        [&](const auto& gap) { return gap.first <= at_ns && at_ns < gap.second; });
  }
  int64_t bucket_ns() const { return bucket_ns_; }
  // In slots that start from then to then.
  uint64_t LostNs(int64_t from_ns, int64_t to_ns) const;
  const std::vector<int64_t>& folded() const { return folded_; }  // starts of slots
  int64_t end_ns() const { return end_ns_; }
  bool has_ranks() const { return !processes_.empty(); }

 private:
  // There are as many as GPUs in a machine, and some that were before them.
  static constexpr size_t kMaxProcesses = 1024;

  bool IsWanted(int64_t at_ns) const;
  RankProcess* Current(int32_t tgid);

  int64_t bucket_ns_;
  const int64_t keep_ns_;
  std::vector<int64_t> wanted_;
  std::vector<int64_t> folded_;
  std::deque<std::pair<int64_t, uint64_t>> lost_;  // by start
  std::deque<RankProcess> processes_;              // as they were said
  // Between slots: a recorder was away, or a part of its recording is. The latest ones.
  static constexpr size_t kMaxGaps = 10'000;
  std::deque<std::pair<int64_t, int64_t>> gaps_;
  int64_t first_ns_ = std::numeric_limits<int64_t>::max();
  int64_t end_ns_ = 0;
};

}  // namespace slotscope
