// SPDX-License-Identifier: MIT
#include "detect/patterns/nccl_hang.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "detect/inputs/timestamp.h"
#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

constexpr std::array<const char*, 3> kClockNames = {"as_of", "receipt", "dumps"};
constexpr std::array<const char*, 4> kWhyNames = {"lacks", "behind", "differs", "no_dump"};
constexpr size_t kMaxNamed = 8;  // ranks in a sentence

// `last`: between the last two.
std::string RanksWith(const std::vector<int32_t>& ranks, const char* last) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t nr = std::min(ranks.size(), kMaxNamed);
  for (size_t i = 0; i < nr; i++)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? last : ", ", ranks[i]);
  if (ranks.size() > nr) text += fmt::format(" and {} more", ranks.size() - nr);
  return text;
}

std::string RankList(const std::vector<int32_t>& ranks) { return RanksWith(ranks, ", "); }

// " (there is no dump of rank 3)", if so.
std::string NoDumpText(const std::vector<NcclSuspect>& suspects) {
  std::vector<int32_t> ranks;
  for (const NcclSuspect& suspect : suspects)
    if (suspect.why == NcclSuspect::Why::kNoDump) ranks.push_back(suspect.rank);
  return ranks.empty() ? "" : fmt::format(" (there is no dump of {})", RanksText(ranks));
}

double Seconds(int64_t ns) { return std::round(static_cast<double>(ns) / 1e6) / 1e3; }

// "nccl:all_reduce of 1024 Float".
std::string CallText(const NcclCall& call) {
  std::string text = EscapeControls(call.operation);
  if (!call.inputs.empty()) text += " of " + EscapeControls(call.inputs);
  return text;
}

// "nccl:all_reduce 7 of group 0 (default_pg)".
std::string PlaceText(const NcclHang& hang) {
  std::string text = fmt::format("{} {} of group {}", EscapeControls(hang.operation), hang.sequence,
                                 EscapeControls(hang.group.name));
  if (!hang.group.description.empty())
    text += fmt::format(" ({})", EscapeControls(hang.group.description));
  return text;
}

// "ranks 2 and 3 called nccl:broadcast of 512 Float, the others nccl:all_reduce of 1024 Float".
std::string DifferenceText(const std::vector<NcclCall>& calls) {
  const bool is_usual = calls[0].ranks.size() > calls[1].ranks.size();
  std::string text;
  for (size_t i = is_usual; i < calls.size() && i < kMaxNamed; i++)
    text += fmt::format("{}{} called {}", text.empty() ? "" : ", ", RanksText(calls[i].ranks),
                        CallText(calls[i]));
  if (is_usual) text += ", the others " + CallText(calls[0]);
  return text;
}

// Those suspects that are culprits: `in_circles`, or the others.
std::vector<int32_t> CulpritsAmong(const std::vector<NcclSuspect>& suspects,
                                   const NcclCulprits& culprits, bool in_circles) {
  std::vector<int32_t> ranks;
  for (const NcclSuspect& suspect : suspects)
    if (culprits.ranks.contains(suspect.rank) &&
        culprits.in_circles.contains(suspect.rank) == in_circles)
      ranks.push_back(suspect.rank);
  return ranks;
}

// Of a sequence that the dump of each rank has.
bool HaveGoneOn(const NcclHang& hang, const NcclRecords& nccl) {
  std::map<int32_t, int64_t> newest;
  for (const NcclRecord& record : nccl.records()) {
    const FrGroup& other = nccl.groups()[record.group];
    if (record.is_p2p != hang.is_p2p || other.name != hang.group.name ||
        other.description != hang.group.description)
      continue;
    const auto [at, is_new] = newest.try_emplace(record.rank, record.sequence);
    if (!is_new) at->second = std::max(at->second, record.sequence);
  }
  return std::all_of(hang.hanging_ranks.begin(), hang.hanging_ranks.end(), [&](int32_t rank) {
    const auto at = newest.find(rank);
    return nccl.ranks().contains(rank) && (at == newest.end() || at->second >= hang.sequence);
  });
}

}  // namespace

std::vector<int32_t> RanksOf(const std::vector<NcclSuspect>& suspects) {
  std::vector<int32_t> ranks;
  for (const NcclSuspect& suspect : suspects) ranks.push_back(suspect.rank);
  return ranks;
}

std::string RanksText(const std::vector<int32_t>& ranks) { return RanksWith(ranks, " and "); }

// A job has one hang at a time.
std::string NcclHang::Key() const { return kNcclHang.id; }

std::string NcclHang::State() const {
  std::string state = fmt::format("{} operations since {}", parts.size(), earliest_ns);
  for (int32_t rank : hanging_ranks) state += fmt::format(" {}", rank);
  state += ", unknown";
  for (int32_t rank : unknown_ranks) state += fmt::format(" {}", rank);
  state += ", suspects";
  for (const NcclSuspect& suspect : suspects)
    state += fmt::format(" {} {} {}", suspect.rank, kWhyNames[static_cast<size_t>(suspect.why)],
                         suspect.sequence);
  return state;
}

