// SPDX-License-Identifier: MIT
#include "detect/patterns/nccl_hang.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "detect/inputs/scan.h"

namespace slotscope {
namespace {

using Ends = std::optional<std::pair<int32_t, int32_t>>;

// Where a rank is in operations that are counted together.
struct Position {
  std::optional<int64_t> oldest_in_flight;
  int64_t newest = 0;  // of any state
  // The first one that it has not done.
  int64_t next() const { return oldest_in_flight.value_or(newest + 1); }
};

// "nccl:send 0->3" and "nccl:recv 3<-0" count members of the group. Nothing if it is no such operation.
Ends EndsOf(std::string_view operation, const FrGroup& group) {
  const size_t colon = operation.find(':');
  if (colon != operation.npos) operation.remove_prefix(colon + 1);
  if (!operation.starts_with("send ") && !operation.starts_with("recv ")) return {};
  operation.remove_prefix(5);
  size_t one, other;
  if (!TakeNumber(&operation, &one) || !(operation.starts_with("->") || operation.starts_with("<-")))
    return {};
  operation.remove_prefix(2);
  if (!TakeNumber(&operation, &other) || one >= group.members.size() || other >= group.members.size())
    return {};
  return std::minmax(group.members[one], group.members[other]);
}

class Finder {
 public:
  Finder(const NcclRecords& records, const NcclHangOptions& options)
      : records_(records), options_(options) {}

  std::vector<NcclHang> Run() {
    // The latest record of each rank's operation, together with those of the other ranks.
    const auto& all = records_.records();
    const auto key = [&](uint32_t i) {
      return std::tuple(all[i].group, all[i].is_p2p, EndsOf(all[i]), all[i].sequence, all[i].rank);
    };
    std::vector<uint32_t> order(all.size());
    for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    std::vector<NcclRecord> latest;
    for (size_t i = 0; i < order.size(); i++)
      if (i + 1 == order.size() || key(order[i]) != key(order[i + 1])) latest.push_back(all[order[i]]);
    for (const NcclRecord& record : latest)
      if (record.state != FrState::kCompleted && record.timeout_ms)
        passed_timeout_ns_ =
            std::min(passed_timeout_ns_.value_or(INT64_MAX), *record.timeout_ms * 1'000'000);
    for (auto begin = latest.begin(); begin != latest.end();) {
      const auto end = std::find_if(begin, latest.end(), [&](const NcclRecord& one) {
        return one.group != begin->group || one.is_p2p != begin->is_p2p || EndsOf(one) != EndsOf(*begin);
      });
      OnGroup({begin, end});
      begin = end;
    }
    std::stable_sort(hangs_.begin(), hangs_.end(), [](const NcclHang& a, const NcclHang& b) {
      return std::tie(a.sequence, a.earliest_ns) < std::tie(b.sequence, b.earliest_ns);
    });
    return std::move(hangs_);
  }

 private:
  // Looked up once: there are few names, and many records.
  Ends EndsOf(const NcclRecord& record) {
    if (!record.is_p2p) return {};
    const auto [at, is_new] = ends_.try_emplace({record.group, record.operation});
    if (is_new)
      at->second =
          slotscope::EndsOf(records_.operations()[record.operation], records_.groups()[record.group]);
    return at->second;
  }

  // All operations that are counted together, by sequence.
  void OnGroup(std::span<const NcclRecord> records) {
    std::map<int32_t, Position> positions;
    for (const NcclRecord& record : records) {
      Position& position = positions[record.rank];
      position.newest = record.sequence;
      if (record.state != FrState::kCompleted && !position.oldest_in_flight)
        position.oldest_in_flight = record.sequence;
    }
    while (!records.empty()) {
      size_t nr = 0;
      while (nr < records.size() && records[nr].sequence == records[0].sequence) nr++;
      OnOperation(records.first(nr), positions);
      records = records.subspan(nr);
    }
  }

