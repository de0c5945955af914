// SPDX-License-Identifier: MIT
#include "cli/detect_story.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/rfc3339.h"
#include "detect/inputs/xid.h"
#include "detect/patterns/nccl_hang_verdict.h"
#include "detect/patterns/pod_evicted_verdict.h"
#include "detect/patterns/xid_correlation_verdict.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTold = 10;

class Story {
 public:
  template <typename... Args>
  void Tell(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

const char* Plural(size_t nr) { return nr == 1 ? "" : "s"; }

// Of suspects: the first time that each is one.
std::map<int32_t, Json> EvidenceByRank(const std::vector<NcclHang>& hangs, const EvidenceFn& evidence) {
  std::map<int32_t, Json> by_rank;
  for (const NcclHang& hang : hangs) {
    if (hang.is_p2p || hang.suspects.empty()) continue;
    for (const Json& one : evidence(hang))
      if (one["role"] == "suspect") by_rank.try_emplace(one["rank"].get<int32_t>(), one);
  }
  return by_rank;
}

// What this host saw of a rank.
void TellEvidence(const Json& one, Story* story) {
  const std::string state = one["state"];
  if (state == "unknown") {
    story->Tell("      nothing was seen of it here: {}", one["reason"].get<std::string>());
    return;
  }
  static const std::map<std::string, const char*> kStates = {
      {"on_cpu", "it was on a CPU"}, {"waiting", "it waited for a CPU"},
      {"asleep", "it slept"},        {"silent", "it slept, or was gone"},
      {"gone", "it was gone"},
  };
  std::string text = fmt::format("process {} ({}): {}", one["pid"].get<int64_t>(),
                                 one.value("comm", "?"), kStates.at(state));
  const std::pair<const char*, const char*> values[] = {
      {"cpu_ms", "ms of CPU"}, {"wait_ms", "ms waiting for one"}, {"gpu_active_ms", "ms of GPU"}};
  for (const auto& [key, name] : values)
    if (one.contains(key)) text += fmt::format(", {:.1f} {}", one[key].get<double>(), name);
  if (one.contains("mbm_total_bytes"))
    text += fmt::format(", {:.1f} MB of memory traffic", one["mbm_total_bytes"].get<double>() / 1e6);
  if (one.contains("lost_ms"))
    text += fmt::format("; {:.1f} ms of CPU are lost, some may be its", one["lost_ms"].get<double>());
  story->Tell("      {}", text);
  story->Tell("      from {} to {}{}", one["from"].get<std::string>(), one["to"].get<std::string>(),
              one.contains("last_on_cpu_at")
                  ? fmt::format("; it ran last at {}", one["last_on_cpu_at"].get<std::string>())
                  : "");
  if (!one.contains("preempted_by")) return;
  for (const Json& by : one["preempted_by"])
    story->Tell("      preempted {} times, for {:.1f} ms, by process {} ({})",
                by["times"].get<int64_t>(), by["ms"].get<double>(), by["pid"].get<int64_t>(),
                by.value("comm", "?"));
}

// Members of groups of which there is no dump that could be read.
size_t NrSilent(const NcclRecords& records) {
  std::set<int32_t> members;
  for (const FrGroup& group : records.groups())
    members.insert(group.members.begin(), group.members.end());
  for (int32_t rank : records.ranks()) members.erase(rank);
  return members.size();
}

// What falls short of a hang: operations in which a rank waits alone.
void TellNoHang(const NcclRecords& records, const NcclHangOptions& options, Story* story) {
  NcclHangOptions any = options;
  any.min_ranks = 1;
  const std::vector<NcclHang> alone = FindNcclHangs(records, any);
  any.threshold_ns = 0;
  int64_t longest_ns = 0;
  for (const NcclHang& one : FindNcclHangs(records, any)) longest_ns = std::max(longest_ns, one.age_ns);
  story->Tell(
      "No hang: no two of {} rank{} wait in one operation for longer than {:.0f} s, or its timeout.",
      records.ranks().size(), Plural(records.ranks().size()),
      static_cast<double>(options.threshold_ns) / 1e9);
  if (longest_ns > 0)
    story->Tell("  the longest wait is {:.0f} s", static_cast<double>(longest_ns) / 1e9);
  for (size_t i = 0; i < std::min(alone.size(), kMaxTold); i++)
    story->Tell("  but {:.0f} s: {}", static_cast<double>(alone[i].age_ns) / 1e9,
                NcclHangHeadline(records, alone[i]));
}

// The culprits first: they are what somebody has to go to.
void TellHangs(const NcclRecords& records, std::vector<NcclHang> hangs, const NcclHangOptions& options,
               const EvidenceFn& evidence, Story* story) {
  const size_t nr_silent = NrSilent(records);
  const auto tell_silent = [&] {
    if (nr_silent)
      story->Tell("  of {} more rank{} there is no dump that could be read: nothing can be said of {}",
                  nr_silent, Plural(nr_silent), nr_silent == 1 ? "it" : "them");
  };
  if (hangs.empty()) {
    TellNoHang(records, options, story);
    return tell_silent();
  }
  std::map<int32_t, std::set<uint32_t>> groups_of;  // by suspect
  int64_t earliest_ns = hangs[0].earliest_ns;
  for (const NcclHang& hang : hangs) {
    for (const NcclSuspect& suspect : hang.suspects)
      if (!hang.is_p2p) groups_of[suspect.rank].insert(hang.group);
    earliest_ns = std::min(earliest_ns, hang.earliest_ns);
  }
  story->Tell("NCCL hang since {}: {} operation{}, of {} ranks with a dump.", Rfc3339(earliest_ns),
              hangs.size(), hangs.size() == 1 ? " waits" : "s wait", records.ranks().size());
  const auto seen = evidence ? EvidenceByRank(hangs, evidence) : std::map<int32_t, Json>();
  for (const auto& [rank, groups] : groups_of) {
    story->Tell("  rank {} holds up {} process group{}", rank, groups.size(), Plural(groups.size()));
    if (const auto at = seen.find(rank); at != seen.end()) TellEvidence(at->second, story);
  }
  if (groups_of.empty()) {
    NcclHangOptions any = options;
    any.min_ranks = 1;
    for (const NcclHang& hang : FindNcclHangs(records, any))
      if (!hang.suspects.empty() && groups_of.size() < kMaxTold) {
        groups_of[hang.suspects[0].rank];
        story->Tell("  {}", NcclHangHeadline(records, hang));
      }
  }
  if (groups_of.empty()) story->Tell("  no rank is behind, of those with a dump");
  tell_silent();
  if (options.clock == NcclClock::kDumps)
    story->Tell(
        "  dumps do not say when they were written: the shortest timeout is taken to have passed, or "
        "give --as-of TIME");
  // Those that somebody holds up first: the others wait for them, as a rule.
  std::stable_partition(hangs.begin(), hangs.end(),
                        [](const NcclHang& hang) { return !hang.suspects.empty(); });
  for (size_t i = 0; i < std::min(hangs.size(), kMaxTold); i++)
    story->Tell("  {:.0f} s: {}", static_cast<double>(hangs[i].age_ns) / 1e9,
                NcclHangHeadline(records, hangs[i]));
  if (hangs.size() > kMaxTold)
    story->Tell("  ... and {} more (--json has all)", hangs.size() - kMaxTold);
  NcclHang job = hangs[0];  // what to do about all of them
  job.suspects.clear();
  std::set<int32_t> suspects;
  for (const auto& [rank, groups] : groups_of) suspects.insert(rank);
  for (int32_t rank : suspects) job.suspects.push_back({rank, NcclSuspect::Why::kLacks, 0});
  story->Tell("  what to do: {}", NcclHangRemediation(job, suspects));
}

// Each Xid once, and the pods that it cost their node.
void TellXids(const std::vector<XidCorrelation>& found, Story* story) {
  size_t nr_told = 0;
  const XidRecord* told = nullptr;
  for (const XidCorrelation& one : found) {
    if (nr_told++ == kMaxTold) break;
    if (!told || told->uid != one.xid.uid || told->node != one.xid.node) {
      for (const XidRecord& before : one.before)
        story->Tell("  {}  {}: {}", MomentText(before.when), EscapeControls(before.node),
                    DescribeXid(before));
      story->Tell("  {}  {}: {}", MomentText(one.xid.when), EscapeControls(one.xid.node),
                  DescribeXid(one.xid));
      story->Tell("      what to do: {}", XidRemedy(one.xid.code));
      told = &one.xid;
    }
    story->Tell("      {}  {} was evicted", MomentText(one.eviction.when),
                EscapeControls(one.eviction.pod));
  }
  if (found.size() > kMaxTold)
    story->Tell("  ... and {} more (--json has all)", found.size() - kMaxTold);
}

// Those of a GPU with the same number are one.
void TellXidsAlone(const std::vector<XidRecord>& xids, Story* story) {
  std::vector<std::pair<const XidRecord*, size_t>> kinds;
  for (const XidRecord& xid : xids) {
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& one) {
      return one.first->code == xid.code && one.first->bus == xid.bus && one.first->node == xid.node;
    });
    if (same != kinds.end())
      same->second++;
    else if (kinds.size() <= kMaxTold)
      kinds.emplace_back(&xid, 1);
  }
  for (size_t i = 0; i < std::min(kinds.size(), kMaxTold); i++) {
    const auto& [xid, nr] = kinds[i];
    story->Tell("  {}{}  {}: {}",
                xid->clock == LogClock::kNone ? "at a time that is not known" : MomentText(xid->when),
                nr == 1 ? "" : fmt::format(", {} times from then on", nr), EscapeControls(xid->node),
                DescribeXid(*xid));
    story->Tell("      what to do: {}", XidRemedy(xid->code));
  }
  if (kinds.size() > kMaxTold) story->Tell("  ... and more");
}