// Of several operations: who it is, how much of the job waits, and one of them.
std::string NcclHang::JobHeadline() const {
  const std::string what = fmt::format("{} operations of {} rank{}", parts.size(), hanging_ranks.size(),
                                       hanging_ranks.size() == 1 ? "" : "s");
  if (!calls.empty())
    return fmt::format("{} in {}; {} wait", DifferenceText(calls), PlaceText(*this), what);
  if (suspects.empty()) return fmt::format("{} wait, such as {}", what, PlaceText(*this));
  const std::vector<int32_t> circle = CulpritsAmong(suspects, *culprits, true);
  const std::string each_other = circle.empty() ? "" : RanksText(circle) + " wait for each other; ";
  if (circle.size() == suspects.size())
    return fmt::format("{}{} wait, such as {}", each_other, what, PlaceText(*this));
  std::vector<int32_t> others = RanksOf(suspects);
  std::erase_if(others, [&](int32_t rank) { return culprits->in_circles.contains(rank); });
  return fmt::format("{}{}{} hold{} up {}, such as {}", each_other, RanksText(others),
                     NoDumpText(suspects), others.size() == 1 ? "s" : "", what, PlaceText(*this));
}

std::string NcclHang::Headline() const {
  if (!parts.empty()) return JobHeadline();
  std::string text = fmt::format("{} wait{} in {}", RankList(hanging_ranks),
                                 hanging_ranks.size() == 1 ? "s" : "", PlaceText(*this));
  if (!calls.empty()) return text + "; " + DifferenceText(calls);
  if (suspects.empty()) return text;
  return text + fmt::format("; held up by {}{}", RankList(RanksOf(suspects)), NoDumpText(suspects));
}

std::string NcclHang::Remediation() const {
  constexpr std::string_view kLook = "the process, its GPU and its node";
  const auto look_at = [&](const std::vector<int32_t>& ranks) {
    return fmt::format("look at {} first{}: {}; then restart the job without {}", RanksText(ranks),
                       NoDumpText(suspects), kLook, RanksText(ranks));
  };
  if (!calls.empty())
    return fmt::format(
        "find out why {}: at one place all members have to call the same, with the same sizes",
        DifferenceText(calls));
  if (!culprits) return look_at(RanksOf(suspects));  // of one that was made by hand
  const std::vector<int32_t> ours = CulpritsAmong(suspects, *culprits, false);
  const std::vector<int32_t> all(culprits->ranks.begin(), culprits->ranks.end());
  const std::string each_other =
      fmt::format("{} wait for each other: compare the order in which they call their operations",
                  RanksText({culprits->in_circles.begin(), culprits->in_circles.end()}));
  const bool has_circle = !CulpritsAmong(suspects, *culprits, true).empty();
  if (!ours.empty()) return look_at(ours) + (has_circle ? ". " + each_other : "");
  if (has_circle) return each_other + ", then restart the job";
  if (!all.empty())
    return fmt::format("look at {} first: {} most likely waits for what they hold up", RanksText(all),
                       suspects.empty() ? "this operation" : RanksText(RanksOf(suspects)));
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
  for (size_t i = 0; i < hanging_ranks.size(); i++) {
    const auto call = std::find_if(calls.begin(), calls.end(), [&](const NcclCall& one) {
      return std::find(one.ranks.begin(), one.ranks.end(), hanging_ranks[i]) != one.ranks.end();
    });
    trail.push_back({"fr_record",
                     fmt::format("rank-{}", hanging_ranks[i]),
                     {since_ns[i], 1},
                     call == calls.end()
                         ? "called it, and has not completed it"
                         : fmt::format("called {}, and has not completed it", CallText(*call))});
  }
  // And who called something else, and does not wait.
  for (const NcclCall& call : calls)
    for (size_t i = 0; i < call.ranks.size(); i++) {
      if (std::find(hanging_ranks.begin(), hanging_ranks.end(), call.ranks[i]) != hanging_ranks.end())
        continue;
      trail.push_back({"fr_record",
                       fmt::format("rank-{}", call.ranks[i]),
                       {call.called_ns[i], 1},
                       fmt::format("called {}, and has {}completed it", CallText(call),
                                   call.completed.contains(call.ranks[i]) ? "" : "not ")});
    }
  return trail;
}

void NcclHang::PutFields(nlohmann::ordered_json* verdict) const {
  auto list = nlohmann::ordered_json::array();
  for (const NcclSuspect& suspect : suspects) {
    nlohmann::ordered_json one = {{"rank", suspect.rank}};
    one["why"] = kWhyNames[static_cast<size_t>(suspect.why)];
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
  for (const NcclCall& call : calls) {
    nlohmann::ordered_json one = {{"operation", EscapeControls(call.operation)}};
    if (!call.inputs.empty()) one["inputs"] = EscapeControls(call.inputs);
    one["ranks"] = call.ranks;
    json["calls"].push_back(std::move(one));
  }
  if (!parts.empty()) json["is_circle"] = !culprits->in_circles.empty();
  for (const NcclHang& part : parts) json["parts"].push_back(VerdictJson(part));
}

bool NcclHang::HasResolved(const DetectRecords& records) const {
  if (parts.empty()) return HaveGoneOn(*this, records.nccl);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const NcclHang& part) { return HaveGoneOn(part, records.nccl); });
}

}  // namespace slotscope
