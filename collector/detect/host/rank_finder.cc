// SPDX-License-Identifier: MIT
#include "detect/host/rank_finder.h"

#include <fmt/core.h>

#include <set>
#include <utility>

#include "base/bounded_file.h"
#include "base/proc.h"
#include "base/scan.h"

namespace slotscope {
namespace {

constexpr int32_t kMaxRank = 10'000'000;
// A process that is young may yet become another program, with another environment.
constexpr uint32_t kYoungScans = 10;

bool UsesCuda(int32_t tgid) {
  constexpr size_t kMaxBytes = 64u << 20;  // libraries stand at the end
  bool is_there = false;
  (void)ForEachProcLine(fmt::format("/proc/{}/maps", tgid), kMaxBytes, [&](std::string_view line) {
    is_there = line.find("/libcuda") != line.npos;
    return !is_there;
  });
  return is_there;
}

}  // namespace

std::optional<int32_t> RankOfEnvironment(std::string_view environment) {
  // The first of these that is there counts.
  for (std::string_view name :
       {"RANK=", "OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK=", "SLURM_PROCID="}) {
    std::string_view rest = environment;
    while (!rest.empty()) {
      std::string_view one = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (!one.starts_with(name)) continue;
      one.remove_prefix(name.size());
      const auto rank = NumberOf<int32_t>(one);
      if (rank && *rank >= 0 && *rank <= kMaxRank) return rank;
    }
  }
  return {};
}

RankChoice ChooseRanks(const std::map<int32_t, RankCandidate>& candidates) {
  std::set<int32_t> uses_cuda;  // ranks
  for (const auto& [tgid, one] : candidates)
    if (one.uses_cuda) uses_cuda.insert(one.rank);
  const auto counts = [&](const RankCandidate& one) {
    return one.uses_cuda || !uses_cuda.contains(one.rank);
  };
  std::map<int32_t, std::vector<int32_t>> first;  // tgids by rank
  for (const auto& [tgid, one] : candidates) {
    if (!counts(one)) continue;
    const auto parent = candidates.find(one.parent);
    if (parent == candidates.end() || parent->second.rank != one.rank || !counts(parent->second))
      first[one.rank].push_back(tgid);
  }
  RankChoice choice;
  for (auto& [rank, tgids] : first)
    if (tgids.size() == 1)
      choice.chosen[rank] = tgids[0];
    else
      choice.disputed[rank] = std::move(tgids);
  return choice;
}

std::vector<RankNote> RankFinder::Scan() {
  std::map<int32_t, Process> processes;
  std::map<int32_t, RankCandidate> candidates;
  for (int32_t tgid : ListProcesses()) {
    Process process;
    process.start_ticks = ReadStartTicks(tgid);
    if (process.start_ticks == 0) continue;
    if (const auto known = processes_.find(tgid);
        known != processes_.end() && known->second.start_ticks == process.start_ticks)
      process = known->second;
    if (process.nr_scans < kYoungScans) {
      process.nr_scans++;
      process.rank = RankOfEnvironment(ReadEnvironment(tgid));
    }
    if (process.rank) {
      process.uses_cuda = process.uses_cuda || UsesCuda(tgid);
      candidates[tgid] = {ReadParent(tgid), *process.rank, process.uses_cuda};
    }
    processes.emplace(tgid, process);
  }
  processes_ = std::move(processes);
  std::erase_if(told_, [&](const auto& told) { return !processes_.contains(told.second); });
  std::vector<RankNote> news;
  RankChoice choice = ChooseRanks(candidates);
  for (const auto& [rank, tgids] : choice.disputed) {
    if (const auto known = disputed_.find(rank); known != disputed_.end() && known->second == tgids)
      continue;
    disputes_.push_back(fmt::format(
        "{} processes say that they are rank {}, among them {} ({}) and {} ({}): which of them it is is "
        "not known, and evidence of hangs goes without it",
        tgids.size(), rank, tgids[0], ReadComm(tgids[0]), tgids[1], ReadComm(tgids[1])));
  }
  disputed_ = std::move(choice.disputed);
  for (const auto& [rank, tgid] : choice.chosen) {
    const auto [at, is_new] = told_.try_emplace(rank, tgid);
    if (!is_new && at->second == tgid) continue;
    at->second = tgid;
    news.push_back({rank, tgid, ReadComm(tgid)});
  }
  return news;
}

}  // namespace slotscope
