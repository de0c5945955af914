// SPDX-License-Identifier: MIT
#include "gpu/thread_line.h"

#include <algorithm>

namespace slotscope {
namespace {

ThreadDoing DoingAfter(const ss_cuda_turn& turn) {
  if (turn.turn == SS_TURN_RUNS) return ThreadDoing::kRuns;
  if (turn.turn == SS_TURN_WOKEN) return ThreadDoing::kWaits;
  switch (turn.left) {
    case SS_LEFT_RUNNABLE:
      return ThreadDoing::kWaits;
    case SS_LEFT_DISK:
      return ThreadDoing::kOnDisk;
    case SS_LEFT_STOPPED:
    case SS_LEFT_TRACED:
      return ThreadDoing::kStopped;
    default:
      return turn.op ? ThreadDoing::kSleepsInCuda : ThreadDoing::kSleeps;
  }
}

}  // namespace

void ThreadLine::Mark(uint64_t at_ns, ThreadDoing doing) {
  if (marks_.size() >= kMaxMarks) doing = ThreadDoing::kUnknown;
  if (!marks_.empty() && (marks_.size() >= kMaxMarks || marks_.back().first == at_ns))
    marks_.back().second = doing;  // for a while of no length, or from the last one on
  else
    marks_.emplace_back(at_ns, doing);
}

void ThreadLine::OnTurn(const ss_cuda_turn& turn, uint64_t at_ns) {
  const ThreadDoing before = marks_.empty() ? ThreadDoing::kUnknown : marks_.back().second;
  // What it did from the last one that was told on, and for how long, is not known: also where a turn
  // in between was hidden from eBPF, as who does not run cannot leave, nor who runs come to run.
  const bool is_hidden =
      before != ThreadDoing::kUnknown && ((turn.turn == SS_TURN_LEFT && before != ThreadDoing::kRuns) ||
                                          (turn.turn == SS_TURN_RUNS && before == ThreadDoing::kRuns));
  if ((turn.missed || is_hidden) && !marks_.empty()) marks_.back().second = ThreadDoing::kUnknown;
  if (turn.turn == SS_TURN_WOKEN && before == ThreadDoing::kRuns && !turn.missed) return;
  Mark(at_ns, DoingAfter(turn));
}

void ThreadLine::OnCall(uint64_t from_ns, uint64_t to_ns, uint64_t at_ns) {
  if (!marks_.empty() && marks_.back().second == ThreadDoing::kUnknown && at_ns >= marks_.back().first)
    Mark(at_ns, ThreadDoing::kRuns);
  if (!calls_.empty()) from_ns = std::max(from_ns, calls_.back().second);
  if (from_ns < to_ns && calls_.size() < kMaxMarks) calls_.emplace_back(from_ns, to_ns);
}

bool ThreadLine::Drop(uint64_t end_ns) {
  const auto later = std::partition_point(marks_.begin(), marks_.end(),
                                          [&](const auto& mark) { return mark.first <= end_ns; });
  if (later - marks_.begin() > 1) marks_.erase(marks_.begin(), later - 1);
  std::erase_if(calls_, [&](const auto& call) { return call.second <= end_ns; });
  return marks_.size() <= 1 && calls_.empty();
}

uint64_t ThreadLine::InCallsNs(uint64_t from_ns, uint64_t to_ns) const {
  uint64_t sum_ns = 0;
  const auto first = std::partition_point(calls_.begin(), calls_.end(),
                                          [&](const auto& call) { return call.second <= from_ns; });
  for (auto call = first; call != calls_.end() && call->first < to_ns; ++call)
    sum_ns += std::min(to_ns, call->second) - std::max(from_ns, call->first);
  return sum_ns;
}

}  // namespace slotscope
