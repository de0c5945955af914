// SPDX-License-Identifier: MIT
#include "gpu/tracker.h"

#include <algorithm>
#include <utility>

#include "slots/column.h"

namespace slotscope {
namespace {

// What a slot needs, of as many slots as retire at once; after a burst the memory goes back.
constexpr size_t kMaxSpare = 16, kMaxSpareChanges = 256;

// A launch is pending from its beginning; everything else has happened when it returned.
uint64_t TimeOf(const ss_cuda_call& call) {
  return call.op == SS_CUDA_LAUNCH || call.op == SS_CUDA_GRAPH_LAUNCH ? call.start_ns : call.hdr.ts_ns;
}

// What a process did after an exec, to what it did before.
void Join(GpuRow* row, const GpuRow& later) {
  for (size_t i = 0; i < kNrGpuValues; i++)
    row->values[i] = kGpuAdds[i] ? row->values[i] + later.values[i] : later.values[i];
  row->unmeasured |= later.unmeasured;
  row->any |= later.any;
}

// In the order of `key`; those of one key, which are in the order of time, become one.
template <typename T, typename Key>
void SortAndJoin(std::vector<T>* all, Key key) {
  std::stable_sort(all->begin(), all->end(), [&](const T& a, const T& b) { return key(a) < key(b); });
  size_t nr = 0;
  for (const T& one : *all) {
    if (nr > 0 && key((*all)[nr - 1]) == key(one))
      Join(&(*all)[nr - 1].row, one.row);
    else
      (*all)[nr++] = one;
  }
  all->resize(nr);
}

}  // namespace

bool GpuTracker::HasRoomForSpan() {
  const bool has_room = spans_.kernels.size() + spans_.memory.size() < kMaxSpans;
  stats_.nr_dropped_spans += !has_room;
  return has_room;
}

void GpuTracker::OnKernels(const KernelSpan& span) {
  if (HasRoomForSpan()) spans_.kernels.push_back(span);
}

void GpuTracker::OnMemory(const MemorySpan& span) {
  if (HasRoomForSpan()) spans_.memory.push_back(span);
}

void GpuTracker::Queue(const Change& change) {
  Change queued = change;
  if (queued.at_ns < applied_ns_) {
    stats_.nr_late += queued.kind == kCall;
    queued.at_ns = applied_ns_;
  }
  auto [bucket, is_new] = queued_.try_emplace(queued.at_ns - queued.at_ns % slot_ns_);
  if (is_new && !spare_.empty()) {
    bucket->second = std::move(spare_.back());
    spare_.pop_back();
  }
  bucket->second.push_back(queued);
}

// A launch that began before its driver was initialized, in another thread's call, has waited for that.
void GpuTracker::OnCall(const ss_cuda_call& call) {
  stats_.nr_calls++;
  const ProcessKey process = {call.tgid, call.start_time_ns};
  uint64_t at_ns = TimeOf(call);
  if (call.op == SS_CUDA_INIT) {
    if (inits_.size() >= kMaxInits) inits_.clear();
    inits_[process] = at_ns;
  } else if (at_ns < call.hdr.ts_ns && !inits_.empty()) {
    if (const auto init = inits_.find(process); init != inits_.end())
      at_ns = std::clamp<uint64_t>(init->second, at_ns, call.hdr.ts_ns);
  }
  Queue({kCall, at_ns, process, call});
}

void GpuTracker::OnTurn(const ss_cuda_turn& turn) {
  Queue({kTurn, turn.hdr.ts_ns, {turn.tgid, turn.start_time_ns}, {}, 0, turn});
}

void GpuTracker::OnEnd(Kind kind, ProcessKey process, uint64_t ts_ns) {
  ends_.push_back({ts_ns, kind, process});
  first_end_ns_ = std::min(first_end_ns_, ts_ns);
}

// Those before end_ns, unless nobody uses a GPU.
void GpuTracker::QueueEnds(uint64_t end_ns) {
  const bool any = !processes_.empty() || !queued_.empty() || machine_.has_views();
  first_end_ns_ = UINT64_MAX;
  std::erase_if(ends_, [&](const End& end) {
    if (end.ts_ns >= end_ns) {
      first_end_ns_ = std::min(first_end_ns_, end.ts_ns);
      return false;
    }
    if (any) Queue({end.kind, end.ts_ns, end.process, {}});
    return true;
  });
}

void GpuTracker::OnLostCalls(uint64_t from_ns, uint64_t to_ns) {
  Queue({kLossOfAll, from_ns, {}, {}, to_ns});
}

void GpuTracker::OnLostCalls(const LostCalls& lost, uint64_t from_ns, uint64_t to_ns) {
  const ProcessKey process = {lost.tgid, lost.start_time_ns};
  Queue({kLoss, from_ns, process, {}, to_ns});
}

void GpuTracker::ApplyUntil(uint64_t end_ns) {
  if (first_end_ns_ < end_ns) QueueEnds(end_ns);
  while (!queued_.empty() && queued_.begin()->first < end_ns) {
    auto first = queued_.begin();
    std::vector<Change> changes = std::move(first->second);
    queued_.erase(first);
    if (changes.size() > 1)
      std::stable_sort(changes.begin(), changes.end(),
                       [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
    for (const Change& change : changes) Apply(change);
    changes.clear();
    if (spare_.size() < kMaxSpare && changes.capacity() <= kMaxSpareChanges)
      spare_.push_back(std::move(changes));
  }
  applied_ns_ = end_ns;
}

GpuProcess& GpuTracker::ProcessOf(const Change& change) {
  SpanSink* const sink = keeps_ & kSpans ? this : nullptr;
  std::vector<GpuBalance>* const balances = keeps_ & kBalances ? &balances_ : nullptr;
  auto [found, is_new] = processes_.try_emplace(change.process, change.process, has_turns_, &machine_,
                                                sink, balances, &stats_, &pool_);
  if (is_new && change.at_ns < lossy_until_ns_) found->second.OnLostCalls(change.at_ns, lossy_until_ns_);
  if (is_new)
    awake_.emplace(change.process, &found->second);
  else
    Wake(change.process);
  return found->second;
}

// Something happens in it, or will.
void GpuTracker::Wake(ProcessKey key) {
  soon_still_.erase(key);
  const auto found = still_.find(key);
  if (found == still_.end()) return;
  for (const GpuPart& part : found->second.parts) machine_.AddStanding(part, -1);
  machine_.AddStandingUnmeasured(key, found->second.row.unmeasured, -1);
  still_.erase(found);
  still_version_++;
  GpuProcess& process = processes_.at(key);
  process.ForgetInactive(taken_until_ns_);
  awake_.emplace(key, &process);
}

void GpuTracker::WakeAll(int32_t tgid) {
  for (auto at = processes_.lower_bound({tgid, 0}); at != processes_.end() && at->first.tgid == tgid;
       ++at)
    Wake(at->first);
}

void GpuTracker::BeStill() {
  still_version_ += !soon_still_.empty();
  for (auto& [key, rest] : soon_still_) {
    for (const GpuPart& part : rest.parts) machine_.AddStanding(part, 1);
    machine_.AddStandingUnmeasured(key, rest.row.unmeasured, 1);
    awake_.erase(key);
    still_.emplace(key, std::move(rest));
  }
  soon_still_.clear();
}

std::vector<GpuUse> GpuTracker::Still() const {
  std::vector<GpuUse> uses;
  for (const auto& [key, rest] : still_) uses.push_back({key, rest.row});
  return uses;
}

void GpuTracker::Apply(const Change& change) {
  switch (change.kind) {
    case kCall:
      ApplyCall(change);
      break;
    case kExit:
    case kExec:
    case kMissing:
      ApplyEnd(change);
      break;
    case kLoss:  // one of which nothing else is known yet has calls all the same
      if (!gone_.contains(change.process)) ProcessOf(change).OnLostCalls(change.at_ns, change.until_ns);
      break;
    case kTurn:
      ApplyTurn(change);
      break;
    case kLossOfAll:
      for (auto& [key, process] : processes_) {
        Wake(key);
        process.ForgetTurns(change.at_ns);
        process.OnLostCalls(change.at_ns, change.until_ns);
      }
      lossy_until_ns_ = std::max(lossy_until_ns_, change.until_ns);
  }
}

void GpuTracker::ApplyCall(const Change& change) {
  const auto gone = gone_.find(change.process);
  if (gone == gone_.end()) {
    ProcessOf(change).Apply(change.call, change.at_ns);
  } else if (!gone->second) {
    stats_.nr_late++;
  } else {
    gone_.erase(gone);
    GpuProcess& process = ProcessOf(change);
    process.OnLostCalls(change.at_ns, change.at_ns);
    process.Apply(change.call, change.at_ns);
  }
}

// Whoever is still stays so: most threads that have made calls sleep, and wake up for something else.
void GpuTracker::ApplyTurn(const Change& change) {
  const auto found = processes_.find(change.process);
  if (found != processes_.end())
    found->second.OnTurn(change.turn, change.at_ns);
  else if (!gone_.contains(change.process))
    ProcessOf(change).OnTurn(change.turn, change.at_ns);
}

void GpuTracker::ApplyEnd(const Change& change) {
  if (auto found = processes_.find(change.process); found != processes_.end()) {
    Wake(change.process);
    awake_.erase(change.process);
    // Of who is missing nobody knows since when.
    found->second.End(change.at_ns,
                      change.kind == kMissing ? KernelsEnd::kUnknown : KernelsEnd::kExited);
    if (found->second.has_called())
      ended_.push_back({change.process, found->second.TakeSlot(change.at_ns, &ended_parts_)});
    processes_.erase(found);
    if (change.kind != kExec) AddGone(change.process, change.kind == kMissing);
  } else if (auto gone = gone_.find(change.process); gone != gone_.end()) {
    gone->second &= change.kind != kExit;
  }
  if (change.kind == kMissing) return;
  WakeAll(change.process.tgid);
  machine_.OnExit(change.process.tgid, change.at_ns);
}

void GpuTracker::AddGone(ProcessKey process, bool is_missing) {
  gone_[process] = is_missing;
  gone_in_order_.push_back(process);
  if (gone_in_order_.size() <= kMaxGone) return;
  gone_.erase(gone_in_order_.front());
  gone_in_order_.pop_front();
}

// Nobody uses a GPU, or all who do are still, and nothing is to be done before end_ns: as in most slots.
inline bool GpuTracker::IsQuietUntil(uint64_t start_ns, uint64_t end_ns) const {
  return awake_.empty() && soon_still_.empty() && queued_.empty() && ended_.empty() &&
         machine_.is_quiet() && first_end_ns_ >= end_ns && applied_ns_ >= start_ns;
}

void GpuTracker::TakeSlot(uint64_t start_ns, uint64_t end_ns, std::vector<GpuUse>* uses,
                          GpuDetail* detail) {
  if (!IsQuietUntil(start_ns, end_ns)) return TakeBusySlot(start_ns, end_ns, uses, detail);
  detail->Clear();
  uses->clear();
  taken_until_ns_ = start_ns;
  applied_ns_ = end_ns;
}

void GpuTracker::TakeBusySlot(uint64_t start_ns, uint64_t end_ns, std::vector<GpuUse>* uses,
                              GpuDetail* detail) {
  detail->Clear();
  if (applied_ns_ < start_ns) {  // what was before the first slot
    ApplyUntil(start_ns);
    for (auto& [key, process] : awake_) (void)process->TakeSlot(start_ns, &detail->parts);
    machine_.TakeSlot(start_ns, &detail->totals);
    ended_.clear();
    ended_parts_.clear();
    spans_ = {};
    balances_.clear();
    detail->Clear();
  }
  BeStill();
  taken_until_ns_ = start_ns;
  ApplyUntil(end_ns);
  uses->clear();
  if (awake_.empty() && ended_.empty() && machine_.is_quiet()) return;
  uses->swap(ended_);
  for (const GpuUse& use : *uses) detail->ended.push_back(use.process);
  detail->parts.swap(ended_parts_);
  for (auto& [key, process] : awake_) {
    if (!process->has_called()) continue;
    const size_t first = detail->parts.size();
    const GpuRow row = process->TakeSlot(end_ns, &detail->parts);
    uses->push_back({key, row});
    const auto parts = std::span(detail->parts).subspan(first);
    if (!row.any && process->IsStill(end_ns) &&
        std::none_of(parts.begin(), parts.end(), [](const GpuPart& part) { return part.row.any; }))
      soon_still_.emplace(key, Rest{row, {parts.begin(), parts.end()}});
  }
  for (const GpuPart& part : detail->parts) machine_.Add(part);
  for (const GpuUse& use : *uses) machine_.AddUnmeasured(use.process, use.row.unmeasured);
  std::erase_if(detail->parts, [](const GpuPart& part) { return !part.row.any; });
  SortAndJoin(&detail->parts,
              [](const GpuPart& part) { return std::make_pair(part.process, part.device); });
  machine_.TakeSlot(end_ns, &detail->totals);
  std::swap(detail->spans, spans_);
  detail->balances.swap(balances_);
  SortAndJoin(uses, [](const GpuUse& use) { return use.process; });
}

}  // namespace slotscope