  int64_t AgeOf(const NcclRecord& record) const {
    if (options_.clock == NcclClock::kAsOf) return options_.as_of_ns - record.created_ns;
    if (options_.clock == NcclClock::kReceipt)
      return records_.receipt_ns(record.rank) - record.created_ns;
    return std::max(records_.newest_ns() - record.created_ns,
                    record.timeout_ms ? passed_timeout_ns_.value_or(0) : 0);
  }
  int64_t LimitOf(const NcclRecord& record) const {
    if (!record.timeout_ms || *record.timeout_ms >= options_.threshold_ns / 1'000'000)
      return options_.threshold_ns;
    return *record.timeout_ms * 1'000'000;
  }

  void OnOperation(std::span<const NcclRecord> records, const std::map<int32_t, Position>& positions) {
    NcclHang hang = {};
    const NcclRecord* earliest = nullptr;
    for (const NcclRecord& record : records) {
      if (record.state == FrState::kCompleted || AgeOf(record) < LimitOf(record)) continue;
      hang.hanging_ranks.push_back(record.rank);
      hang.since_ns.push_back(record.created_ns);
      if (!earliest || record.created_ns < earliest->created_ns) earliest = &record;
    }
    if (hang.hanging_ranks.size() < options_.min_ranks || !earliest) return;
    hang.group = earliest->group;
    hang.operation = earliest->operation;
    hang.is_p2p = earliest->is_p2p;
    hang.ends = EndsOf(*earliest);
    hang.sequence = earliest->sequence;
    hang.earliest_ns = earliest->created_ns;
    hang.age_ns = AgeOf(*earliest);
    hang.limit_ns = LimitOf(*earliest);
    FindSuspects(positions, ParticipantsOf(records, positions), &hang);
    hangs_.push_back(std::move(hang));
  }

  // Who has to be there for it to go on.
  std::set<int32_t> ParticipantsOf(std::span<const NcclRecord> records,
                                   const std::map<int32_t, Position>& positions) {
    std::set<int32_t> participants;
    for (const NcclRecord& record : records) participants.insert(record.rank);
    if (const Ends ends = EndsOf(records[0])) participants.insert({ends->first, ends->second});
    const FrGroup& group = records_.groups()[records[0].group];
    if (records[0].is_p2p) return participants;
    participants.insert(group.members.begin(), group.members.end());
    if (group.members.empty())  // nobody says who they are: all that have been in the group
      for (const auto& [rank, position] : positions) participants.insert(rank);
    return participants;
  }

  // A rank may be missing here because it has been here and has gone on; so what counts is how far each
  // one has got.
  void FindSuspects(const std::map<int32_t, Position>& positions, const std::set<int32_t>& participants,
                    NcclHang* hang) const {
    int64_t front = std::numeric_limits<int64_t>::min();
    for (int32_t rank : participants)
      if (auto at = positions.find(rank); at != positions.end())
        front = std::max(front, at->second.next());
    for (int32_t rank : participants) {
      const auto at = positions.find(rank);
      if (!records_.ranks().contains(rank))
        hang->unknown_ranks.push_back(rank);
      else if (at == positions.end() ||
               (!at->second.oldest_in_flight && at->second.newest < hang->sequence))
        hang->suspects.push_back({rank, NcclSuspect::Why::kLacks, 0});
      else if (at->second.next() < front)
        hang->suspects.push_back({rank, NcclSuspect::Why::kBehind, at->second.next()});
    }
  }

  const NcclRecords& records_;
  const NcclHangOptions& options_;
  // The shortest one of what is in flight: when it has passed, dumps are written.
  std::optional<int64_t> passed_timeout_ns_;
  std::map<std::pair<uint32_t, uint32_t>, Ends> ends_;  // by group and operation
  std::vector<NcclHang> hangs_;
};

}  // namespace

std::set<int32_t> SuspectsOf(const std::vector<NcclHang>& hangs) {
  std::set<int32_t> ranks;
  for (const NcclHang& hang : hangs)
    for (const NcclSuspect& suspect : hang.suspects) ranks.insert(suspect.rank);
  return ranks;
}

std::vector<NcclHang> FindNcclHangs(const NcclRecords& records, const NcclHangOptions& options) {
  return Finder(records, options).Run();
}

}  // namespace slotscope
