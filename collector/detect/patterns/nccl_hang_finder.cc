// SPDX-License-Identifier: MIT
// Who is where in the operations of each group, and who is not where the others wait.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/scan.h"
#include "detect/patterns/nccl_hang.h"
#include "detect/patterns/rank_waits.h"

namespace slotscope {
namespace {

// The two ends of a send and its receive.
struct Lane {
  int32_t sender = -1;
  int32_t receiver = -1;
  auto operator<=>(const Lane&) const = default;
};

// Where a rank is in operations that are counted together.
struct Position {
  std::optional<int64_t> oldest_in_flight;
  int64_t newest = 0;     // of any state
  int64_t newest_ns = 0;  // when it was called, Unix time
  // The first one that it has not done.
  int64_t next() const { return oldest_in_flight.value_or(newest + 1); }
};

// "nccl:send 0->3" and "nccl:recv 3<-0" count members of the group. Nothing if it is no such operation.
std::optional<Lane> LaneOf(std::string_view operation, const FrGroup& group) {
  const size_t colon = operation.find(':');
  if (colon != operation.npos) operation.remove_prefix(colon + 1);
  const bool is_send = operation.starts_with("send ");
  if (!is_send && !operation.starts_with("recv ")) return {};
  operation.remove_prefix(5);
  size_t one, other;
  if (!TakeNumber(&operation, &one) || !(operation.starts_with("->") || operation.starts_with("<-")))
    return {};
  operation.remove_prefix(2);
  if (!TakeNumber(&operation, &other) || one >= group.members.size() || other >= group.members.size())
    return {};
  const int32_t caller = group.members[one], peer = group.members[other];
  return is_send ? Lane{caller, peer} : Lane{peer, caller};
}

// All members call it with as many elements, as PyTorch's own analyzer has it. (What all_to_all takes
// may differ between members, and of a scatter only the root has any.)
bool TakesEqualInputs(std::string_view operation) {
  constexpr auto kOperations = std::to_array<std::string_view>(
      {"all_reduce", "allreduce_coalesced", "broadcast", "reduce", "all_gather", "_all_gather_base",
       "all_gather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base",
       "reduce_scatter_tensor_coalesced", "gather"});
  const size_t colon = operation.find(':');
  if (colon != operation.npos) operation.remove_prefix(colon + 1);
  return std::find(kOperations.begin(), kOperations.end(), operation) != kOperations.end();
}

bool Contains(const std::vector<NcclSuspect>& suspects, int32_t rank) {
  return std::any_of(suspects.begin(), suspects.end(),
                     [&](const NcclSuspect& suspect) { return suspect.rank == rank; });
}

class Finder {
 public:
  Finder(const NcclRecords& records, const NcclHangOptions& options)
      : records_(records), options_(options) {}

  std::vector<NcclHang> Run() {
    // The latest record of each rank's operation, together with those of the other ranks.
    const auto& all = records_.records();
    const auto key = [&](uint32_t i) {
      return std::tuple(all[i].group, all[i].is_p2p, LaneOf(all[i]), all[i].sequence, all[i].rank);
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
        return one.group != begin->group || one.is_p2p != begin->is_p2p || LaneOf(one) != LaneOf(*begin);
      });
      OnGroup({begin, end});
      begin = end;
    }
    std::stable_sort(hangs_.begin(), hangs_.end(), [](const NcclHang& a, const NcclHang& b) {
      return std::tie(a.sequence, a.earliest_ns) < std::tie(b.sequence, b.earliest_ns);
    });
    auto culprits = std::make_shared<NcclCulprits>();
    std::vector<int32_t> suspects;
    for (const NcclHang& hang : hangs_)
      for (const NcclSuspect& suspect : hang.suspects) suspects.push_back(suspect.rank);
    culprits->ranks = waits_.EndsOf(suspects, &culprits->in_circles);
    for (NcclHang& hang : hangs_) hang.culprits = culprits;
    return std::move(hangs_);
  }

 private:
  // Looked up once: there are few names, and many records.
  std::optional<Lane> LaneOf(const NcclRecord& record) {
    if (!record.is_p2p) return {};
    const auto [at, is_new] = lanes_.try_emplace({record.group, record.operation});
    if (is_new)
      at->second =
          slotscope::LaneOf(records_.operations()[record.operation], records_.groups()[record.group]);
    return at->second;
  }

