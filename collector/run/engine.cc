// SPDX-License-Identifier: MIT
#include "run/engine.h"

namespace slotscope {
namespace {

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
  return options;
}

}  // namespace

uint32_t UnmeasuredOf(const Facts& facts, const std::array<uint32_t, kNrAdditive>& since) {
  uint32_t unmeasured = 0;
  for (size_t i = 0; i < kNrAdditive; i++) unmeasured |= uint32_t{facts.abi < since[i]} << i;
  for (size_t i = 0; i < SS_NR_COUNTERS; i++)
    unmeasured |= uint32_t{facts.events[i].empty()} << (kCycles + i);
  return unmeasured;
}

uint32_t UnmeasuredMoreOf(const Facts& facts) {
  uint32_t unmeasured = 0;
  for (size_t i = SS_NR_COUNTERS; i < facts.events.size(); i++)
    unmeasured |= uint32_t{facts.events[i].empty()} << (i - SS_NR_COUNTERS);
  return unmeasured;
}

Engine::Engine(const Facts& facts, uint64_t slot_ns, uint64_t window_ns, uint32_t keeps, SlotSink* sink)
    : gpu_(slot_ns, keeps, facts.gpus),
      remote_(slot_ns, sink),
      straggle_(slot_ns, &remote_),
      builder_(BuilderOptions(facts, slot_ns, window_ns, &gpu_), &straggle_),
      router_(&gpu_, &remote_),
      merger_(facts.nr_streams, window_ns, &builder_, &router_, kMeasureSizes[facts.abi]) {
  if (facts.command_tgid) builder_.Follow(facts.command_tgid);
}

}  // namespace slotscope
