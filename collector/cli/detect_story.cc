// SPDX-License-Identifier: MIT
#include "cli/detect_story.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/rfc3339.h"
#include "detect/inputs/timestamp.h"
#include "detect/inputs/xid.h"
#include "detect/patterns/pod_evicted.h"
#include "detect/patterns/xid_correlation.h"

namespace slotscope {
namespace {

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
std::map<int32_t, RankEvidence> EvidenceByRank(const std::vector<NcclHang>& hangs,
                                               const EvidenceFn& evidence) {
  std::map<int32_t, RankEvidence> by_rank;
  for (const NcclHang& hang : hangs) {
    if (hang.suspects.empty()) continue;
    for (RankEvidence& seen : evidence(hang))
      if (seen.is_suspect) by_rank.try_emplace(seen.rank, std::move(seen));
  }
  return by_rank;
}

const char* StateText(RankState state) {
  switch (state) {
    case RankState::kUnknown:
      break;
    case RankState::kOnCpu:
      return "it was on a CPU";
    case RankState::kWaiting:
      return "it waited for a CPU";
    case RankState::kAsleep:
      return "it slept";
    case RankState::kSilent:
      return "it slept, or was gone";
    case RankState::kGone:
      return "it was gone";
  }
  return "nothing was seen of it";
}

double Milliseconds(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

// What this host saw of a rank.
void TellEvidence(const RankEvidence& seen, Story* story) {
  if (seen.state == RankState::kUnknown) {
    story->Tell("      nothing was seen of it here: {}", seen.reason);
    return;
  }
  std::string text = fmt::format("process {} ({}): {}", seen.tgid, seen.comm.empty() ? "?" : seen.comm,
                                 StateText(seen.state));
  const auto is_measured = [&](HostValue value) { return !(seen.sums.unmeasured >> value & 1); };
  const std::string waiting =
      "ms waiting for one" +
      (seen.wait_cause().empty() ? "" : fmt::format(" (most of it: {})", seen.wait_cause()));
  const std::pair<HostValue, std::string> times[] = {
      {kHostCpuNs, "ms of CPU"},
      {kHostWaitNs, waiting},
      {kHostGpuActiveNs, "ms of GPU"},
      {kHostGpuNoWork, "ms at least without work for it"}};
  for (const auto& [value, name] : times)
    if (is_measured(value) && (value != kHostGpuNoWork || seen.sums.values[value] > 0))
      text += fmt::format(", {:.1f} {}", Milliseconds(seen.sums.values[value]), name);
  if (is_measured(kHostMbmTotal))
    text += fmt::format(", {:.1f} MB of memory traffic",
                        static_cast<double>(seen.sums.values[kHostMbmTotal]) / 1e6);
  if (seen.lost_ns)
    text += fmt::format("; {:.1f} ms of CPU are lost, some may be its", Milliseconds(seen.lost_ns));
  story->Tell("      {}", text);
  story->Tell("      from {} to {}{}", MomentText({seen.from_ns, 1000}), MomentText({seen.to_ns, 1000}),
              seen.last_on_cpu_ns
                  ? fmt::format("; it ran last at {}", MomentText({seen.last_on_cpu_ns, 1000}))
                  : "");
  for (const HostRanInstead& ran : seen.ran_instead)
    story->Tell("      while it waited, process {} ({}) ran there for {:.1f} ms", ran.tgid,
                ran.comm.empty() ? "?" : ran.comm, Milliseconds(ran.ns));
}

// Members of groups of which there is no dump that could be read.
std::vector<int32_t> SilentOf(const NcclRecords& records) {
  std::set<int32_t> members;
  for (const FrGroup& group : records.groups())
    members.insert(group.members.begin(), group.members.end());
  for (int32_t rank : records.ranks()) members.erase(rank);
  return {members.begin(), members.end()};
}

// Of what is under way nobody says a timeout, nor when the dump was written.
bool LacksAges(const NcclRecords& records, const NcclHangOptions& options) {
  bool any = false;
  for (const NcclRecord& record : records.records()) {
    if (record.state == FrState::kCompleted) continue;
    if (record.timeout_ms) return false;
    any = true;
  }
  return any && options.clock == NcclClock::kDumps;
}

// What falls short of a hang: operations in which a rank waits alone.
void TellNoHang(const NcclRecords& records, const NcclHangOptions& options, Story* story) {
  NcclHangOptions any = options;
  any.min_ranks = 1;
  const std::vector<NcclHang> alone = FindNcclHangs(records, any);
  any.threshold_ns = 0;
  int64_t longest_ns = 0;
  for (const NcclHang& one : FindNcclHangs(records, any)) longest_ns = std::max(longest_ns, one.age_ns);
  const size_t nr_ranks = records.ranks().size();
  const bool is_partly = records.nr_malformed() || !SilentOf(records).empty();
  if (records.records().empty() && is_partly) {
    story->Tell("Whether it hangs is not known: nothing could be read of what {} rank{} called.",
                nr_ranks, Plural(nr_ranks));
    return;
  }
  story->Tell(
      "No hang{}: no two of {} rank{} wait in one operation for longer than {:.0f} s, or its timeout.",
      is_partly ? " in what could be read" : "", nr_ranks, Plural(nr_ranks),
      static_cast<double>(options.threshold_ns) / 1e9);
  if (records.records().empty()) story->Tell("  there is no operation in any of their dumps");
  if (LacksAges(records, options))
    story->Tell(
        "  how long they have waited is not known: dumps do not say when they were written, nor a "
        "timeout; --as-of TIME sets it");
  if (longest_ns > 0)
    story->Tell("  the longest wait is {:.0f} s", static_cast<double>(longest_ns) / 1e9);
  for (size_t i = 0; i < std::min(alone.size(), kMaxTold); i++)
    story->Tell("  but {:.0f} s: {}", static_cast<double>(alone[i].age_ns) / 1e9, alone[i].Headline());
}

// The culprits first: they are what somebody has to go to.
void TellHangs(const NcclRecords& records, const NcclHang* job, const NcclHangOptions& options,
               const EvidenceFn& evidence, Story* story) {
  const std::vector<int32_t> silent = SilentOf(records);
  const auto tell_silent = [&] {
    if (!silent.empty())
      story->Tell("  no readable dump of {}: nothing is known of {}", RanksText(silent),
                  silent.size() == 1 ? "it" : "them");
  };
  if (!job) {
    TellNoHang(records, options, story);
    return tell_silent();
  }
  std::vector<NcclHang> hangs = job->parts;
  if (hangs.empty()) hangs.push_back(*job);
  std::map<int32_t, std::set<uint32_t>> groups_of;  // by culprit
  for (const NcclHang& hang : hangs)
    for (const NcclSuspect& suspect : hang.suspects)
      if (job->culprits->ranks.contains(suspect.rank)) groups_of[suspect.rank].insert(hang.group_index);
  story->Tell("NCCL hang since {}: {} operation{}, of {} ranks with a dump.", Rfc3339(job->earliest_ns),
              hangs.size(), hangs.size() == 1 ? " waits" : "s wait", records.ranks().size());
  const std::set<int32_t>& in_circles = job->culprits->in_circles;
  if (!in_circles.empty() && job->calls.empty())
    story->Tell("  {} wait for each other", RanksText({in_circles.begin(), in_circles.end()}));
  const auto seen = evidence ? EvidenceByRank(hangs, evidence) : std::map<int32_t, RankEvidence>();
  for (const auto& [rank, groups] : groups_of) {
    story->Tell("  rank {} holds up {} process group{}", rank, groups.size(), Plural(groups.size()));
    if (const auto at = seen.find(rank); at != seen.end()) TellEvidence(at->second, story);
  }
  if (groups_of.empty()) story->Tell("  no rank with a dump is behind");
  tell_silent();
  if (options.clock == NcclClock::kDumps)
    story->Tell(
        "  dumps do not say when they were written: the shortest timeout counts as just passed (--as-of "
        "TIME sets it)");
  // Those that a culprit holds up first: the others wait for them, as a rule.
  const auto rank_of = [&](const NcclHang& hang) {
    const bool has_culprit =
        std::any_of(hang.suspects.begin(), hang.suspects.end(),
                    [&](const NcclSuspect& suspect) { return groups_of.contains(suspect.rank); });
    return hang.suspects.empty() ? 2 : has_culprit ? 0 : 1;
  };
  std::stable_sort(hangs.begin(), hangs.end(),
                   [&](const NcclHang& a, const NcclHang& b) { return rank_of(a) < rank_of(b); });
  for (size_t i = 0; i < std::min(hangs.size(), kMaxTold); i++)
    story->Tell("  {:.0f} s: {}", static_cast<double>(hangs[i].age_ns) / 1e9, hangs[i].Headline());
  if (hangs.size() > kMaxTold)
    story->Tell("  ... and {} more (--json has all)", hangs.size() - kMaxTold);
  story->Tell("  what to do: {}", job->Remediation());
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

// As all findings can be told.
void TellOthers(const Findings& findings, Story* story) {
  std::string told;
  for (size_t i = 0; i < std::min(findings.size(), kMaxTold); i++) {
    const Finding& one = *findings[i];
    story->Tell("  {}  {}", MomentText({one.When().begin_ns, 1'000'000'000}), one.Headline());
    for (const std::string& remark : one.Remarks()) story->Tell("      {}", remark);
    if (std::string remedy = one.Remediation(); remedy != told) {
      story->Tell("      what to do: {}", remedy);
      told = std::move(remedy);
    }
  }
  if (findings.size() > kMaxTold)
    story->Tell("  ... and {} more (--json has all)", findings.size() - kMaxTold);
}

// Of that pattern; but evictions that an Xid explains are told with it.
Findings OthersOf(const Pattern& pattern, const Findings& findings,
                  const std::vector<XidCorrelation>& xids) {
  std::set<std::string> told;
  for (const XidCorrelation& one : xids) told.insert(one.eviction.uid);
  Findings others;
  for (const auto& finding : findings) {
    const auto* evicted = As<PodEvicted>(*finding);
    if (&finding->pattern() == &pattern && !(evicted && told.contains(evicted->eviction.uid)))
      others.push_back(finding);
  }
  return others;
}

}  // namespace

std::string DetectStory(const DetectRecords& records, const Findings& findings,
                        const JudgeOptions& options, const EvidenceFn& evidence) {
  Story story;
  const auto hang = AllOf<NcclHang>(findings);  // a job has one
  if (!records.nccl.ranks().empty())
    TellHangs(records.nccl, hang.empty() ? nullptr : &hang[0],
              {options.ThresholdNs(kNcclHang), options.clock, options.as_of_ns}, evidence, &story);
  const auto xids = AllOf<XidCorrelation>(findings);
  if (!xids.empty()) {
    story.Tell("{} Xid{}; {} pod{} evicted soon after one.", records.xids.size(),
               Plural(records.xids.size()), xids.size(), xids.size() == 1 ? " was" : "s were");
    TellXids(xids, &story);
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
  for (const Detector& detector : Detectors()) {
    const Pattern& pattern = *detector.pattern;
    if (&pattern == &kNcclHang || &pattern == &kXidCorrelation) continue;
    const Findings others = OthersOf(pattern, findings, xids);
    if (others.empty()) continue;
    const bool is_rest = &pattern == &kPodEvicted && !xids.empty();
    story.Tell("{} {}{}.", others.size(), is_rest ? "other " : "",
               others.size() == 1 ? pattern.one : pattern.many);
    TellOthers(others, &story);
  }
  std::string text = story.Take();
  return text.empty() ? "Nothing found in it.\n" : text;
}

}  // namespace slotscope
