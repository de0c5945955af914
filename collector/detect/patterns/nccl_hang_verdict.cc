// SPDX-License-Identifier: MIT
#include "detect/patterns/nccl_hang_verdict.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstddef>

#include "base/escape.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

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

std::string NcclHangRemediation(const NcclHang& hang, const std::set<int32_t>& suspects) {
  if (!hang.suspects.empty())
    return fmt::format(
        "look at {} first: the process, its GPU and its node; then restart the job without it",
        RanksText(RanksOf(hang.suspects)));
  if (!suspects.empty())
    return fmt::format("look at {} first: this operation most likely waits for what they hold up",
                       RanksText({suspects.begin(), suspects.end()}));
  if (!hang.unknown_ranks.empty())
    return fmt::format("get the dumps of {}: they are missing", RanksText(hang.unknown_ranks));
  if (hang.is_p2p)
    return "both ends have called it: look at what hangs before it in either of them, then at the "
           "network between them";
  return "all members are at the same operation: look at the network between them, and at NCCL's own "
         "log";
}

std::string NcclHangHeadline(const NcclRecords& records, const NcclHang& hang) {
  const FrGroup& group = records.groups()[hang.group];
  std::string text = fmt::format("{} wait{} in {} {} of group {}", RanksText(hang.hanging_ranks),
                                 hang.hanging_ranks.size() == 1 ? "s" : "",
                                 EscapeControls(records.operations()[hang.operation]), hang.sequence,
                                 EscapeControls(group.name));
  if (!group.description.empty()) text += fmt::format(" ({})", EscapeControls(group.description));
  if (!hang.suspects.empty()) text += fmt::format("; held up by {}", RanksText(RanksOf(hang.suspects)));
  return text;
}

std::string NcclHangKey(const NcclRecords& records, const NcclHang& hang) {
  const FrGroup& group = records.groups()[hang.group];
  std::string key =
      fmt::format("15 {} {} {} {} of", group.name, group.description, hang.is_p2p, hang.sequence);
  for (int32_t member : group.members) key += fmt::format(" {}", member);
  if (hang.ends) key += fmt::format(" between {} and {}", hang.ends->first, hang.ends->second);
  return key;
}

Verdict NcclHangVerdict(const NcclRecords& records, const NcclHang& hang, NcclClock clock,
                        const std::set<int32_t>& suspects_of_job) {
  const FrGroup& group = records.groups()[hang.group];
  Json suspects = Json::array(), trail = Json::array();
  for (const NcclSuspect& suspect : hang.suspects) {
    Json one = {{"rank", suspect.rank}};
    one["why"] = suspect.why == NcclSuspect::Why::kLacks ? "lacks" : "behind";
    if (suspect.why == NcclSuspect::Why::kBehind) one["sequence"] = suspect.sequence;
    suspects.push_back(std::move(one));
  }
  for (size_t i = 0; i < hang.hanging_ranks.size(); i++)
    trail.push_back(Evidence("fr_record", fmt::format("rank-{}", hang.hanging_ranks[i]),
                             {hang.since_ns[i], 1}, "called it, and has not completed it"));
  Verdict verdict;
  verdict.time_ns = hang.earliest_ns;
  verdict.key = NcclHangKey(records, hang);
  verdict.json = {{"pattern.id", "15"},
                  {"headline", NcclHangHeadline(records, hang)},
                  {"remediation", NcclHangRemediation(hang, suspects_of_job)},
                  {"pg_id", EscapeControls(group.name)},
                  {"pg_description", EscapeControls(group.description)},
                  {"collective_seq_id", hang.sequence},
                  {"is_p2p", hang.is_p2p},
                  {"operation", EscapeControls(records.operations()[hang.operation])},
                  {"hanging_ranks", hang.hanging_ranks},
                  {"suspects", std::move(suspects)},
                  {"unknown_ranks", hang.unknown_ranks},
                  {"earliest_created_at", MomentText({hang.earliest_ns, 1})},
                  {"age_s", Seconds(hang.age_ns)},
                  {"threshold_s", Seconds(hang.limit_ns)},
                  {"clock", kClockNames[static_cast<size_t>(clock)]},
                  {"evidence_trail", std::move(trail)}};
  return verdict;
}

}  // namespace slotscope
