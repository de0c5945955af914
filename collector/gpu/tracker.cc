// SPDX-License-Identifier: MIT
#include "gpu/tracker.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace slotscope {
namespace {

constexpr size_t kMaxSpare = 256;

// A launch is pending from its beginning; everything else has happened when it returned.
uint64_t TimeOf(const ss_cuda_call& call) {
  return call.op == SS_CUDA_LAUNCH || call.op == SS_CUDA_GRAPH_LAUNCH ? call.start_ns : call.hdr.ts_ns;
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
    stats_.nr_late += queued.kind == Change::Kind::kCall;
    queued.at_ns = applied_ns_;
  }
  auto [bucket, is_new] = queued_.try_emplace(queued.at_ns - queued.at_ns % slot_ns_);
  if (is_new && !spare_.empty()) {
    bucket->second = std::move(spare_.back());
    spare_.pop_back();
  }
  bucket->second.push_back(queued);
}

void GpuTracker::OnCall(const ss_cuda_call& call) {
  stats_.nr_calls++;
  Queue({Change::Kind::kCall, TimeOf(call), {call.tgid, call.start_time_ns}, call});
}

void GpuTracker::OnExit(ProcessKey process, uint64_t ts_ns) {
  exits_.push_back({ts_ns, process});
  first_exit_ns_ = std::min(first_exit_ns_, ts_ns);
}

// Those before end_ns, unless nobody uses a GPU.
void GpuTracker::QueueExits(uint64_t end_ns) {
  const bool any = !processes_.empty() || !queued_.empty() || machine_.has_views();
  first_exit_ns_ = UINT64_MAX;
  std::erase_if(exits_, [&](const Exit& exit) {
    if (exit.ts_ns >= end_ns) {
      first_exit_ns_ = std::min(first_exit_ns_, exit.ts_ns);
      return false;
    }
    if (any) Queue({Change::Kind::kExit, exit.ts_ns, exit.process, {}});
    return true;
  });
}

void GpuTracker::OnLostCalls(uint64_t from_ns, uint64_t to_ns) {
  Queue({Change::Kind::kLossOfAll, from_ns, {}, {}, to_ns});
}

void GpuTracker::OnLostCalls(const LostCalls& lost, uint64_t from_ns, uint64_t to_ns) {
  const ProcessKey process = {lost.tgid, lost.start_time_ns};
  Queue({Change::Kind::kLoss, from_ns, process, {}, to_ns});
}

void GpuTracker::ApplyUntil(uint64_t end_ns) {
  if (first_exit_ns_ < end_ns) QueueExits(end_ns);
  while (!queued_.empty() && queued_.begin()->first < end_ns) {
    auto first = queued_.begin();
    std::vector<Change> changes = std::move(first->second);
    queued_.erase(first);
    if (changes.size() > 1)
      std::stable_sort(changes.begin(), changes.end(),
                       [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
    for (const Change& change : changes) Apply(change);
    changes.clear();
    if (spare_.size() < kMaxSpare) spare_.push_back(std::move(changes));
  }
  applied_ns_ = end_ns;
}

GpuProcess& GpuTracker::ProcessOf(const Change& change) {
  SpanSink* const sink = keeps_ & kSpans ? this : nullptr;
  std::vector<GpuBalance>* const balances = keeps_ & kBalances ? &balances_ : nullptr;
  auto [found, is_new] =
      processes_.try_emplace(change.process, change.process, &machine_, sink, balances, &stats_, &pool_);
  if (is_new && change.at_ns < lossy_until_ns_) found->second.OnLostCalls(lossy_until_ns_);
  return found->second;
}

void GpuTracker::Apply(const Change& change) {
  switch (change.kind) {
    case Change::Kind::kCall: {
      if (gone_.contains(change.process)) {
        stats_.nr_late++;
        break;
      }
      ProcessOf(change).Apply(change.call, change.at_ns);
      break;
    }
    case Change::Kind::kExit:
      if (auto found = processes_.find(change.process); found != processes_.end()) {
        found->second.End(change.at_ns);
        ended_.push_back({change.process, found->second.TakeSlot(change.at_ns, &ended_parts_)});
        processes_.erase(found);
        gone_.insert(change.process);
        gone_in_order_.push_back(change.process);
        if (gone_in_order_.size() > kMaxGone) {
          gone_.erase(gone_in_order_.front());
          gone_in_order_.pop_front();
        }
      }
      machine_.OnExit(change.process.tgid, change.at_ns);
      break;
    case Change::Kind::kLoss:  // one of which nothing else is known yet has calls all the same
      if (!gone_.contains(change.process)) ProcessOf(change).OnLostCalls(change.until_ns);
      break;
    case Change::Kind::kLossOfAll:
      for (auto& [key, process] : processes_) process.OnLostCalls(change.until_ns);
      lossy_until_ns_ = std::max(lossy_until_ns_, change.until_ns);
  }
}

void GpuTracker::TakeSlot(uint64_t start_ns, std::vector<GpuUse>* uses, GpuDetail* detail) {
  detail->Clear();
  if (applied_ns_ < start_ns) {  // what was before the first slot
    ApplyUntil(start_ns);
    for (auto& [key, process] : processes_) (void)process.TakeSlot(start_ns, &detail->parts);
    machine_.TakeSlot(start_ns, &detail->totals);
    ended_.clear();
    ended_parts_.clear();
    spans_ = {};
    balances_.clear();
    detail->Clear();
  }
  const uint64_t end_ns = start_ns + slot_ns_;
  ApplyUntil(end_ns);
  uses->clear();
  if (processes_.empty() && ended_.empty() && machine_.is_quiet()) return;
  uses->swap(ended_);
  for (const GpuUse& use : *uses) detail->ended.push_back(use.process);
  detail->parts.swap(ended_parts_);
  for (auto& [key, process] : processes_)
    uses->push_back({key, process.TakeSlot(end_ns, &detail->parts)});
  for (const GpuPart& part : detail->parts) machine_.Add(part);
  for (const GpuUse& use : *uses) machine_.AddUnmeasured(use.process, use.row.unmeasured);
  std::erase_if(detail->parts, [](const GpuPart& part) { return !part.row.any; });
  std::stable_sort(detail->parts.begin(), detail->parts.end(), [](const GpuPart& a, const GpuPart& b) {
    return std::tie(a.process, a.device) < std::tie(b.process, b.device);
  });
  machine_.TakeSlot(end_ns, &detail->totals);
  std::swap(detail->spans, spans_);
  detail->balances.swap(balances_);
  std::stable_sort(uses->begin(), uses->end(),
                   [](const GpuUse& a, const GpuUse& b) { return a.process < b.process; });
}

}  // namespace slotscope