void TellEvicted(const std::vector<Verdict>& verdicts, Story* story) {
  std::string told;
  for (size_t i = 0; i < std::min(verdicts.size(), kMaxTold); i++) {
    const auto& json = verdicts[i].json;
    story->Tell("  {}  {}", MomentText({verdicts[i].time_ns, 1'000'000'000}),
                json["headline"].get<std::string>());
    if (json.contains("missing_layers")) story->Tell("      the node itself has not said so");
    if (json.contains("resolved_at"))
      story->Tell("      {}  the node is rid of it", json["resolved_at"].get<std::string>());
    if (std::string remedy = json["remediation"]; remedy != told) {
      story->Tell("      what to do: {}", remedy);
      told = std::move(remedy);
    }
  }
  if (verdicts.size() > kMaxTold)
    story->Tell("  ... and {} more (--json has all)", verdicts.size() - kMaxTold);
}

// Those that no Xid explains.
std::vector<Verdict> OtherEvictions(const Findings& findings) {
  std::set<std::string> told;
  for (const XidCorrelation& one : findings.xids) told.insert(one.eviction.uid);
  std::vector<Verdict> verdicts;
  for (const PodEvicted& one : findings.evicted)
    if (!told.contains(one.eviction.uid)) verdicts.push_back(PodEvictedVerdict(one));
  return verdicts;
}

}  // namespace

std::string DetectStory(const DetectRecords& records, const Findings& findings,
                        const JudgeOptions& options, const EvidenceFn& evidence) {
  Story story;
  if (!records.nccl.ranks().empty())
    TellHangs(records.nccl, findings.hangs, options.nccl_hang, evidence, &story);
  if (!findings.xids.empty()) {
    story.Tell("{} Xid{}; {} pod{} evicted soon after one.", records.xids.size(),
               Plural(records.xids.size()), findings.xids.size(),
               findings.xids.size() == 1 ? " was" : "s were");
    TellXids(findings.xids, &story);
  } else if (!records.xids.empty()) {
    story.Tell("{} Xid{}, and no pod that is known to have been evicted soon after one.",
               records.xids.size(), Plural(records.xids.size()));
    TellXidsAlone(records.xids, &story);
  }
  if (!records.untimed_xids.empty()) {
    story.Tell("{} Xid{} without a time.", records.untimed_xids.size(),
               Plural(records.untimed_xids.size()));
    TellXidsAlone(records.untimed_xids, &story);
  }
  if (const auto others = OtherEvictions(findings); !others.empty()) {
    story.Tell("{} {}pod{} evicted.", others.size(), findings.xids.empty() ? "" : "other ",
               others.size() == 1 ? " was" : "s were");
    TellEvicted(others, &story);
  }
  std::string text = story.Take();
  return text.empty() ? "Nothing found in it.\n" : text;
}

}  // namespace slotscope
