// SPDX-License-Identifier: MIT
#include "detect/host/host_evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "detect/inputs/timestamp.h"
#include "slots/wait_row.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRanks = 64;  // of each role
// Around the moment, one by one.
constexpr int64_t kShownBefore = 16;
constexpr int64_t kShownAfter = 48;
constexpr size_t kMaxRanInstead = 10;

double Rounded(uint64_t ns, double unit) {
  return std::round(static_cast<double>(ns) / unit * 1000) / 1000;
}

// The first `nr` values that were measured; times in another unit, which their names then end in.
void PutValues(const HostSample& sample, size_t nr, double unit, const char* suffix, Json* to) {
  for (size_t i = 0; i < nr; i++) {
    if (sample.unmeasured >> i & 1) continue;
    std::string name(kHostColumns[i]->name);
    if (kHostColumns[i]->unit == Unit::kNs)
      (*to)[name.substr(0, name.size() - 2) + suffix] = Rounded(sample.values[i], unit);
    else
      (*to)[name] = sample.values[i];
  }
}

std::vector<HostRanInstead> RanInsteadOf(const RankProcess& process, int64_t from_ns, int64_t to_ns) {
  std::map<int32_t, HostRanInstead> by_tgid;
  for (const HostRanInstead& one : process.ran_instead) {
    if (one.start_ns < from_ns || one.start_ns >= to_ns) continue;
    HostRanInstead& sum = by_tgid[one.tgid];
    sum.tgid = one.tgid;
    if (sum.comm.empty()) sum.comm = one.comm;
    sum.ns += one.ns;
  }
  std::vector<HostRanInstead> all;
  for (auto& [tgid, sum] : by_tgid) all.push_back(std::move(sum));
  std::stable_sort(all.begin(), all.end(),
                   [](const HostRanInstead& a, const HostRanInstead& b) { return a.ns > b.ns; });
  if (all.size() > kMaxRanInstead) all.resize(kMaxRanInstead);
  return all;
}

RankState StateOf(const RankProcess& process, const HostSample& after, int64_t at_ns, int64_t to_ns,
                  const IsAliveFn& is_alive) {
  const auto known = [&](HostValue value) {
    return after.unmeasured >> value & 1 ? 0 : after.values[value];
  };
  const uint64_t half = static_cast<uint64_t>(std::max<int64_t>(to_ns - at_ns, 2)) / 2;
  const uint64_t cpu_ns = known(kHostCpuNs), wait_ns = known(kHostWaitNs);
  if (cpu_ns >= half) return RankState::kOnCpu;  // also if several threads wait, which adds up
  if (wait_ns >= half) return RankState::kWaiting;
  // Who shares a CPU with others has half of the time in neither alone.
  if (cpu_ns + wait_ns >= half) return cpu_ns >= wait_ns ? RankState::kOnCpu : RankState::kWaiting;
  if (process.last_ns < at_ns && is_alive && !is_alive(process.tgid, process.start_time_ns))
    return RankState::kGone;
  // It has run since, so it was there; or somebody sees that it is.
  if (process.last_ns >= to_ns || after.values[kHostCpuNs] > 0) return RankState::kAsleep;
  return is_alive && is_alive(process.tgid, process.start_time_ns) ? RankState::kAsleep
                                                                   : RankState::kSilent;
}

RankEvidence EvidenceOf(const HostHistory& history, int32_t rank, bool is_suspect, int64_t at_ns,
                        const IsAliveFn& is_alive) {
  RankEvidence seen;
  seen.rank = rank;
  seen.is_suspect = is_suspect;
  const auto unknown = [&](const char* reason) {
    RankEvidence nothing;
    nothing.rank = rank;
    nothing.is_suspect = is_suspect;
    nothing.reason = reason;
    return nothing;
  };
  const RankProcess* process = history.Find(rank, at_ns);
  if (!process) return unknown("no process of this rank is known to this host's recording");
  if (!history.Covers(at_ns)) return unknown("the recording has nothing of that moment");
  seen.slot_ns = history.bucket_ns();
  std::tie(seen.from_ns, seen.to_ns) = EvidenceSpan(at_ns, seen.slot_ns);
  seen.to_ns = std::min(seen.to_ns, history.end_ns());
  bool has_any = false;
  HostSample after;
  for (const HostSample& sample : process->samples) {
    if (sample.start_ns < seen.from_ns || sample.start_ns >= seen.to_ns) continue;
    has_any = true;
    if (sample.values[kHostCpuNs] > 0) seen.last_on_cpu_ns = sample.start_ns;
    seen.sums.Add(sample);
    if (sample.start_ns + seen.slot_ns > at_ns) after.Add(sample);
    if (sample.start_ns >= at_ns - kShownBefore * seen.slot_ns &&
        sample.start_ns < at_ns + kShownAfter * seen.slot_ns)
      seen.slots.push_back(sample);
  }
  if (!has_any && at_ns < process->since_ns) return unknown("it was not known yet which process it is");
  // Rows that were folded into others would look as if there had been nothing.
  for (int64_t folded_ns : history.folded()) {
    if (folded_ns < seen.from_ns || folded_ns >= seen.to_ns) continue;
    const auto at =
        std::upper_bound(process->samples.begin(), process->samples.end(), folded_ns,
                         [](int64_t ns, const HostSample& sample) { return ns < sample.start_ns; });
    if (at == process->samples.begin() || std::prev(at)->start_ns + seen.slot_ns <= folded_ns)
      return unknown("its rows are not all there (--pid, --comm, --top, or a COMMAND's without --all)");
  }
  seen.state = StateOf(*process, after, at_ns, seen.to_ns, is_alive);
  seen.tgid = process->tgid;
  seen.comm = process->comm;
  // Without a row there was no time on a CPU, and none waiting for one; of the rest it says nothing.
  if (!has_any)
    for (size_t i = 0; i < kHostColumns.size(); i++)
      seen.sums.unmeasured |= uint32_t{kHostColumns[i]->part != RowPart::kSums} << i;
  // Some of that may be this process's: what stands in the sums is the least.
  seen.lost_ns = history.LostNs(seen.from_ns, seen.to_ns);
  seen.ran_instead = RanInsteadOf(*process, seen.from_ns, seen.to_ns);
  return seen;
}