  // All operations that are counted together, by sequence.
  void OnGroup(std::span<const NcclRecord> records) {
    std::map<int32_t, Position> positions;
    for (const NcclRecord& record : records) {
      Position& position = positions[record.rank];
      position.newest = record.sequence;
      position.newest_ns = record.created_ns;
      if (record.state != FrState::kCompleted && !position.oldest_in_flight)
        position.oldest_in_flight = record.sequence;
    }
    if (const auto lane = LaneOf(records[0])) {
      if (const NcclRecord* first = FirstOfWhoIsAlone(records))
        return OnAbsentPeer(*first, *lane, positions);
      if (records_.groups()[records[0].group].members.size() > 2)
        if (const auto ends = FirstOfEnds(records)) return OnBothEnds(*ends);
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
  bool Hangs(const NcclRecord& record) const {
    return record.state != FrState::kCompleted && AgeOf(record) >= LimitOf(record);
  }

  // What is said of it by the one that called it first.
  void Describe(const NcclRecord& earliest, NcclHang* hang) {
    hang->group_index = earliest.group;
    hang->group = records_.groups()[earliest.group];
    hang->operation = records_.operations()[earliest.operation];
    hang->clock = options_.clock;
    hang->is_p2p = earliest.is_p2p;
    if (const auto lane = LaneOf(earliest)) hang->ends = std::minmax({lane->sender, lane->receiver});
    hang->sequence = earliest.sequence;
    hang->earliest_ns = earliest.created_ns;
    hang->age_ns = AgeOf(earliest);
    hang->limit_ns = LimitOf(earliest);
  }

  // Of sends and their receives: what the only end has called first that has any in flight. Null: both
  // have, or none.
  static const NcclRecord* FirstOfWhoIsAlone(std::span<const NcclRecord> records) {
    const NcclRecord* first = nullptr;
    for (const NcclRecord& record : records) {
      if (record.state == FrState::kCompleted) continue;
      if (!first) first = &record;
      if (record.rank != first->rank) return nullptr;
    }
    return first;
  }

  // What each end has called first of what is in flight, if no number is in flight at both. (Where there
  // are others each end counts what it does with them, too.)
  using Ends = std::array<const NcclRecord*, 2>;
  static std::optional<Ends> FirstOfEnds(std::span<const NcclRecord> records) {
    Ends ends = {};
    const NcclRecord* last = nullptr;  // in flight; by sequence, and once of each rank
    for (const NcclRecord& record : records) {
      if (record.state == FrState::kCompleted) continue;
      if (last && last->sequence == record.sequence) return {};
      last = &record;
      if (!ends[0])
        ends[0] = &record;
      else if (!ends[1] && ends[0]->rank != record.rank)
        ends[1] = &record;
    }
    if (!ends[1]) return {};
    return ends;
  }

  // A send and its receive, both called: neither end is to be looked at before the other.
  void OnBothEnds(const Ends& ends) {
    const auto [one, other] = ends;
    const int32_t ranks[] = {one->rank, other->rank};
    waits_.Add(ranks, {});
    if (!Hangs(*one) || !Hangs(*other)) return;
    NcclHang hang;
    for (const NcclRecord* end : ends) {
      hang.hanging_ranks.push_back(end->rank);
      hang.since_ns.push_back(end->created_ns);
    }
    Describe(one->created_ns <= other->created_ns ? *one : *other, &hang);
    hangs_.push_back(std::move(hang));
  }

  // Has that end done its part of what the other one waits in? Where there are others each counts for
  // itself whom it sends to, and numbers say nothing: then it is what it has called since.
  bool HasDone(const Position& peer, const NcclRecord& waits) const {
    const bool is_pair = records_.groups()[waits.group].members.size() == 2;
    return is_pair ? peer.newest >= waits.sequence : peer.newest_ns >= waits.created_ns;
  }

  // One end has called it, and the other has nothing in flight that it could be for.
  void OnAbsentPeer(const NcclRecord& first, const Lane& lane,
                    const std::map<int32_t, Position>& positions) {
    const int32_t peer = first.rank == lane.sender ? lane.receiver : lane.sender;
    const auto at = positions.find(peer);
    NcclHang hang;
    if (!records_.ranks().contains(peer)) {  // most likely it was killed: then it has written none
      hang.unknown_ranks.push_back(peer);
      hang.suspects.push_back({peer, NcclSuspect::Why::kNoDump, 0});
    } else if (at != positions.end() && HasDone(at->second, first)) {
      hang.suspects.push_back({first.rank, NcclSuspect::Why::kBehind, first.sequence});
    } else {
      hang.suspects.push_back({peer, NcclSuspect::Why::kLacks, 0});
    }
    AddWaits({&first.rank, 1}, hang.suspects);
    if (!Hangs(first)) return;
    hang.hanging_ranks = {first.rank};
    hang.since_ns = {first.created_ns};
    Describe(first, &hang);
    hangs_.push_back(std::move(hang));
  }

  void OnOperation(std::span<const NcclRecord> records, const std::map<int32_t, Position>& positions) {
    NcclHang hang;
    const NcclRecord* earliest = nullptr;
    std::vector<int32_t> in_flight;
    for (const NcclRecord& record : records) {
      if (record.state != FrState::kCompleted) in_flight.push_back(record.rank);
      if (!Hangs(record)) continue;
      hang.hanging_ranks.push_back(record.rank);
      hang.since_ns.push_back(record.created_ns);
      if (!earliest || record.created_ns < earliest->created_ns) earliest = &record;
    }
    if (in_flight.empty()) return;
    if (!records[0].is_p2p) FindDifferent(records, &hang);
    FindSuspects(positions, ParticipantsOf(records, positions), records[0].sequence, &hang);
    AddWaits(in_flight, hang.suspects);
    if (hang.suspects.empty()) waits_.Add(in_flight, hang.unknown_ranks);
    const size_t nr_needed = hang.calls.empty() ? options_.min_ranks : 1;
    if (!earliest || hang.hanging_ranks.size() < nr_needed) return;
    Describe(*earliest, &hang);
    hangs_.push_back(std::move(hang));
  }

  // Who is a suspect itself does not wait for the others that are.
  void AddWaits(std::span<const int32_t> in_flight, const std::vector<NcclSuspect>& suspects) {
    std::vector<int32_t> waiting;
    for (const int32_t rank : in_flight)
      if (!Contains(suspects, rank)) waiting.push_back(rank);
    waits_.Add(waiting, RanksOf(suspects));
  }

  // At one place in their order all members of a group have to call the same.
  void FindDifferent(std::span<const NcclRecord> records, NcclHang* hang) const {
    const auto& tensors = records_.tensors();
    const auto& operations = records_.operations();
    const bool has_inputs = std::all_of(records.begin(), records.end(), [&](const NcclRecord& record) {
      return record.inputs != 0 && TakesEqualInputs(operations[record.operation]);
    });
    const auto key = [&](const NcclRecord& record) {
      const FrTensors& inputs = tensors[has_inputs ? record.inputs : 0];
      return std::tuple(std::string_view(operations[record.operation]), inputs.elements,
                        std::string_view(inputs.type));
    };
    const auto is_named = [&](const NcclRecord& record) {
      return !operations[record.operation].empty();
    };
    if (!std::all_of(records.begin(), records.end(), is_named) ||
        std::all_of(records.begin(), records.end(),
                    [&](const NcclRecord& record) { return key(record) == key(records[0]); }))
      return;
    std::map<decltype(key(records[0])), NcclCall> calls;
    for (const NcclRecord& record : records) {
      NcclCall& call = calls[key(record)];
      call.operation = operations[record.operation];
      call.inputs = tensors[record.inputs].text;
      call.ranks.push_back(record.rank);
      call.called_ns.push_back(record.created_ns);
      if (record.state == FrState::kCompleted) call.completed.insert(record.rank);
    }
    for (auto& [inputs, call] : calls) hang->calls.push_back(std::move(call));
    std::stable_sort(hang->calls.begin(), hang->calls.end(), [](const NcclCall& a, const NcclCall& b) {
      return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
    });
    // Of as many nobody knows who is right.
    const bool is_usual = hang->calls[0].ranks.size() > hang->calls[1].ranks.size();
    for (size_t i = is_usual; i < hang->calls.size(); i++)
      for (const int32_t rank : hang->calls[i].ranks)
        hang->suspects.push_back({rank, NcclSuspect::Why::kDiffers, 0});
  }

  // Who has to be there for it to go on.
  std::set<int32_t> ParticipantsOf(std::span<const NcclRecord> records,
                                   const std::map<int32_t, Position>& positions) {
    std::set<int32_t> participants;
    for (const NcclRecord& record : records) participants.insert(record.rank);
    if (const auto lane = LaneOf(records[0])) participants.insert({lane->sender, lane->receiver});
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
                    int64_t sequence, NcclHang* hang) const {
    int64_t front = std::numeric_limits<int64_t>::min();
    for (int32_t rank : participants)
      if (auto at = positions.find(rank); at != positions.end())
        front = std::max(front, at->second.next());
    for (int32_t rank : participants) {
      const auto at = positions.find(rank);
      if (!records_.ranks().contains(rank))
        hang->unknown_ranks.push_back(rank);
      else if (Contains(hang->suspects, rank))
        continue;
      else if (at == positions.end() || (!at->second.oldest_in_flight && at->second.newest < sequence))
        hang->suspects.push_back({rank, NcclSuspect::Why::kLacks, 0});
      else if (at->second.next() < front)
        hang->suspects.push_back({rank, NcclSuspect::Why::kBehind, at->second.next()});
    }
    std::stable_sort(hang->suspects.begin(), hang->suspects.end(),
                     [](const NcclSuspect& a, const NcclSuspect& b) { return a.rank < b.rank; });
  }

  const NcclRecords& records_;
  const NcclHangOptions& options_;
  // The shortest one of what is in flight: when it has passed, dumps are written.
  std::optional<int64_t> passed_timeout_ns_;
  std::map<std::pair<uint32_t, uint32_t>, std::optional<Lane>> lanes_;  // by group and operation
  RankWaits waits_;
  std::vector<NcclHang> hangs_;
};

// The one that shows best what is wrong: a difference, then what a culprit holds up, then what others
// hold up; collectives first; the oldest of these.
const NcclHang& FirstToLookAt(const std::vector<NcclHang>& hangs) {
  const auto key = [](const NcclHang& hang) {
    const bool has_culprit = std::any_of(
        hang.suspects.begin(), hang.suspects.end(),
        [&](const NcclSuspect& suspect) { return hang.culprits->ranks.contains(suspect.rank); });
    return std::tuple(hang.calls.empty(), !has_culprit, hang.suspects.empty(), hang.is_p2p,
                      hang.earliest_ns, hang.sequence);
  };
  return *std::min_element(hangs.begin(), hangs.end(),
                           [&](const NcclHang& a, const NcclHang& b) { return key(a) < key(b); });
}

}  // namespace

std::vector<NcclHang> FindNcclHangs(const NcclRecords& records, const NcclHangOptions& options) {
  return Finder(records, options).Run();
}

std::optional<NcclHang> JoinNcclHangs(std::vector<NcclHang> hangs) {
  if (hangs.empty()) return {};
  if (hangs.size() == 1) return std::move(hangs[0]);
  NcclHang job = FirstToLookAt(hangs);
  std::map<int32_t, int64_t> since;  // by rank
  std::map<int32_t, NcclSuspect> suspects;
  std::set<int32_t> unknown;
  for (const NcclHang& hang : hangs) {
    for (size_t i = 0; i < hang.hanging_ranks.size(); i++) {
      const auto [at, is_new] = since.try_emplace(hang.hanging_ranks[i], hang.since_ns[i]);
      at->second = std::min(at->second, hang.since_ns[i]);
    }
    for (const NcclSuspect& suspect : hang.suspects)
      if (job.culprits->ranks.contains(suspect.rank)) suspects.try_emplace(suspect.rank, suspect);
    unknown.insert(hang.unknown_ranks.begin(), hang.unknown_ranks.end());
    job.earliest_ns = std::min(job.earliest_ns, hang.earliest_ns);
    job.age_ns = std::max(job.age_ns, hang.age_ns);
  }
  for (const NcclSuspect& suspect : job.suspects)  // how they are in the one to look at says more
    if (const auto at = suspects.find(suspect.rank); at != suspects.end()) at->second = suspect;
  job.hanging_ranks.clear();
  job.since_ns.clear();
  job.suspects.clear();
  for (const auto& [rank, ns] : since) {
    job.hanging_ranks.push_back(rank);
    job.since_ns.push_back(ns);
  }
  for (const int32_t rank : job.culprits->ranks)  // some wait for it that do not hang yet
    suspects.try_emplace(
        rank,
        NcclSuspect{rank, unknown.contains(rank) ? NcclSuspect::Why::kNoDump : NcclSuspect::Why::kLacks,
                    0});
  for (const auto& [rank, suspect] : suspects) job.suspects.push_back(suspect);
  job.unknown_ranks.assign(unknown.begin(), unknown.end());
  job.parts = std::move(hangs);
  return job;
}

}  // namespace slotscope
