// SPDX-License-Identifier: MIT
#include "track/tracker.h"

#include <algorithm>
#include <cstring>

namespace slotscope {
namespace {

// RMIDs are small; anything above is a malformed message and must not make us allocate.
constexpr uint32_t kMaxRmid = 65536;

}  // namespace

Tracker::Tracker(uint64_t keep_dead_ns) : keep_dead_ns_(keep_dead_ns) {}

void Tracker::Alloc(uint32_t rmid, uint32_t generation, ProcessKey owner, uint64_t ts_ns) {
  Enqueue({ts_ns, Kind::kAlloc, rmid, generation, owner, 0, {}});
}

void Tracker::Free(uint32_t rmid, uint32_t generation, uint64_t ts_ns) {
  Enqueue({ts_ns, Kind::kFree, rmid, generation, {}, 0, {}});
}

void Tracker::Meta(const ss_task_meta& meta, uint64_t ts_ns) {
  Enqueue({ts_ns, Kind::kMeta, 0, 0, {meta.tgid, meta.start_time_ns}, 0, meta});
}

void Tracker::Existing(uint32_t rmid, uint32_t generation, ProcessKey owner, uint64_t ts_ns) {
  Enqueue({ts_ns, Kind::kExisting, rmid, generation, owner, 0, {}});
}

void Tracker::DumpEnd(uint64_t begin_ns, uint64_t ts_ns) {
  Enqueue({ts_ns, Kind::kDumpEnd, 0, 0, {}, begin_ns, {}});
}

void Tracker::Enqueue(const Change& change) {
  auto at = queue_.end();
  while (at != queue_.begin() && IsBefore(change.ts_ns, std::prev(at)->ts_ns)) --at;
  queue_.insert(at, change);
}

void Tracker::Advance(uint64_t ts_ns) {
  while (!queue_.empty() && !IsBefore(ts_ns, queue_.front().ts_ns)) {
    Apply(queue_.front());
    queue_.pop_front();
  }
  ForgetDead(ts_ns);
}

void Tracker::Apply(const Change& change) {
  switch (change.kind) {
    case Kind::kAlloc:
    case Kind::kExisting:
      ApplyAlloc(change);
      break;
    case Kind::kFree:
      ApplyFree(change);
      break;
    case Kind::kMeta:
      ApplyMeta(change);
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
  bool newer = !lease->known || static_cast<int32_t>(change.generation - lease->generation) > 0;
  if (change.kind == Kind::kExisting && !newer) {
    // Not news, but its owner is alive.
    if (lease->live && lease->generation == change.generation) Touch(lease->process, change.ts_ns);
    return;
  }
  if (!newer) {
    stats_.nr_duplicate_allocs++;
    return;
  }
  // The free of the previous owner was lost.
  if (lease->live) MarkDead(lease->process, change.ts_ns, false);
  if (change.kind == Kind::kAlloc) stats_.nr_allocs++;
  uint32_t id = Resolve(change.key, change.ts_ns);
  *lease = {change.generation, id, true, true};
  processes_[id].rmid = change.rmid;
  processes_[id].generation = change.generation;
}

void Tracker::ApplyFree(const Change& change) {
  Lease* lease = FindLease(change.rmid);
  if (!lease || !lease->live || lease->generation != change.generation) {
    stats_.nr_unknown_frees++;
    return;
  }
  stats_.nr_frees++;
  lease->live = false;
  MarkDead(lease->process, change.ts_ns, false);
}

void Tracker::ApplyMeta(const Change& change) {
  const ss_task_meta& meta = change.meta;
  auto known = by_key_.find(change.key);
  if (meta.flags & SS_TASK_EXIT) {
    if (known != by_key_.end()) MarkDead(known->second, change.ts_ns, false);
    return;
  }
  uint32_t id = Resolve(change.key, change.ts_ns);
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
}

void Tracker::ApplyDumpEnd(const Change& change) {
  for (auto& [key, id] : by_key_) {
    Process& process = processes_[id];
    if (process.dead || !IsBefore(process.seen_ns, change.begin_ns)) continue;
    stats_.nr_forgotten++;
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

// Something was heard of the process at ts_ns. If it was only presumed dead before, it is not.
Process& Tracker::Touch(uint32_t id, uint64_t ts_ns) {
  Process& process = processes_[id];
  if (IsBefore(process.seen_ns, ts_ns)) process.seen_ns = ts_ns;
  if (process.dead && process.presumed && IsBefore(process.dead_ns, ts_ns)) process.dead = false;
  return process;
}

void Tracker::MarkDead(uint32_t id, uint64_t ts_ns, bool presumed) {
  Process& process = processes_[id];
  if (process.dead) return;
  process.dead = true;
  process.presumed = presumed;
  process.dead_ns = ts_ns;
  deaths_.push_back({id, ts_ns});
  if (Lease* lease = FindLease(process.rmid); lease && lease->live && lease->process == id)
    lease->live = false;
}

void Tracker::ForgetDead(uint64_t ts_ns) {
  while (!deaths_.empty() && !IsBefore(ts_ns, deaths_.front().ts_ns + keep_dead_ns_)) {
    Death death = deaths_.front();
    deaths_.pop_front();
    Process& process = processes_[death.process];
    if (!process.dead || process.dead_ns != death.ts_ns) continue;  // it lived on, or is another by now
    if (IsBefore(process.dead_ns,
                 process.seen_ns)) {  // a last measure came: remember it as long after that
      process.dead_ns = process.seen_ns;
      deaths_.push_back({death.process, process.dead_ns});
      continue;
    }
    by_key_.erase(process.key);
    if (auto followed = followed_tgids_.find(process.key.tgid);
        followed != followed_tgids_.end() && followed->second == death.process)
      followed_tgids_.erase(followed);
    for (Lease& lease : leases_)
      if (lease.known && !lease.live && lease.process == death.process) lease.process = kNoProcess;
    process = {};
    free_ids_.push_back(death.process);
  }
}

uint32_t Tracker::Resolve(ProcessKey key, uint64_t ts_ns) {
  auto [found, inserted] = by_key_.try_emplace(key, 0);
  if (inserted) {
    if (free_ids_.empty()) {
      found->second = static_cast<uint32_t>(processes_.size());
      processes_.emplace_back();
    } else {
      found->second = free_ids_.back();
      free_ids_.pop_back();
    }
    Process& process = processes_[found->second];
    process.key = key;
    if (auto followed = followed_tgids_.find(key.tgid);
        followed != followed_tgids_.end() && followed->second == kNoProcess) {
      followed->second = found->second;
      process.followed = true;
    }
    process.seen_ns = ts_ns;
  }
  Touch(found->second, ts_ns);
  return found->second;
}

const Process* Tracker::Owner(uint32_t rmid, uint32_t generation) const {
  if (rmid >= leases_.size()) return nullptr;
  const Lease& lease = leases_[rmid];
  if (!lease.known || lease.generation != generation || lease.process == kNoProcess) return nullptr;
  return &processes_[lease.process];
}

}  // namespace slotscope
