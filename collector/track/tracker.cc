// SPDX-License-Identifier: MIT
#include "track/tracker.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "base/trim.h"

namespace slotscope {
namespace {

// So many places of processes that have gone do no harm.
constexpr size_t kMinGone = 64;

}  // namespace

Tracker::Tracker(uint64_t keep_dead_ns)
    : keep_dead_ns_(keep_dead_ns), hints_(kNrRmidHints + kNrTgidHints, kNoProcess) {}

void Tracker::Alloc(uint32_t rmid, uint32_t generation, ProcessKey owner, uint64_t ts_ns) {
  Queue({ts_ns, Kind::kAlloc, rmid, generation, owner, 0, {}});
}

void Tracker::Free(uint32_t rmid, uint32_t generation, bool ended, uint64_t ts_ns) {
  Queue({ts_ns, ended ? Kind::kFree : Kind::kTakenBack, rmid, generation, {}, 0, {}});
}

void Tracker::Meta(const ss_task_meta& meta, uint64_t ts_ns) {
  Queue({ts_ns, Kind::kMeta, 0, 0, {meta.tgid, meta.start_time_ns}, 0, meta});
}

void Tracker::MoveToCgroup(ProcessKey process, uint64_t cgroup_id, uint64_t ts_ns) {
  ss_task_meta meta = {};
  meta.cgroup_id = cgroup_id;
  Queue({ts_ns, Kind::kCgroup, 0, 0, process, 0, meta});
}

void Tracker::Existing(uint32_t rmid, uint32_t generation, ProcessKey owner, uint64_t ts_ns) {
  Queue({ts_ns, Kind::kExisting, rmid, generation, owner, 0, {}});
}

void Tracker::DumpEnd(uint64_t begin_ns, uint64_t ts_ns) {
  Queue({ts_ns, Kind::kDumpEnd, 0, 0, {}, begin_ns, {}});
}

// Mostly they come in their order.
void Tracker::Queue(const Change& change) {
  if (arrived_.empty() && (queue_.empty() || !IsBefore(change.ts_ns, queue_.back().ts_ns)))
    queue_.push_back(change);
  else
    arrived_.push_back(change);
}

void Tracker::SortArrived() {
  auto earlier = [](const Change& a, const Change& b) { return IsBefore(a.ts_ns, b.ts_ns); };
  if (!std::is_sorted(arrived_.begin(), arrived_.end(), earlier))
    std::stable_sort(arrived_.begin(), arrived_.end(), earlier);
  const bool overlap = !queue_.empty() && earlier(arrived_.front(), queue_.back());
  auto nr_sorted = static_cast<ptrdiff_t>(queue_.size());
  queue_.insert(queue_.end(), arrived_.begin(), arrived_.end());
  if (overlap) std::inplace_merge(queue_.begin(), queue_.begin() + nr_sorted, queue_.end(), earlier);
  arrived_.clear();
}

void Tracker::Advance(uint64_t ts_ns) {
  if (!arrived_.empty()) SortArrived();
  while (!queue_.empty() && !IsBefore(ts_ns, queue_.front().ts_ns)) {
    Apply(queue_.front());
    queue_.pop_front();
  }
  if (!past_rmids_.empty()) ForgetPastRmids(ts_ns);
  if (!deaths_.empty()) ForgetDead(ts_ns);
  if (free_ids_.size() > kTrimStep + processes_.size() / 2) Trim(ts_ns);
}

// Only what is behind the first one that is new changes: a new tgid is often the largest.
const std::vector<uint32_t>& Tracker::Ranks() {
  const bool crowded = nr_gone_ > kMinGone + order_.size() / 2;
  if (made_.empty() && !crowded) return ranks_;
  const auto earlier = [](const Place& a, const Place& b) { return a.key < b.key; };
  std::erase_if(made_, [&](const Place& place) { return keys_[place.process] != place.key; });
  std::sort(made_.begin(), made_.end(), earlier);
  made_.erase(std::unique(made_.begin(), made_.end(),
                          [](const Place& a, const Place& b) { return a.key == b.key; }),
              made_.end());
  auto first = order_.begin();
  if (!crowded)
    first = made_.empty() ? order_.end()
                          : std::lower_bound(order_.begin(), order_.end(), made_.front(), earlier);
  behind_.clear();
  std::copy_if(first, order_.end(), std::back_inserter(behind_),
               [](const Place& place) { return place.process != kNoProcess; });
  nr_gone_ -= static_cast<size_t>(order_.end() - first) - behind_.size();
  auto rank = static_cast<uint32_t>(first - order_.begin());
  order_.resize(rank + behind_.size() + made_.size());
  std::merge(behind_.begin(), behind_.end(), made_.begin(), made_.end(), order_.begin() + rank, earlier);
  ranks_.resize(processes_.size(), kNoProcess);
  for (; rank < order_.size(); rank++) ranks_[order_[rank].process] = rank;
  made_.clear();
  return ranks_;
}

void Tracker::LeaveRanks(uint32_t id) {
  if (id >= ranks_.size() || ranks_[id] == kNoProcess) return;
  order_[std::exchange(ranks_[id], kNoProcess)].process = kNoProcess;
  nr_gone_++;
}

void Tracker::Apply(const Change& change) {
  switch (change.kind) {
    case Kind::kAlloc:
    case Kind::kExisting:
      ApplyAlloc(change);
      break;
    case Kind::kFree:
    case Kind::kTakenBack:
      ApplyFree(change);
      break;
    case Kind::kMeta:
      ApplyMeta(change);
      break;
    case Kind::kCgroup:
      ApplyCgroup(change);
      break;
    case Kind::kDumpEnd:
      ApplyDumpEnd(change);
      break;
  }
}

Tracker::Lease* Tracker::FindLease(uint32_t rmid) {
  if (rmid == 0 || rmid >= kMaxRmid) return nullptr;
  if (rmid >= leases_.size()) leases_.resize(rmid + 1);
  return &leases_[rmid];
}

void Tracker::ApplyAlloc(const Change& change) {
  Lease* lease = FindLease(change.rmid);
  if (!lease) return;
  const uint64_t rmid_ns = change.kind == Kind::kAlloc ? change.ts_ns : 0;
  bool newer = !lease->known || static_cast<int32_t>(change.generation - lease->generation) > 0;
  if (!newer) {
    if (change.kind == Kind::kAlloc)
      stats_.nr_duplicate_allocs++;
    else if (lease->live && lease->generation == change.generation &&
             keys_[lease->process] == lease->key)
      Touch(lease->process, change.ts_ns);  // not news, but its owner is alive
    if (lease->generation == change.generation) {
      if (change.kind == Kind::kAlloc && keys_[lease->process] == change.key)
        processes_[lease->process].rmid_ns = change.ts_ns;
      return;
    }
    // So late that the RMID has another owner by now. What it counted before still needs this one.
    uint32_t id = Find(change.key, change.ts_ns);
    SetRmid(id, change.rmid, change.generation, rmid_ns, change.ts_ns);
    MarkDead(id, change.ts_ns, true);
    return;
  }
  // The free of the previous owner was lost: it has ended, or its RMID was taken from it.
  if (lease->live && keys_[lease->process] == lease->key &&
      processes_[lease->process].rmid == change.rmid &&
      processes_[lease->process].generation == lease->generation)
    MarkDead(lease->process, change.ts_ns, true);
  if (change.kind == Kind::kAlloc) stats_.nr_allocs++;
  uint32_t id = Find(change.key, change.ts_ns);
  *lease = {change.generation, id, change.key, true, true};
  SetRmid(id, change.rmid, change.generation, rmid_ns, change.ts_ns);
}

void Tracker::SetRmid(uint32_t id, uint32_t rmid, uint32_t generation, uint64_t rmid_ns,
                      uint64_t ts_ns) {
  Process& process = processes_[id];
  if (process.rmid != rmid || process.generation != generation) LeaveRmid(id, ts_ns);
  process.rmid = rmid;
  process.generation = generation;
  process.rmid_ns = rmid_ns;
  by_rmid_[RmidKey(rmid, generation)] = id;
}

void Tracker::LeaveRmid(uint32_t id, uint64_t ts_ns) {
  Process& process = processes_[id];
  if (process.rmid == 0) return;
  past_rmids_.push_back({RmidKey(process.rmid, process.generation), id, ts_ns});
  process.rmid = process.generation = 0;
  process.rmid_ns = 0;
}

void Tracker::DropRmid(uint64_t rmid_key, uint32_t id) {
  auto found = by_rmid_.find(rmid_key);
  if (found != by_rmid_.end() && found->second == id) by_rmid_.erase(found);
}

// As long after as the dead are remembered, so none outlives its process.
void Tracker::ForgetPastRmids(uint64_t ts_ns) {
  while (!past_rmids_.empty() && !IsBefore(ts_ns, past_rmids_.front().ts_ns + keep_dead_ns_)) {
    const PastRmid past = past_rmids_.front();
    past_rmids_.pop_front();
    const Process& process = processes_[past.process];
    if (RmidKey(process.rmid, process.generation) != past.rmid_key)
      DropRmid(past.rmid_key, past.process);
  }
}

void Tracker::ApplyFree(const Change& change) {
  Lease* lease = FindLease(change.rmid);
  if (!lease || !lease->live || lease->generation != change.generation) {
    stats_.nr_unknown_frees++;
    return;
  }
  stats_.nr_frees++;
  stats_.nr_taken_back += change.kind != Kind::kFree;
  lease->live = false;
  if (keys_[lease->process] != lease->key) return;
  if (change.kind == Kind::kFree) {
    MarkDead(lease->process, change.ts_ns, false);
  } else if (const Process& process = processes_[lease->process];
             process.rmid == change.rmid && process.generation == change.generation) {
    LeaveRmid(lease->process, change.ts_ns);
  }
}

void Tracker::ApplyMeta(const Change& change) {
  const ss_task_meta& meta = change.meta;
  auto known = by_key_.find(change.key);
  if (meta.flags & SS_TASK_EXIT) {
    if (known != by_key_.end()) MarkDead(known->second, change.ts_ns, false);
    return;
  }
  uint32_t id = Find(change.key, change.ts_ns);
  Process& process = processes_[id];
  process.named = true;
  process.kernel = meta.flags & SS_TASK_KTHREAD;
  process.cgroup_id = meta.cgroup_id;
  if (meta.ppid) process.ppid = meta.ppid;
  if ((meta.flags & SS_TASK_BIRTH) && followed_tgids_.contains(meta.ppid)) {
    process.followed = true;
    followed_tgids_[change.key.tgid] = id;
  }
  std::memcpy(process.comm.data(), meta.comm, sizeof(meta.comm));
  changes_.ids.push_back(id);
}

void Tracker::ApplyCgroup(const Change& change) {
  auto known = by_key_.find(change.key);
  if (known == by_key_.end()) return;
  processes_[known->second].cgroup_id = change.meta.cgroup_id;
  changes_.ids.push_back(known->second);
}

void Tracker::ApplyDumpEnd(const Change& change) {
  for (auto& [key, id] : by_key_) {
    Process& process = processes_[id];
    if (process.dead || !IsBefore(process.seen_ns, change.begin_ns)) continue;
    stats_.nr_forgotten++;
    if (process.named) missing_.push_back(key);
    MarkDead(id, change.ts_ns, true);
  }
}

void Tracker::Follow(int32_t tgid) {
  auto [followed, inserted] = followed_tgids_.try_emplace(tgid, kNoProcess);
  if (!inserted) return;
  for (const auto& [key, id] : by_key_) {
    if (key.tgid != tgid || processes_[id].dead) continue;
    followed->second = id;
    processes_[id].followed = true;
  }
}

void Tracker::MarkDead(uint32_t id, uint64_t ts_ns, bool presumed) {
  Process& process = processes_[id];
  if (process.dead) return;
  process.dead = true;
  process.presumed = presumed;
  process.dead_ns = ts_ns;
  deaths_.push_back({id, ts_ns});
  if (Lease* lease = FindLease(process.rmid); lease && lease->live && lease->key == process.key)
    lease->live = false;
}

void Tracker::ForgetDead(uint64_t ts_ns) {
  while (!deaths_.empty() && !IsBefore(ts_ns, deaths_.front().ts_ns + keep_dead_ns_)) {
    Death death = deaths_.front();
    deaths_.pop_front();
    Process& process = processes_[death.process];
    if (!process.dead || process.dead_ns != death.ts_ns) continue;  // it lived on, or is another by now
    // A last measure came, or an open slot names it still: remember it as long after that.
    const bool held = !IsBefore(process.held_ns, ts_ns);
    if (held || IsBefore(process.dead_ns, process.seen_ns)) {
      process.dead_ns = held ? ts_ns : process.seen_ns;
      deaths_.push_back({death.process, process.dead_ns});
      continue;
    }
    by_key_.erase(process.key);
    DropRmid(RmidKey(process.rmid, process.generation), death.process);
    for (const PastRmid& past : past_rmids_)  // of others, but for one that was lost out of its time
      if (past.process == death.process) DropRmid(past.rmid_key, death.process);
    if (auto followed = followed_tgids_.find(process.key.tgid);
        followed != followed_tgids_.end() && followed->second == death.process)
      followed_tgids_.erase(followed);
    changes_.forgotten.push_back(process.key);
    if (process.named) former_names_.Add(process.key, process.comm, ts_ns);
    process = {};
    keys_[death.process] = kNobody;
    LeaveRanks(death.process);
    free_ids_.push_back(death.process);
    std::push_heap(free_ids_.begin(), free_ids_.end(), std::greater<>());
  }
}

// Gives back what a burst of processes took: free ids behind the last that is in use, or named
// somewhere. Who comes next has the id that it would have without this.
void Tracker::Trim(uint64_t ts_ns) {
  if (IsBefore(ts_ns, next_trim_ns_)) return;
  next_trim_ns_ = ts_ns + keep_dead_ns_;
  size_t size = keys_.size();
  while (size > 0 && keys_[size - 1] == kNobody) size--;
  const auto keep = [&size](uint32_t id) { size = std::max(size, size_t{id} + 1); };
  for (const Place& place : made_) keep(place.process);
  for (const Death& death : deaths_) keep(death.process);
  for (const PastRmid& past : past_rmids_) keep(past.process);
  for (const Lease& lease : leases_)
    if (lease.known) keep(lease.process);
  if (size > processes_.size() / 2) return;
  std::erase_if(free_ids_, [size](uint32_t id) { return id >= size; });
  std::make_heap(free_ids_.begin(), free_ids_.end(), std::greater<>());
  CutTo(&processes_, size);
  CutTo(&keys_, size);
  CutTo(&ranks_, size);
  free_ids_.shrink_to_fit();
}

uint32_t Tracker::Find(ProcessKey key, uint64_t ts_ns) {
  auto [found, inserted] = by_key_.try_emplace(key, 0);
  if (inserted) {
    if (free_ids_.empty()) {
      found->second = static_cast<uint32_t>(processes_.size());
      processes_.emplace_back();
      keys_.push_back(kNobody);
    } else {
      // The lowest, so that what is kept by ids follows the processes alive.
      std::pop_heap(free_ids_.begin(), free_ids_.end(), std::greater<>());
      found->second = free_ids_.back();
      free_ids_.pop_back();
    }
    Process& process = processes_[found->second];
    process.key = key;
    keys_[found->second] = key;
    made_.push_back({key, found->second});
    if (auto followed = followed_tgids_.find(key.tgid);
        followed != followed_tgids_.end() && followed->second == kNoProcess) {
      followed->second = found->second;
      process.followed = true;
    }
    process.seen_ns = ts_ns;
    process.held_ns = ts_ns - keep_dead_ns_;  // by none
  }
  Touch(found->second, ts_ns);
  return found->second;
}

}  // namespace slotscope
