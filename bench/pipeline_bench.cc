// SPDX-License-Identifier: MIT
// The merge and the slots on synthetic measures: 1 kHz ticks and switches at a steady rate on each CPU.
// Compare ratios within one run; these machines are shared.
#include <benchmark/benchmark.h>
#include <slotscope/events.h>

#include <cstring>
#include <random>
#include <vector>

#include "merge/merger.h"
#include "slots/slot_builder.h"

namespace slotscope {
namespace {

constexpr uint64_t kSwitchesPerSecond = 5000;
constexpr uint64_t kDurationNs = 500'000'000;
constexpr int kProcesses = 200;
constexpr uint64_t kStartNs = 1'000'000'000;
constexpr uint64_t kRoundNs = 5'000'000;

// The frames of all CPUs, round by round, as a reader would have queued them.
struct Round {
  std::vector<std::vector<FrameBuffer>> frames;  // by CPU
};

FrameBuffer MessageFrame(const ss_measure& measure) {
  FrameBuffer frame = {};
  frame.header = {FrameKind::kMessage, sizeof(measure), 0, 0};
  std::memcpy(frame.payload.data(), &measure, sizeof(measure));
  return frame;
}

FrameBuffer NoteFrame(FrameKind kind, uint64_t value) {
  FrameBuffer frame = {};
  frame.header = {kind, 0, 0, value};
  return frame;
}

std::vector<Round> MakeRounds(size_t nr_cpus, uint64_t* nr_messages) {
  std::mt19937_64 random(42);
  std::vector<Round> rounds(kDurationNs / kRoundNs);
  for (Round& round : rounds) round.frames.resize(nr_cpus);
  *nr_messages = 0;
  for (size_t cpu = 0; cpu < nr_cpus; cpu++) {
    uint64_t at_ns = kStartNs;
    uint32_t seq = 0;
    for (size_t r = 0; r < rounds.size(); r++) {
      auto& frames = rounds[r].frames[cpu];
      if (r == 0) frames.push_back(NoteFrame(FrameKind::kOnline, kStartNs));
      uint64_t end_ns = kStartNs + (r + 1) * kRoundNs;
      while (at_ns < end_ns) {
        uint64_t border_ns = at_ns - at_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS;
        uint64_t next_ns =
            std::min(border_ns, at_ns + random() % (2'000'000'000u / kSwitchesPerSecond) + 1);
        ss_measure measure = {};
        measure.hdr = {next_ns, SS_MEASURE, sizeof(measure), static_cast<uint32_t>(cpu)};
        measure.start_ns = at_ns;
        measure.tgid = static_cast<int32_t>(random() % kProcesses) + 1;
        measure.start_time_ns = static_cast<uint64_t>(measure.tgid) * 1000;
        measure.rmid = static_cast<uint32_t>(measure.tgid);
        measure.generation = 1;
        measure.seq = seq++;
        measure.switches = 1;
        for (ss_counter& counter : measure.counters)
          counter = {next_ns - at_ns, next_ns - at_ns, next_ns - at_ns};
        frames.push_back(MessageFrame(measure));
        (*nr_messages)++;
        at_ns = next_ns;
      }
      frames.push_back(NoteFrame(FrameKind::kRound, end_ns + kGraceNs));
    }
  }
  return rounds;
}

struct CountingSink final : SlotSink {
  void OnSlot(const Slot& slot) override { nr_rows += slot.rows.size(); }
  uint64_t nr_rows = 0;
};

struct NullMergeSink final : MergeSink {
  void OnMessage(const ss_any_message& message, bool) override { sum += message.hdr.ts_ns; }
  void OnExpected(int) override {}
  void OnDumpEnd(uint64_t) override {}
  void OnWatermark(uint64_t) override {}
  uint64_t sum = 0;
};

void Feed(const std::vector<Round>& rounds, Merger* merger) {
  for (const Round& round : rounds) {
    for (size_t cpu = 0; cpu < round.frames.size(); cpu++)
      for (const FrameBuffer& frame : round.frames[cpu]) merger->OnFrame(cpu, frame);
    merger->Advance();
  }
  merger->Flush();
}

void BM_Merge(benchmark::State& state) {
  auto nr_cpus = static_cast<size_t>(state.range(0));
  uint64_t nr_messages;
  auto rounds = MakeRounds(nr_cpus, &nr_messages);
  for (auto _ : state) {
    NullMergeSink sink;
    Merger merger(nr_cpus, 64'000'000, &sink);
    Feed(rounds, &merger);
    benchmark::DoNotOptimize(sink.sum);
  }
  state.SetItemsProcessed(static_cast<int64_t>(nr_messages) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_Merge)->Arg(2)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

void BM_MergeAndSlots(benchmark::State& state) {
  auto nr_cpus = static_cast<size_t>(state.range(0));
  uint64_t nr_messages, nr_rows = 0;
  auto rounds = MakeRounds(nr_cpus, &nr_messages);
  SlotBuilderOptions options;
  options.needs_dump = false;
  for (size_t cpu = 0; cpu < nr_cpus; cpu++) options.present_cpus.push_back(static_cast<int>(cpu));
  for (auto _ : state) {
    CountingSink sink;
    SlotBuilder builder(options, &sink);
    Merger merger(nr_cpus, options.window_ns, &builder);
    Feed(rounds, &merger);
    builder.Finish();
    if (!builder.accounting().Holds()) state.SkipWithError("the accounting identity is broken");
    nr_rows += sink.nr_rows;
  }
  state.SetItemsProcessed(static_cast<int64_t>(nr_messages) * static_cast<int64_t>(state.iterations()));
  state.counters["rows/s"] =
      benchmark::Counter(static_cast<double>(nr_rows), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_MergeAndSlots)->Arg(2)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

// The limit: every byte of the same frames read once.
void BM_ReadLimit(benchmark::State& state) {
  uint64_t nr_messages;
  auto rounds = MakeRounds(static_cast<size_t>(state.range(0)), &nr_messages);
  for (auto _ : state) {
    uint64_t sum = 0;
    for (const Round& round : rounds)
      for (const auto& frames : round.frames)
        for (const FrameBuffer& frame : frames) {
          uint64_t words[sizeof(FrameBuffer) / 8];
          std::memcpy(words, &frame, sizeof(words));
          for (uint64_t word : words) sum += word;
        }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(static_cast<int64_t>(nr_messages) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_ReadLimit)->Arg(2)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slotscope
