// SPDX-License-Identifier: MIT
#include "detect/host/host_evidence.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRanks = 64;  // of each role
// Around the moment, one by one.
constexpr int64_t kShownBefore = 16;
constexpr int64_t kShownAfter = 48;
constexpr size_t kMaxPreemptors = 10;

double Rounded(uint64_t ns, double unit) {
  return std::round(static_cast<double>(ns) / unit * 1000) / 1000;
}

// Values that were measured; times in another unit, which their names then end in.
void PutValues(const HostSample& sample, double unit, const char* suffix, Json* to) {
  for (size_t i = 0; i < kHostColumns.size(); i++) {
    if (sample.unmeasured >> i & 1) continue;
    std::string name(kHostColumns[i]->name);
    if (kHostColumns[i]->unit == Unit::kNs)
      (*to)[name.substr(0, name.size() - 2) + suffix] = Rounded(sample.values[i], unit);
    else
      (*to)[name] = sample.values[i];
  }
}

Json PreemptorsOf(const RankProcess& process, int64_t from_ns, int64_t to_ns) {
  std::map<int32_t, HostPreemption> by_tgid;
  for (const HostPreemption& one : process.preemptions) {
    if (one.start_ns < from_ns || one.start_ns >= to_ns) continue;
    HostPreemption& sum = by_tgid[one.tgid];
    sum.tgid = one.tgid;
    if (sum.comm.empty()) sum.comm = one.comm;
    sum.nr += one.nr;
    sum.ns += one.ns;
  }
  std::vector<HostPreemption> all;
  for (auto& [tgid, sum] : by_tgid) all.push_back(std::move(sum));
  std::stable_sort(all.begin(), all.end(),
                   [](const HostPreemption& a, const HostPreemption& b) { return a.ns > b.ns; });
  Json list = Json::array();
  for (size_t i = 0; i < std::min(all.size(), kMaxPreemptors); i++) {
    Json one = {{"pid", all[i].tgid}};
    if (!all[i].comm.empty()) one["comm"] = all[i].comm;
    one["times"] = all[i].nr;
    one["ms"] = Rounded(all[i].ns, 1e6);
    list.push_back(std::move(one));
  }
  return list;
}

// What it did from the moment on.
const char* StateOf(const RankProcess& process, const HostSample& after, int64_t at_ns, int64_t to_ns,
                    const IsAliveFn& is_alive) {
  const bool knows_cpu = !(after.unmeasured >> kHostCpuNs & 1);
  const bool knows_wait = !(after.unmeasured >> kHostWaitNs & 1);
  const uint64_t half = static_cast<uint64_t>(std::max<int64_t>(to_ns - at_ns, 2)) / 2;
  if (knows_cpu && after.values[kHostCpuNs] >= half) return "on_cpu";
  if (knows_wait && after.values[kHostWaitNs] >= half) return "waiting";
  if (process.last_ns < at_ns && is_alive && !is_alive(process.tgid, process.start_time_ns))
    return "gone";
  // It has run since, so it was there; or somebody sees that it is.
  if (process.last_ns >= to_ns || after.values[kHostCpuNs] > 0) return "asleep";
  return is_alive && is_alive(process.tgid, process.start_time_ns) ? "asleep" : "silent";
}

Json EvidenceOf(const HostHistory& history, int32_t rank, const char* role, int64_t at_ns,
                const IsAliveFn& is_alive) {
  Json json = {{"rank", rank}, {"role", role}};
  const auto unknown = [&](const char* reason) {
    json["state"] = "unknown";
    json["reason"] = reason;
    return json;
  };
  const RankProcess* process = history.Find(rank, at_ns);
  if (!process) return unknown("no process of this rank is known to this host's recording");
  if (!history.Covers(at_ns)) return unknown("the recording does not go back, or on, to that moment");
  const int64_t bucket_ns = history.bucket_ns();
  auto [from_ns, to_ns] = EvidenceSpan(at_ns, bucket_ns);
  to_ns = std::min(to_ns, history.end_ns());
  HostSample all, after;
  bool has_any = false;
  int64_t last_on_cpu_ns = 0;
  Json slots = Json::array();
  for (const HostSample& sample : process->samples) {
    if (sample.start_ns < from_ns || sample.start_ns >= to_ns) continue;
    has_any = true;
    if (sample.values[kHostCpuNs] > 0) last_on_cpu_ns = sample.start_ns;
    all.Add(sample);
    if (sample.start_ns + bucket_ns > at_ns) after.Add(sample);
    if (sample.start_ns < at_ns - kShownBefore * bucket_ns ||
        sample.start_ns >= at_ns + kShownAfter * bucket_ns)
      continue;
    Json one = {{"at", MomentText({sample.start_ns, 1000})}};
    PutValues(sample, 1e3, "us", &one);
    slots.push_back(std::move(one));
  }
  if (!has_any && at_ns < process->since_ns) return unknown("it was not known yet which process it is");
  // Rows that were folded into others would look as if there had been nothing.
  for (int64_t folded_ns : history.folded()) {
    if (folded_ns < from_ns || folded_ns >= to_ns) continue;
    const auto at =
        std::upper_bound(process->samples.begin(), process->samples.end(), folded_ns,
                         [](int64_t ns, const HostSample& sample) { return ns < sample.start_ns; });
    if (at == process->samples.begin() || std::prev(at)->start_ns + bucket_ns <= folded_ns)
      return unknown("its rows are not all there (--pid, --comm, --top, or a COMMAND's without --all)");
  }
  json["state"] = StateOf(*process, after, at_ns, to_ns, is_alive);
  json["pid"] = process->tgid;
  if (!process->comm.empty()) json["comm"] = process->comm;
  json["from"] = MomentText({from_ns, 1000});
  json["to"] = MomentText({to_ns, 1000});
  json["slot_ms"] = Rounded(static_cast<uint64_t>(bucket_ns), 1e6);
  if (last_on_cpu_ns) json["last_on_cpu_at"] = MomentText({last_on_cpu_ns, 1000});
  // Without a row there was no time on a CPU, and none waiting for one; of the rest it says nothing.
  if (!has_any)
    for (size_t i = 0; i < kHostColumns.size(); i++)
      all.unmeasured |= uint32_t{kHostColumns[i]->part != RowPart::kSums} << i;
  PutValues(all, 1e6, "ms", &json);
  // Some of that may be this process's: what stands above is the least.
  if (const uint64_t lost_ns = history.LostNs(from_ns, to_ns)) json["lost_ms"] = Rounded(lost_ns, 1e6);
  if (Json preemptors = PreemptorsOf(*process, from_ns, to_ns); !preemptors.empty())
    json["preempted_by"] = std::move(preemptors);
  json["slots"] = std::move(slots);
  return json;
}

}  // namespace

Json HostEvidenceOf(const HostHistory& history, const NcclHang& hang, const IsAliveFn& is_alive) {
  Json list = Json::array();
  for (size_t i = 0; i < std::min(hang.suspects.size(), kMaxRanks); i++)
    list.push_back(EvidenceOf(history, hang.suspects[i].rank, "suspect", hang.earliest_ns, is_alive));
  for (size_t i = 0; i < std::min(hang.hanging_ranks.size(), kMaxRanks); i++) {
    const int32_t rank = hang.hanging_ranks[i];
    const bool is_told = std::any_of(hang.suspects.begin(), hang.suspects.end(),
                                     [&](const NcclSuspect& suspect) { return suspect.rank == rank; });
    if (!is_told) list.push_back(EvidenceOf(history, rank, "hanging", hang.since_ns[i], is_alive));
  }
  return list;
}

}  // namespace slotscope
