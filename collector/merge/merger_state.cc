// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/state.h"
#include "merge/merger.h"

namespace slotscope {
namespace {

// A measure, with the counters that are behind it, or a CPU state. REQUIRES: `long_measure` is as large
// as any of them.
bool IsValid(const ss_long_measure& message) {
  const ss_hdr& hdr = message.measure.hdr;
  if (hdr.type == SS_CPU_STATE) return true;
  return hdr.type == SS_MEASURE && hdr.size >= sizeof(ss_measure) && IsValidMeasure(message);
}

}  // namespace

template <typename Archive>
void Merger::Stream::State(Archive& state) {
  state(continues_at_ns, passed_ns, online, stalled);
  const size_t nr = state.Count(held.size());
  if constexpr (Archive::kReads) held.clear();
  for (size_t i = 0; i < nr; i++) {
    ss_long_measure message = {};
    if constexpr (!Archive::kReads) {
      if (held[i].hdr.type == SS_CPU_STATE)
        std::memcpy(static_cast<void*>(&message), &held[i].cpu_state, sizeof(held[i].cpu_state));
      else
        std::memcpy(static_cast<void*>(&message), &held[i],
                    sizeof(ss_measure) + NrMore(held[i].measure) * sizeof(ss_counter));
    }
    state.Plain(message);
    if constexpr (Archive::kReads) {
      state.Require(IsValid(message));
      if (!state.ok()) return;
      std::memcpy(static_cast<void*>(&held.emplace_back()), &message, sizeof(message));
    }
  }
  if constexpr (Archive::kReads) {
    sorted = std::is_sorted(held.begin(), held.end(), IsEarlier);
    newest = static_cast<size_t>(std::max_element(held.begin(), held.end(), IsEarlier) - held.begin());
    if (held.empty()) newest = 0;
  }
}

// How long it has run and paused begins anew: a small file must not make slots for years.
template <typename Archive>
void Merger::State(Archive& state) {
  state(streams_, dumps_, watermark_ns_, clock_ns_, dump_begin_ns_);
  state.Require(streams_.size() == nr_cpus_ + 1 && clock_ns_ > 0 && clock_ns_ <= UINT64_MAX / 2 &&
                watermark_ns_ <= clock_ns_ && clock_ns_ - watermark_ns_ <= kMaxJumpNs &&
                std::all_of(streams_.begin(), streams_.end(),
                            [this](const Stream& stream) { return stream.passed_ns <= clock_ns_; }));
  state.Plain(stats_);
}

template void Merger::State(StateWriter& state);
template void Merger::State(StateReader& state);

}  // namespace slotscope
