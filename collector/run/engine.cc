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
  options.gpu = gpu;
  return options;
}

}  // namespace

Engine::Engine(const Facts& facts, uint64_t slot_ns, uint64_t window_ns, uint32_t keeps, SlotSink* sink)
    : gpu_(slot_ns, keeps, facts.gpus),
      remote_(slot_ns, sink),
      straggle_(slot_ns, &remote_),
      builder_(BuilderOptions(facts, slot_ns, window_ns, &gpu_), &straggle_),
      router_(&gpu_, &remote_),
      merger_(facts.nr_streams, window_ns, &builder_, &router_) {
  if (facts.command_tgid) builder_.Follow(facts.command_tgid);
}

}  // namespace slotscope
