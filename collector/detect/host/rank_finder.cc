// SPDX-License-Identifier: MIT
#include "detect/host/rank_finder.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/bounded_file.h"
#include "base/clock.h"
#include "base/escape.h"
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

// Whose processes count together: a user's; of root's, which those of most containers are, a cgroup's.
// (A user may make cgroups of his own, root in a container cannot.)
std::string OwnerOf(int32_t tgid) {
  uint32_t uid = 0;
  (void)ForEachProcLine(fmt::format("/proc/{}/status", tgid), 64u << 10, [&](std::string_view line) {
    return !TakeText(&line, "Uid:\t") || !TakeNumber(&line, &uid);
  });
  if (uid != 0) return fmt::format("user {}", uid);
  std::string cgroup;
  (void)ForEachProcLine(fmt::format("/proc/{}/cgroup", tgid), 64u << 10, [&](std::string_view line) {
    cgroup = line.substr(line.rfind(':') + 1);
    return false;
  });
  return fmt::format("root in cgroup {}", cgroup);
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

// Those of which more is to be known.
void RankFinder::LookAtAll() {
  std::vector<std::pair<uint64_t, int32_t>> all;  // what it took, tgid
  for (const auto& [tgid, process] : processes_)
    if (process.nr_scans < kYoungScans || (process.rank && !process.uses_cuda))
      all.emplace_back(process.took_ns, tgid);
  std::sort(all.begin(), all.end());
  const uint64_t begun_ns = MonotonicNs();
  uint64_t now_ns = begun_ns;
  for (const auto& [before, tgid] : all) {
    Process& process = processes_[tgid];
    LookAt(tgid, &process);
    process.took_ns = MonotonicNs() - now_ns;
    now_ns += process.took_ns;
    if (now_ns - begun_ns >= most_ns_) return;
  }
}

void RankFinder::LookAt(int32_t tgid, Process* process) {
  if (process->nr_scans < kYoungScans) {
    process->nr_scans++;
    process->rank = RankOfEnvironment(ReadEnvironment(tgid));
    process->owner = process->rank ? OwnerOf(tgid) : "";
  }
  if (process->rank && !process->uses_cuda) process->uses_cuda = UsesCuda(tgid);
}

std::map<int32_t, RankCandidate> RankFinder::Candidates(uint64_t now_ns) {
  std::map<std::string, std::vector<std::pair<uint64_t, int32_t>>> by_owner;  // start, tgid
  for (const auto& [tgid, process] : processes_)
    if (process.rank) by_owner[process.owner].emplace_back(process.start_ticks, tgid);
  std::map<int32_t, RankCandidate> candidates;
  for (auto& [owner, all] : by_owner) {
    std::sort(all.begin(), all.end());
    if (all.size() <= kMostOfOwner)
      too_many_.erase(owner);
    else if (too_many_.insert(owner).second)
      TellProblem(fmt::format("{} processes of {} say that they are ranks of a job; the {} that began "
                              "first are believed",
                              all.size(), EscapeControls(owner), kMostOfOwner),
                  now_ns);
    all.resize(std::min(all.size(), kMostOfOwner));
    for (const auto& [start, tgid] : all) {
      const Process& process = processes_[tgid];
      candidates[tgid] = {ReadParent(tgid), *process.rank, process.uses_cuda};
    }
  }
  std::erase_if(too_many_, [&](const std::string& owner) { return !by_owner.contains(owner); });
  return candidates;
}

void RankFinder::TellProblem(std::string text, uint64_t now_ns) {
  if (problem_rate_.Take(now_ns)) problems_.push_back(std::move(text));
}

void RankFinder::TellDisputes(RankChoice* choice, uint64_t now_ns) {
  for (const auto& [rank, tgids] : choice->disputed) {
    if (const auto known = disputed_.find(rank); known != disputed_.end() && known->second == tgids)
      continue;
    TellProblem(
        fmt::format("{} processes say that they are rank {}, among them {} ({}) and {} ({}): "
                    "which of them it is is not known, and evidence of hangs goes without it",
                    tgids.size(), rank, tgids[0], ReadComm(tgids[0]), tgids[1], ReadComm(tgids[1])),
        now_ns);
  }
  disputed_ = std::move(choice->disputed);
}

std::vector<std::string> RankFinder::Scan(uint64_t now_ns) {
  std::map<int32_t, Process> processes;
  for (const int32_t tgid : ListProcesses()) {
    Process process;
    process.start_ticks = ReadStartTicks(tgid);
    if (process.start_ticks == 0) continue;
    if (const auto known = processes_.find(tgid);
        known != processes_.end() && known->second.start_ticks == process.start_ticks)
      process = std::move(known->second);
    processes.emplace(tgid, std::move(process));
  }
  processes_ = std::move(processes);
  LookAtAll();
  std::vector<std::string> news;
  std::erase_if(told_, [&](const auto& told) {
    const auto process = processes_.find(told.first);
    if (process != processes_.end() && process->second.start_ticks == told.second.start_ticks)
      return false;
    news.push_back(RankEndText(told.second.note));
    return true;
  });
  RankChoice choice = ChooseRanks(Candidates(now_ns));
  TellDisputes(&choice, now_ns);
  std::erase_if(rates_, [&](auto& rate) { return rate.second.IsRested(now_ns); });
  for (const auto& [rank, tgid] : choice.chosen) {
    const auto told = told_.find(tgid);
    if (told != told_.end() && told->second.note.rank == rank) continue;
    const Process& process = processes_[tgid];
    if (!rates_.try_emplace(process.owner, 128, 30'000'000'000).first->second.Take(now_ns)) continue;
    const RankNote note = {rank, tgid, ReadComm(tgid)};
    told_[tgid] = {note, process.start_ticks};
    news.push_back(RankNoteText(note));
  }
  return news;
}

}  // namespace slotscope
