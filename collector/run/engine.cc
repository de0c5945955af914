// SPDX-License-Identifier: MIT
#include "run/engine.h"

#include <fmt/core.h>

#include <utility>

#include "base/state.h"

namespace slotscope {
namespace {

// Of --window.
constexpr uint64_t kMaxWindowNs = 10'000'000'000;

// Of what a state has as it is in memory: a counter more is another layout.
constexpr uint64_t kStateBytes = sizeof(MergeStats) + sizeof(Accounting) + sizeof(SlotStats) +
                                 sizeof(TrackerStats) + sizeof(RdtStats) + sizeof(GpuStats) +
                                 sizeof(RemoteStats) + sizeof(WaitStats) + sizeof(RemoteCounts) +
                                 sizeof(SourceLosses);
constexpr uint64_t kStateLayout = uint64_t{kStateVersion} << 32 | kStateBytes;

SlotBuilderOptions BuilderOptions(const Facts& facts, uint64_t slot_ns, uint64_t window_ns,
                                  GpuJoin* gpu) {
  SlotBuilderOptions options;
  options.slot_ns = slot_ns;
  options.window_ns = window_ns;
  options.present_cpus = facts.present_cpus;
  options.unix_offset_ns = facts.unix_offset_ns;
  options.rdt = facts.rdt;
  options.nr_more = facts.nr_more();
  // A row may have no measure (of a process that slept, and whose traffic or GPU is known).
  options.unmeasured = UnmeasuredOf(facts);
  options.unmeasured_more = UnmeasuredMoreOf(facts);
  options.gpu = gpu;
  options.wait_causes = WaitCausesOf(facts);
  options.has_states = facts.has_states;
  return options;
}

}  // namespace

uint32_t UnmeasuredOf(const Facts& facts, const std::array<uint32_t, kNrAdditive>& since) {
  uint32_t unmeasured = 0;
  for (size_t i = 0; i < kNrAdditive; i++) unmeasured |= uint32_t{facts.abi < since[i]} << i;
  for (size_t i = 0; i < SS_NR_COUNTERS; i++)
    unmeasured |= uint32_t{facts.events[i].empty()} << (kCycles + i);
  unmeasured |= uint32_t{!facts.has_waits} << kMigrations;  // threads are not followed
  return unmeasured;
}

uint32_t UnmeasuredMoreOf(const Facts& facts) {
  uint32_t unmeasured = 0;
  for (size_t i = SS_NR_COUNTERS; i < facts.events.size(); i++)
    unmeasured |= uint32_t{facts.events[i].empty()} << (i - SS_NR_COUNTERS);
  return unmeasured;
}

WaitCauses WaitCausesOf(const Facts& facts) {
  if (!facts.has_waits) return kNoWaitCauses;
  return kAnyWaitCauses | WaitCauses{facts.has_quota} << kWaitThrottled |
         WaitCauses{facts.has_steal} << kWaitSteal;
}

Engine::Engine(const Facts& facts, uint64_t slot_ns, uint64_t window_ns, uint32_t keeps, SlotSink* sink)
    : slot_ns_(slot_ns),
      gpu_(slot_ns, keeps, facts.gpus, facts.has_turns),
      remote_(sink),
      straggle_(facts.has_waits, &remote_),
      builder_(BuilderOptions(facts, slot_ns, window_ns, &gpu_), &straggle_),
      router_(&gpu_, &remote_),
      merger_(facts.nr_streams, window_ns, &builder_, &router_, kMeasureSizes[facts.abi]) {
  if (facts.command_tgid) builder_.Follow(facts.command_tgid);
}

template <typename Archive>
void Engine::State(Archive& state) {
  state(merger_, builder_, gpu_, straggle_, remote_, router_);
  // What the watermark has passed by a window has retired: so no slots come but for the time to come.
  state.Require(merger_.watermark_ns() < builder_.next_start_ns() + slot_ns_ + kMaxWindowNs &&
                builder_.latest_ns() <= merger_.clock_ns() + kMaxJumpNs);
}

std::string Engine::SaveState() {
  StateWriter state;
  state(kStateLayout, slot_ns_);
  State(state);
  return std::move(state).text();
}

uint64_t Engine::SlotOf(std::span<const std::byte> bytes) {
  StateReader state(bytes);
  uint64_t layout = 0, slot_ns = 0;
  state(layout, slot_ns);
  return state.ok() ? slot_ns : 0;
}

Status Engine::LoadState(std::span<const std::byte> bytes) {
  StateReader state(bytes);
  uint64_t layout = 0, slot_ns = 0;
  state(layout, slot_ns);
  if (state.ok() && layout != kStateLayout)
    return {Exit::kBadInput,
            fmt::format("its starting state has layout {:#x}, this slotscope reads {:#x}: use the "
                        "slotscope that recorded it, or begin with the recording's first segment",
                        layout, kStateLayout)};
  if (state.ok() && slot_ns != slot_ns_)
    return {Exit::kUsage,
            fmt::format(
                "it was recorded in slots of {} ms, and the part before it is missing: give --slot {}",
                slot_ns / 1'000'000, slot_ns / 1'000'000)};
  State(state);
  if (state.done()) return {};
  return {Exit::kBadInput, "what was known when it began is damaged"};
}

}  // namespace slotscope
