// SPDX-License-Identifier: MIT
// The engine on one core: drained rings in memory, rows out. Compare ratios within one run; these
// machines are shared. See README.md for what each line means.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/out_file.h"
#include "dense_engine.h"
#include "merge/merger.h"
#include "plain_engine.h"
#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "tests/gen/generator.h"

namespace slotscope {
namespace {

constexpr uint64_t kWindowNs = 64'000'000;
constexpr uint64_t kMessagesPerCpuAndSecond = 7000;  // 5000 switches, 1000 ticks of two messages each

uint64_t WantedMessages() {
  const char* text = std::getenv("SLOTSCOPE_BENCH_MESSAGES");
  return text ? std::strtoull(text, nullptr, 10) : 10'000'000;
}

// What is allocated now. Vectors keep what they have had, so at a run's end it is what the run needed.
double AllocatedMb() {
  struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

// What a run's rings held, one round behind the other.
struct Stream {
  Facts facts;
  std::vector<std::byte> storage;  // items from byte 4 on, aligned as in a Block
  uint64_t nr_messages = 0;
  // The same records by CPU, as the plain engine wants them.
  std::vector<std::vector<std::byte>> rings;

  std::span<const std::byte> items() const { return std::span(storage).subspan(4); }
};

void FillRings(Stream* stream) {
  stream->rings.resize(stream->facts.nr_streams);
  for (auto items = stream->items(); !items.empty();) {
    const auto item = Load<ItemHeader>(items.data());
    const auto payload = items.subspan(sizeof(item), item.size);
    if (item.kind == ItemKind::kRecords) {
      auto& ring = stream->rings[item.stream];
      ring.insert(ring.end(), payload.begin(), payload.end());
    }
    items = items.subspan(sizeof(item) + item.size);
  }
}

// The last one made is kept: benchmarks of the same machine follow each other.
const Stream& StreamOf(uint64_t nr_cpus, bool waits = false) {
  static Stream stream;
  if (stream.facts.nr_streams == nr_cpus && stream.facts.has_waits == waits) return stream;
  stream = {};
  GeneratorOptions options;
  options.nr_cpus = nr_cpus;
  options.nr_processes = 200;
  options.switches_per_s = 5000;
  options.waits = waits;
  options.duration_ms = WantedMessages() * 1000 / (kMessagesPerCpuAndSecond * nr_cpus);
  Generator generator(options);
  stream.facts = generator.facts();
  stream.storage.resize(4);
  auto block = std::make_unique<Block>();
  while (generator.Next(block.get()))
    stream.storage.insert(stream.storage.end(), block->bytes().begin(), block->bytes().end());
  stream.nr_messages = generator.nr_messages();
  FillRings(&stream);
  return stream;
}

struct NullMergeSink final : MergeSink {
  void OnMeasure(const ss_measure& measure) override { sum += measure.hdr.ts_ns; }
  void OnTick(const ss_tick& tick) override { sum += tick.missed; }
  void OnCpuState(const ss_cpu_state&) override {}
  void OnMessage(const ss_any_message& message, bool) override { sum += message.hdr.ts_ns; }
  void OnExpected(int) override {}
  void OnDumpEnd(uint64_t, uint64_t) override {}
  void OnClock(uint64_t, int64_t) override {}
  void OnNote(uint64_t, std::string_view) override {}
  void OnWatermark(uint64_t) override {}
  uint64_t sum = 0;
};

struct CountingSink final : SlotSink {
  void OnSlot(Slot* slot) override { nr_rows += slot->rows.size(); }
  uint64_t nr_rows = 0;
};

struct NullFile final : OutFile {
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
    for (auto piece : pieces) nr_bytes += piece.size();
    return {};
  }
  uint64_t size() const override { return nr_bytes; }
  uint64_t nr_bytes = 0;
};

void Report(benchmark::State& state, const Stream& stream, double engine_mb = 0, uint64_t nr_rows = 0,
            uint64_t nr_bytes = 0) {
  auto nr = static_cast<double>(state.iterations());
  state.SetItemsProcessed(static_cast<int64_t>(stream.nr_messages) * state.iterations());
  auto rate = benchmark::Counter::kIsRate;
  state.counters["in_B/s"] = {nr * static_cast<double>(stream.storage.size()), rate};
  if (nr_rows) state.counters["rows/s"] = {nr * static_cast<double>(nr_rows), rate};
  if (nr_bytes) state.counters["out_B/s"] = {nr * static_cast<double>(nr_bytes), rate};
  state.counters["engine_MB"] = engine_mb;
}

// The limit: every byte of the stream read once.
void BM_0_ReadLimit(benchmark::State& state) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) {
    uint64_t sums[8] = {};
    std::span<const std::byte> items = stream.items();
    for (size_t at = 0; at + sizeof(sums) <= items.size(); at += sizeof(sums)) {
      uint64_t words[8];
      std::memcpy(words, items.data() + at, sizeof(words));
      for (size_t i = 0; i < 8; i++) sums[i] += words[i];
    }
    benchmark::DoNotOptimize(sums);
  }
  Report(state, stream);
}

void BM_1_Order(benchmark::State& state) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) {
    NullMergeSink sink;
    Merger merger(stream.facts.nr_streams, kWindowNs, &sink);
    if (!merger.OnItems(stream.items())) state.SkipWithError("malformed items");
    merger.Flush();
    if (merger.stats().nr_messages != stream.nr_messages) state.SkipWithError("messages were lost");
    benchmark::DoNotOptimize(sink.sum);
  }
  Report(state, stream);
}

