// SPDX-License-Identifier: MIT
#include "detect/patterns/nccl_hang.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>

#include "base/escape.h"
#include "base/scan.h"
#include "detect/inputs/timestamp.h"

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
    auto suspects = std::make_shared<std::set<int32_t>>();
    for (const NcclHang& hang : hangs_)
      for (const NcclSuspect& suspect : hang.suspects) suspects->insert(suspect.rank);
    for (NcclHang& hang : hangs_) hang.suspects_of_job = suspects;
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
    NcclHang hang;
    const NcclRecord* earliest = nullptr;
    for (const NcclRecord& record : records) {
      if (record.state == FrState::kCompleted || AgeOf(record) < LimitOf(record)) continue;
      hang.hanging_ranks.push_back(record.rank);
      hang.since_ns.push_back(record.created_ns);
      if (!earliest || record.created_ns < earliest->created_ns) earliest = &record;
    }
    if (hang.hanging_ranks.size() < options_.min_ranks || !earliest) return;
    hang.group_index = earliest->group;
    hang.group = records_.groups()[earliest->group];
    hang.operation = records_.operations()[earliest->operation];
    hang.clock = options_.clock;
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

constexpr std::array<const char*, 3> kClockNames = {"as_of", "receipt", "dumps"};
constexpr size_t kMaxNamed = 8;  // ranks in a sentence

std::string RanksText(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kMaxNamed; i++)
    text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  if (ranks.size() > kMaxNamed) text += fmt::format(" and {} more", ranks.size() - kMaxNamed);
  return text;
}

std::vector<int32_t> RanksOf(const std::vector<NcclSuspect>& suspects) {
  std::vector<int32_t> ranks;
  for (const NcclSuspect& suspect : suspects) ranks.push_back(suspect.rank);
  return ranks;
}

double Seconds(int64_t ns) { return std::round(static_cast<double>(ns) / 1e6) / 1e3; }

}  // namespace

std::vector<NcclHang> FindNcclHangs(const NcclRecords& records, const NcclHangOptions& options) {
  return Finder(records, options).Run();
}

std::string NcclHang::Key() const {
  std::string key = fmt::format("15 {} {} {} {} of", group.name, group.description, is_p2p, sequence);
  for (int32_t member : group.members) key += fmt::format(" {}", member);
  if (ends) key += fmt::format(" between {} and {}", ends->first, ends->second);
  return key;
}

std::string NcclHang::State() const {
  std::string state = fmt::format("since {}", earliest_ns);
  for (int32_t rank : hanging_ranks) state += fmt::format(" {}", rank);
  state += ", unknown";
  for (int32_t rank : unknown_ranks) state += fmt::format(" {}", rank);
  state += ", suspects";
  for (const NcclSuspect& suspect : suspects)
    state += fmt::format(" {} {} {}", suspect.rank, suspect.why == NcclSuspect::Why::kLacks,
                         suspect.sequence);
  return state;
}

std::string NcclHang::Headline() const {
  std::string text = fmt::format("{} wait{} in {} {} of group {}", RanksText(hanging_ranks),
                                 hanging_ranks.size() == 1 ? "s" : "", EscapeControls(operation),
                                 sequence, EscapeControls(group.name));
  if (!group.description.empty()) text += fmt::format(" ({})", EscapeControls(group.description));
  if (!suspects.empty()) text += fmt::format("; held up by {}", RanksText(RanksOf(suspects)));
  return text;
}

std::string NcclHang::Remediation() const {
  if (!suspects.empty())
    return fmt::format(
        "look at {} first: the process, its GPU and its node; then restart the job without it",
        RanksText(RanksOf(suspects)));
  if (suspects_of_job && !suspects_of_job->empty())
    return fmt::format("look at {} first: this operation most likely waits for what they hold up",
                       RanksText({suspects_of_job->begin(), suspects_of_job->end()}));
  if (!unknown_ranks.empty())
    return fmt::format("get the dumps of {}: they are missing", RanksText(unknown_ranks));
  if (is_p2p)
    return "both ends have called it: look at what hangs before it in either of them, then at the "
           "network between them";
  return "all members are at the same operation: look at the network between them, and at NCCL's own "
         "log";
}

std::vector<Evidence> NcclHang::Trail() const {
  std::vector<Evidence> trail;
  for (size_t i = 0; i < hanging_ranks.size(); i++)
    trail.push_back({"fr_record",
                     fmt::format("rank-{}", hanging_ranks[i]),
                     {since_ns[i], 1},
                     "called it, and has not completed it"});
  return trail;
}

void NcclHang::PutFields(nlohmann::ordered_json* verdict) const {
  auto list = nlohmann::ordered_json::array();
  for (const NcclSuspect& suspect : suspects) {
    nlohmann::ordered_json one = {{"rank", suspect.rank}};
    one["why"] = suspect.why == NcclSuspect::Why::kLacks ? "lacks" : "behind";
    if (suspect.why == NcclSuspect::Why::kBehind) one["sequence"] = suspect.sequence;
    list.push_back(std::move(one));
  }
  auto& json = *verdict;
  json["pg_id"] = EscapeControls(group.name);
  json["pg_description"] = EscapeControls(group.description);
  json["collective_seq_id"] = sequence;
  json["is_p2p"] = is_p2p;
  json["operation"] = EscapeControls(operation);
  json["hanging_ranks"] = hanging_ranks;
  json["suspects"] = std::move(list);
  json["unknown_ranks"] = unknown_ranks;
  json["earliest_created_at"] = MomentText({earliest_ns, 1});
  json["age_s"] = Seconds(age_ns);
  json["threshold_s"] = Seconds(limit_ns);
  json["clock"] = kClockNames[static_cast<size_t>(clock)];
}

bool NcclHang::HasResolved(const DetectRecords& records) const {
  const NcclRecords& nccl = records.nccl;
  std::map<int32_t, int64_t> newest;
  for (const NcclRecord& record : nccl.records()) {
    const FrGroup& other = nccl.groups()[record.group];
    if (record.is_p2p != is_p2p || other.name != group.name || other.description != group.description)
      continue;
    const auto [at, is_new] = newest.try_emplace(record.rank, record.sequence);
    if (!is_new) at->second = std::max(at->second, record.sequence);
  }
  return std::all_of(hanging_ranks.begin(), hanging_ranks.end(), [&](int32_t rank) {
    const auto at = newest.find(rank);
    return nccl.ranks().contains(rank) && (at == newest.end() || at->second >= sequence);
  });
}

}  // namespace slotscope
