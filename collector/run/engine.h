// SPDX-License-Identifier: MIT
// What makes rows of items, live or replayed: merge -> slots (with the GPU's stage) -> straggling ->
// what others say -> sink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "gpu/tracker.h"
#include "join/remote_state.h"
#include "merge/merger.h"
#include "raw/facts.h"
#include "ring/item_router.h"
#include "run/options.h"
#include "slots/slot_builder.h"
#include "straggle/detector.h"

namespace slotscope {

// Of GpuTracker::Keeps.
inline uint32_t KeepsOf(const OutputOptions& output) {
  const bool wanted = !output.spans.empty() || KindOf(output.path) == OutputKind::kFolder;
  return wanted ? GpuTracker::kSpans : GpuTracker::kNothing;
}

// Bits (Additive) of what no row of that recording has: perf counters that were not counted, and what
// messages of its version lack (`since`: see kAdditiveSince). Bits (perf counter - SS_NR_COUNTERS) of
// those that come behind.
uint32_t UnmeasuredOf(const Facts& facts,
                      const std::array<uint32_t, kNrAdditive>& since = kAdditiveSince);
uint32_t UnmeasuredMoreOf(const Facts& facts);
WaitCauses WaitCausesOf(const Facts& facts);

class Engine {
 public:
  // `keeps`: of GpuTracker::Keeps. `sink` outlives the engine.
  Engine(const Facts& facts, uint64_t slot_ns, uint64_t window_ns, uint32_t keeps, SlotSink* sink);

  Merger& merger() { return merger_; }
  SlotBuilder& builder() { return builder_; }
  const Merger& merger() const { return merger_; }
  const SlotBuilder& builder() const { return builder_; }
  const GpuTracker& gpu() const { return gpu_; }
  const StraggleDetector& straggle() const { return straggle_; }
  const RemoteState& remote() const { return remote_; }
  const ItemRouter& router() const { return router_; }
  // With builder().first_ns(): everything that they know, between two blocks of items (base/state.h).
  std::string SaveState();
  // Of an engine that has seen nothing. Exit::kBadInput if it is damaged or of other facts,
  // Exit::kUsage if it has slots of another length; the engine is of no use then.
  Status LoadState(std::span<const std::byte> bytes);
  // Its slots; 0 if that cannot be told.
  static uint64_t SlotOf(std::span<const std::byte> state);
  // The end: everything that is left.
  void Finish() {
    merger_.Flush();
    builder_.Finish();
  }

 private:
  template <typename Archive>
  void State(Archive& state);

  uint64_t slot_ns_;
  GpuTracker gpu_;
  RemoteState remote_;
  StraggleDetector straggle_;
  SlotBuilder builder_;
  ItemRouter router_;
  Merger merger_;
};

}  // namespace slotscope