constexpr std::array<const char*, 6> kStateNames = {"unknown", "on_cpu", "waiting",
                                                    "asleep",  "silent", "gone"};

Json RanJson(const HostRanInstead& ran) {
  Json one = {{"pid", ran.tgid}};
  if (!ran.comm.empty()) one["comm"] = ran.comm;
  one["ms"] = Rounded(ran.ns, 1e6);
  return one;
}

bool HasCulprit(const RankEvidence& seen) {
  if (seen.wait_cause() != "others" || seen.ran_instead.empty()) return false;
  return IsCulprit(static_cast<uint64_t>(seen.to_ns - seen.from_ns), seen.sums.values[kHostWaitNs],
                   seen.sums.values[kHostWaitOthers], seen.ran_instead.front().ns);
}

Json ObjectOf(const RankEvidence& seen) {
  Json json = {{"rank", seen.rank},
               {"role", seen.is_suspect ? "suspect" : "hanging"},
               {"state", kStateNames[static_cast<size_t>(seen.state)]}};
  if (seen.state == RankState::kUnknown) {
    json["reason"] = seen.reason;
    return json;
  }
  json["pid"] = seen.tgid;
  if (!seen.comm.empty()) json["comm"] = seen.comm;
  json["from"] = MomentText({seen.from_ns, 1000});
  json["to"] = MomentText({seen.to_ns, 1000});
  json["slot_ms"] = Rounded(static_cast<uint64_t>(seen.slot_ns), 1e6);
  if (seen.last_on_cpu_ns) json["last_on_cpu_at"] = MomentText({seen.last_on_cpu_ns, 1000});
  PutValues(seen.sums, kHostColumns.size(), 1e6, "ms", &json);
  if (seen.lost_ns) json["lost_ms"] = Rounded(seen.lost_ns, 1e6);
  if (!seen.wait_cause().empty()) json["wait_cause"] = seen.wait_cause();
  for (const HostRanInstead& ran : seen.ran_instead) json["ran_instead"].push_back(RanJson(ran));
  if (HasCulprit(seen)) json["culprit"] = RanJson(seen.ran_instead.front());
  Json slots = Json::array();
  for (const HostSample& sample : seen.slots) {
    Json one = {{"at", MomentText({sample.start_ns, 1000})}};
    PutValues(sample, kFirstLater, 1e3, "us", &one);
    slots.push_back(std::move(one));
  }
  json["slots"] = std::move(slots);
  return json;
}

}  // namespace

std::string_view RankEvidence::wait_cause() const {
  const auto cause = MainCause(&sums.values[kFirstCause], sums.values[kHostWaitNs]);
  return cause ? kWaitCauseNames[*cause] : std::string_view();
}

std::vector<RankEvidence> HostEvidenceOf(const HostHistory& history, const NcclHang& hang,
                                         const IsAliveFn& is_alive) {
  std::vector<RankEvidence> list;
  for (size_t i = 0; i < std::min(hang.suspects.size(), kMaxRanks); i++)
    list.push_back(EvidenceOf(history, hang.suspects[i].rank, true, hang.earliest_ns, is_alive));
  for (size_t i = 0; i < std::min(hang.hanging_ranks.size(), kMaxRanks); i++) {
    const int32_t rank = hang.hanging_ranks[i];
    const bool is_told = std::any_of(hang.suspects.begin(), hang.suspects.end(),
                                     [&](const NcclSuspect& suspect) { return suspect.rank == rank; });
    if (!is_told) list.push_back(EvidenceOf(history, rank, false, hang.since_ns[i], is_alive));
  }
  return list;
}

Json HostEvidenceJson(const std::vector<RankEvidence>& evidence) {
  Json list = Json::array();
  for (const RankEvidence& seen : evidence) list.push_back(ObjectOf(seen));
  return list;
}

}  // namespace slotscope