void BM_2_OrderAndSlots(benchmark::State& state) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)));
  uint64_t nr_rows = 0;
  double engine_mb = 0;
  for (auto _ : state) {
    const double before_mb = AllocatedMb();
    CountingSink sink;
    Engine engine(stream.facts, SS_TICK_PERIOD_NS, kWindowNs, 0, &sink);
    if (!engine.merger().OnItems(stream.items())) state.SkipWithError("malformed items");
    engine.Finish();
    if (!engine.builder().accounting().Holds()) state.SkipWithError("the accounting identity is broken");
    nr_rows = sink.nr_rows;
    engine_mb = AllocatedMb() - before_mb;
  }
  Report(state, stream, engine_mb, nr_rows);
}

void RunCsv(benchmark::State& state, const Stream& stream, const Facts& facts) {
  uint64_t nr_rows = 0, nr_bytes = 0;
  double engine_mb = 0;
  for (auto _ : state) {
    const double before_mb = AllocatedMb();
    NullFile file;
    CsvSink csv(&file, stream.facts.unix_offset_ns, 0);
    csv.WriteHeader({});
    Engine engine(facts, SS_TICK_PERIOD_NS, kWindowNs, 0, &csv);
    if (!engine.merger().OnItems(stream.items())) state.SkipWithError("malformed items");
    engine.Finish();
    if (!csv.Finish({}).ok()) state.SkipWithError("the CSV was not written");
    nr_rows = csv.nr_rows();
    nr_bytes = file.nr_bytes;
    engine_mb = AllocatedMb() - before_mb;
  }
  Report(state, stream, engine_mb, nr_rows, nr_bytes);
}

void BM_3_OrderSlotsAndCsv(benchmark::State& state) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)));
  RunCsv(state, stream, stream.facts);
}

// Who waited for whom, and why who does not run does not: what each adds.
void BM_8_Waits(benchmark::State& state) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)), true);
  Facts facts = stream.facts;
  facts.has_states = false;
  RunCsv(state, stream, facts);
}
void BM_9_WaitsAndStates(benchmark::State& state) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)), true);
  RunCsv(state, stream, stream.facts);
}

void RunPlain(benchmark::State& state, bool csv) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)));
  uint64_t nr_rows = 0, nr_bytes = 0, nr_messages = 0;
  for (auto _ : state) {
    PlainEngine engine(stream.rings, csv);
    engine.Run();
    if (engine.missing() != Sums{}) state.SkipWithError("the plain engine lost something");
    nr_rows = engine.nr_rows();
    nr_bytes = engine.nr_bytes();
    nr_messages = engine.nr_messages();
  }
  if (nr_messages < stream.nr_messages * 99 / 100) state.SkipWithError("the plain engine lost messages");
  Report(state, stream, 0, nr_rows, nr_bytes);
}

void RunDense(benchmark::State& state, bool csv) {
  const Stream& stream = StreamOf(static_cast<uint64_t>(state.range(0)));
  uint64_t nr_rows = 0, nr_bytes = 0, nr_messages = 0;
  double engine_mb = 0;
  for (auto _ : state) {
    const double before_mb = AllocatedMb();
    DenseEngine engine(stream.items(), stream.facts.nr_streams, stream.facts.unix_offset_ns, csv);
    engine.Run();
    if (engine.written_cpu_ns() != engine.nr_slots() * SS_TICK_PERIOD_NS * stream.facts.nr_streams)
      state.SkipWithError("the dense engine lost something");
    nr_rows = engine.nr_rows();
    nr_bytes = engine.nr_bytes();
    nr_messages = engine.nr_messages();
    engine_mb = AllocatedMb() - before_mb;
  }
  // All but what is behind the last slot.
  if (nr_messages < stream.nr_messages * 9 / 10) state.SkipWithError("the dense engine lost messages");
  Report(state, stream, engine_mb, nr_rows, nr_bytes);
}

void BM_6_DenseSlots(benchmark::State& state) { RunDense(state, false); }
void BM_7_DenseSlotsAndCsv(benchmark::State& state) { RunDense(state, true); }

void BM_4_PlainSlots(benchmark::State& state) { RunPlain(state, false); }
void BM_5_PlainSlotsAndCsv(benchmark::State& state) { RunPlain(state, true); }

// Machine by machine, so that lines to be compared are measured close to each other.
[[maybe_unused]] const bool kRegistered = [] {
  const struct {
    const char* name;
    void (*run)(benchmark::State&);
  } lines[] = {{"read_limit", BM_0_ReadLimit},
               {"a_order", BM_1_Order},
               {"b_order_slots", BM_2_OrderAndSlots},
               {"c_order_slots_csv", BM_3_OrderSlotsAndCsv},
               {"dense_slots", BM_6_DenseSlots},
               {"dense_slots_csv", BM_7_DenseSlotsAndCsv},
               {"plain_slots", BM_4_PlainSlots},
               {"plain_slots_csv", BM_5_PlainSlotsAndCsv},
               {"waits_csv", BM_8_Waits},
               {"waits_states_csv", BM_9_WaitsAndStates}};
  for (int64_t nr_cpus : {2, 8, 64, 128})
    for (const auto& line : lines)
      benchmark::RegisterBenchmark(line.name, line.run)->Arg(nr_cpus)->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace slotscope
