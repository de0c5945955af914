// SPDX-License-Identifier: MIT
#include "detect/host/host_history.h"

#include <algorithm>

namespace slotscope {

void HostSample::Add(const HostSample& other) {
  for (size_t i = 0; i < values.size(); i++) values[i] += other.values[i];
  unmeasured |= other.unmeasured;
}

void HostHistory::SetRank(const RankNote& note, int64_t since_ns) {
  if (const RankProcess* known = Current(note.tgid); known && known->rank == note.rank) return;
  if (processes_.size() >= kMaxProcesses) {
    const auto last_ns = [](const RankProcess& process) {
      return std::max(process.since_ns, process.last_ns);
    };
    processes_.erase(std::min_element(
        processes_.begin(), processes_.end(),
        [&](const RankProcess& a, const RankProcess& b) { return last_ns(a) < last_ns(b); }));
  }
  RankProcess& process = processes_.emplace_back();
  process.rank = note.rank;
  process.tgid = note.tgid;
  process.comm = note.comm;
  process.since_ns = since_ns;
}

void HostHistory::ForgetEnded(const IsAliveFn& is_alive) {
  if (!keep_ns_) return;
  std::erase_if(processes_, [&](const RankProcess& process) {
    return std::max(process.since_ns, process.last_ns) < end_ns_ - keep_ns_ &&
           !is_alive(process.tgid, process.start_time_ns);
  });
}

bool HostHistory::IsRank(int32_t tgid) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const RankProcess& process) { return process.tgid == tgid; });
}

void HostHistory::OnSlot(int64_t start_ns, int64_t slot_ns) {
  first_ns_ = std::min(first_ns_, start_ns);
  // Unix time is set, by a little all the time.
  if (end_ns_ && start_ns > end_ns_ + slot_ns) {
    gaps_.emplace_back(end_ns_, start_ns);
    if (gaps_.size() > kMaxGaps) gaps_.pop_front();
  }
  end_ns_ = std::max(end_ns_, start_ns + slot_ns);
  if (!keep_ns_) return;
  while (!lost_.empty() && lost_.front().first < end_ns_ - keep_ns_) lost_.pop_front();
  for (RankProcess& process : processes_) {
    auto& samples = process.samples;
    while (!samples.empty() && samples.front().start_ns < end_ns_ - keep_ns_) samples.pop_front();
    auto& ran_instead = process.ran_instead;
    while (!ran_instead.empty() && ran_instead.front().start_ns < end_ns_ - keep_ns_)
      ran_instead.pop_front();
  }
}

// Of a process id the one that was said last.
RankProcess* HostHistory::Current(int32_t tgid) {
  for (auto process = processes_.rbegin(); process != processes_.rend(); ++process)
    if (process->tgid == tgid) return &*process;
  return nullptr;
}

std::pair<int64_t, int64_t> HostHistory::WantedSpan() const {
  using Limits = std::numeric_limits<int64_t>;
  if (wanted_.empty()) return {Limits::min(), Limits::max()};
  std::pair span = {Limits::max(), Limits::min()};
  for (int64_t wanted_ns : wanted_) {
    const auto [from_ns, to_ns] = EvidenceSpan(wanted_ns, bucket_ns_);
    span = {std::min(span.first, from_ns), std::max(span.second, to_ns)};
  }
  return span;
}

bool HostHistory::IsWanted(int64_t at_ns) const {
  return wanted_.empty() || std::any_of(wanted_.begin(), wanted_.end(), [&](int64_t wanted_ns) {
           const auto [from_ns, to_ns] = EvidenceSpan(wanted_ns, bucket_ns_);
           return from_ns <= at_ns && at_ns < to_ns;
         });
}

void HostHistory::Add(int32_t tgid, uint64_t start_time_ns, std::string_view comm,
                      const HostSample& sample) {
  RankProcess* process = Current(tgid);
  if (!process) return;
  if (process->start_time_ns == 0) process->start_time_ns = start_time_ns;
  // Another process has got the number since.
  if (process->start_time_ns != start_time_ns) return;
  if (!comm.empty()) process->comm = comm;
  process->last_ns = sample.start_ns;
  if (!IsWanted(sample.start_ns)) return;
  auto& samples = process->samples;
  if (!samples.empty() && samples.back().start_ns / bucket_ns_ == sample.start_ns / bucket_ns_)
    samples.back().Add(sample);
  else
    samples.push_back(sample);
}

void HostHistory::AddRanInstead(int32_t waiter_tgid, HostRanInstead ran) {
  RankProcess* process = Current(waiter_tgid);
  if (!process || !IsWanted(ran.start_ns)) return;
  auto& all = process->ran_instead;
  // The same one in the same bucket.
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->start_ns / bucket_ns_ != ran.start_ns / bucket_ns_) break;
    if (one->tgid != ran.tgid) continue;
    one->ns += ran.ns;
    return;
  }
  constexpr size_t kMaxRanInstead = 100'000;
  if (all.size() >= kMaxRanInstead) all.pop_front();
  all.push_back(std::move(ran));
}

void HostHistory::OnLost(int64_t start_ns, uint64_t ns) {
  if (ns == 0 || !IsWanted(start_ns)) return;
  if (!lost_.empty() && lost_.back().first / bucket_ns_ == start_ns / bucket_ns_)
    lost_.back().second += ns;
  else
    lost_.emplace_back(start_ns, ns);
}

uint64_t HostHistory::LostNs(int64_t from_ns, int64_t to_ns) const {
  uint64_t sum = 0;
  for (const auto& [start_ns, ns] : lost_)
    if (from_ns <= start_ns && start_ns < to_ns) sum += ns;
  return sum;
}

const RankProcess* HostHistory::Find(int32_t rank, int64_t at_ns) const {
  const RankProcess* found = nullptr;
  for (const RankProcess& process : processes_) {
    if (process.rank != rank) continue;
    // It was that rank before a recording noticed it.
    if (!found || process.since_ns <= at_ns) found = &process;
  }
  return found;
}

}  // namespace slotscope
