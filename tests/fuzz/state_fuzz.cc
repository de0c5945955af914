// SPDX-License-Identifier: MIT
// What an engine is said to have known, and a machine that goes on from there.
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "run/engine.h"
#include "tests/gen/generator.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000, kSlotNs = 10 * kMs;  // an hour that is made up has fewer of them

struct Nowhere final : SlotSink {
  void OnSlot(Slot* slot) override { nr_rows += slot->rows.size(); }
  uint64_t nr_rows = 0;
};

GeneratorOptions Machine() {
  GeneratorOptions options;
  options.duration_ms = 120;
  options.nr_processes = 3;
  options.nr_kthreads = 1;
  options.switches_per_s = 500;
  options.nr_rmids = 8;
  options.nr_l3_domains = 1;
  return options;
}

struct Rest {
  Facts facts;
  std::string state;  // a true one
  std::vector<std::unique_ptr<Block>> blocks;
};

Rest MakeRest() {
  Rest rest;
  Generator generator(Machine());
  rest.facts = generator.facts();
  Nowhere sink;
  Engine engine(rest.facts, kSlotNs, 10 * kMs, GpuTracker::kNothing, &sink);
  for (;;) {
    auto block = std::make_unique<Block>();
    if (!generator.Next(block.get())) break;
    if (engine.merger().clock_ns() && rest.state.empty() && engine.builder().first_ns()) {
      rest.state = engine.SaveState();
      if (const char* path = std::getenv("SLOTSCOPE_SAVE_STATE")) {  // a seed for the corpus
        FILE* file = std::fopen(path, "w");
        std::fwrite(rest.state.data(), 1, rest.state.size(), file);
        std::fclose(file);
      }
    }
    if (rest.state.empty())
      (void)engine.merger().OnItems(block->bytes());
    else
      rest.blocks.push_back(std::move(block));
  }
  return rest;
}

}  // namespace
}  // namespace slotscope

// The first two bytes say which part of a true state is replaced by the rest: so what is behind it is
// still read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  static const Rest rest = MakeRest();
  if (size < 2) return 0;
  std::string state = rest.state;
  const size_t at = (data[0] | size_t{data[1]} << 8) % (state.size() + 1);
  state.replace(at, std::min(size - 2, state.size() - at), reinterpret_cast<const char*>(data) + 2,
                size - 2);
  Nowhere sink;
  Engine engine(rest.facts, kSlotNs, 10 * kMs, GpuTracker::kNothing, &sink);
  if (!engine.LoadState(std::as_bytes(std::span(state))).ok()) return 0;
  for (const auto& block : rest.blocks)
    if (!engine.merger().OnItems(block->bytes())) break;
  engine.Finish();
  return 0;
}
