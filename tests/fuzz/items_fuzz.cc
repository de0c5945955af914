// SPDX-License-Identifier: MIT
// The message decoder and all behind it, up to CSV: whatever bytes the rings hold, nothing breaks and
// the accounting holds. The first byte chooses slot length and window, the second how the rest is read.
#include <fmt/core.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/out_file.h"
#include "gpu/no_work.h"
#include "remediate/feed.h"
#include "remediate/parser.h"
#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "sinks/gpu_csv_sink.h"
#include "sinks/gpu_report.h"
#include "sinks/perfetto_sink.h"
#include "sinks/span_csv_sink.h"
#include "sinks/straggle_sink.h"

namespace slotscope {
namespace {

constexpr size_t kCpus = 3;

struct NullFile final : OutFile {
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
    for (auto piece : pieces) nr_bytes += piece.size();
    return {};
  }
  uint64_t size() const override { return nr_bytes; }
  uint64_t nr_bytes = 0;
};

std::vector<GpuDevice> SomeGpus() {
  std::vector<GpuDevice> gpus(3);
  for (size_t i = 0; i < gpus.size(); i++)
    gpus[i].uuid = fmt::format("GPU-00000000-0000-0000-0000-00000000000{}", i);
  gpus[2].divided = true;
  return gpus;
}

// All files there are, of each slot.
struct Files final : SlotSink {
  void OnSlot(Slot* slot) override {
    // One behind the other, however long they are.
    if (slot->end_ns <= slot->start_ns || (end_ns && slot->start_ns != end_ns)) std::abort();
    end_ns = slot->end_ns;
    const auto check = [slot](const GpuRow& row) {
      if (row.values[kGpuActiveNs] > slot->end_ns - slot->start_ns) std::abort();
      if (row.unmeasured & (kOfLaunches & ~(1u << kNoWorkThrottled | kOfLauncher))) return;
      uint64_t causes_ns = 0;
      for (size_t i = kNoWorkRan; i <= kNoWorkUnknown; i++)
        if (i != kNoWorkInCalls) causes_ns += row.values[i];
      if (causes_ns != row.values[kGpuNoWork]) std::abort();
      if (row.unmeasured & kOfLauncher) return;
      const uint64_t unknown_ns = (slot->end_ns - slot->start_ns) / NoWork::kMostUnknown;
      if (row.values[kLauncherRan] + unknown_ns < row.values[kNoWorkRan] ||
          row.values[kLauncherInCalls] > row.values[kLauncherRan])
        std::abort();
    };
    for (const GpuRow& row : slot->gpu) check(row);
    for (const GpuPart& part : slot->gpu_detail.parts) check(part.row);
    for (const GpuTotal& total : slot->gpu_detail.totals) check(total.row);
    for (SideSink* side : {static_cast<SideSink*>(&spans), static_cast<SideSink*>(&gpu_csv),
                           static_cast<SideSink*>(&perfetto), static_cast<SideSink*>(&straggle)})
      side->OnSlot(*slot);
    report.OnSlot(slot);
    csv.OnSlot(slot);
  }
  uint64_t end_ns = 0;  // of the last slot
  NullFile file;
  SpanCsvSink spans{&file};
  GpuCsvSink gpu_csv{&file, SomeGpus()};
  PerfettoSink perfetto{&file};
  StraggleSink straggle{&file};
  GpuReport report;
  CsvSink csv{&file, 0, 0};
};

// What is sent to a consumer is understood by one.
void CheckLine(std::string_view line) {
  if (line.empty() || line.back() != '\n') std::abort();
  line.remove_suffix(1);
  // Numbers that no kernel gives are sent as they are.
  const RemoteMessage message = ParseRemoteLine(line);
  if (message.kind == RemoteMessage::Kind::kIgnored || line.find('\n') != line.npos) std::abort();
}

Facts FactsOf(const RdtShape& rdt) {
  Facts facts;
  facts.nr_streams = kCpus;
  facts.present_cpus = {0, 1, 2};
  facts.rdt = rdt;
  facts.gpus = SomeGpus();
  return facts;
}

// The engine, with all sinks and a consumer behind it.
class CheckedRun {
 public:
  CheckedRun(uint64_t slot_ns, uint64_t window_ns, const RdtShape& rdt)
      : feed_(
            SomeGpus(), [](const std::string& line) { CheckLine(line); }, [] { return true; }, &news_,
            &files_),
        engine_(FactsOf(rdt), slot_ns, window_ns, GpuTracker::kSpans | GpuTracker::kBalances, &feed_) {}

  bool Feed(std::vector<std::byte>* items) {
    return engine_.merger().OnItems(std::span(*items).subspan(4));
  }
  void Finish() {
    engine_.Finish();
    if (engine_.builder().accounting().Holds()) return;
    fmt::print(stderr, "the accounting identity is broken\n");
    std::abort();
  }

 private:
  Files files_;
  News news_;
  RemediateFeed feed_;
  Engine engine_;
};

void Append(std::vector<std::byte>* to, const void* from, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(from);
  to->insert(to->end(), bytes, bytes + size);
}

void AppendItem(std::vector<std::byte>* items, ItemKind kind, uint32_t stream, uint64_t now_ns,
                const std::vector<std::byte>& payload = {}) {
  ItemHeader header = {kind, 0, stream, static_cast<uint32_t>(payload.size()), 0, now_ns, now_ns};
  Append(items, &header, sizeof(header));
  Append(items, payload.data(), payload.size());
}

// Behind a state dump: no slot begins before there was one. It is of no time, so that any may follow.
std::vector<std::byte> NewItems() {
  std::vector<std::byte> items(4);
  AppendItem(&items, ItemKind::kDumpBegin, 0, 0);
  AppendItem(&items, ItemKind::kDumpEnd, 0, 0);
  return items;
}

// The bytes are items.
void AsItems(CheckedRun* run, std::span<const uint8_t> data) {
  std::vector<std::byte> items = NewItems();
  Append(&items, data.data(), data.size() & ~size_t{7});
  run->Feed(&items);
}

void AppendRecord(std::vector<std::byte>* ring, const void* message, uint32_t size) {
  const uint32_t padding = (4 - size % 8 + 8) % 8;  // behind header and size
  struct {
    perf_event_header header;
    uint32_t size;
  } __attribute__((packed)) record = {};
  record.header = {PERF_RECORD_SAMPLE, 0, static_cast<uint16_t>(sizeof(record) + size + padding)};
  record.size = size + padding;
  Append(ring, &record, sizeof(record));
  Append(ring, message, size);
  ring->resize(ring->size() + padding);
}

// Few handles and devices, so that calls meet.
ss_cuda_call MakeCall(const uint16_t* word, uint64_t at_ns, uint32_t cpu) {
  ss_cuda_call call = {};
  call.hdr = {at_ns, SS_CUDA_CALL, sizeof(call), cpu};
  call.start_ns = at_ns - std::min<uint64_t>(at_ns, word[2] * 10u);
  call.tgid = 1 + word[4] % 3;
  call.tid = call.tgid + word[4] / 4 % 3;
  call.op = 1 + word[3] % (SS_CUDA_NR_OPS - 1);
  call.flags = word[4] >> 13;
  for (size_t i = 0; i < SS_CUDA_NR_VALUES; i++) call.values[i] = word[5 + i % 3] >> (4 * (i / 3)) & 7u;
  return call;
}

ss_cuda_turn MakeTurn(const uint16_t* word, uint64_t at_ns, uint32_t cpu) {
  ss_cuda_turn turn = {};
  turn.hdr = {at_ns, SS_CUDA_TURN, sizeof(turn), cpu};
  turn.tgid = 1 + word[4] % 3;
  turn.tid = turn.tgid + word[4] / 4 % 3;
  turn.turn = 1 + word[3] % 3;
  turn.left = word[5] % (SS_LEFT_ENDED + 1);
  turn.op = word[6] % 2 ? SS_CUDA_STREAM_DONE : 0;
  turn.missed = word[7] % 16 == 0;
  return turn;
}

// Each 16 bytes are a measure, a CUDA call or an RDT sample of a plausible machine, so that the fuzzer
// gets far soon.
void AsMeasures(CheckedRun* run, std::span<const uint8_t> data) {
  std::vector<std::byte> items = NewItems();
  uint64_t now_ns = 1'000'000'000, end_ns[kCpus] = {now_ns, now_ns, now_ns};
  for (uint32_t cpu = 0; cpu < kCpus; cpu++) {
    AppendItem(&items, ItemKind::kOnline, cpu, now_ns);
    AppendItem(&items, ItemKind::kExpected, cpu, now_ns);
  }
  std::vector<std::byte> rings[kCpus];
  for (; data.size() >= 16; data = data.subspan(16)) {
    uint16_t word[8];
    std::memcpy(word, data.data(), sizeof(word));
    const uint32_t cpu = word[0] % kCpus;
    if (word[1] % 8 == 5) {
      ss_rdt_sample sample = {};
      sample.since_ns =
          end_ns[cpu] - std::min<uint64_t>(end_ns[cpu], word[2] * (word[3] % 2 ? 10u : 5000u));
      sample.hdr = {end_ns[cpu], SS_RDT_SAMPLE, sizeof(sample), cpu};
      sample.value = word[4] % 16 == 1 ? UINT64_MAX - word[5] : word[5];
      sample.rmid = word[4] >> 12;
      sample.domain = word[4] % 3;
      sample.event = word[6] % 4;
      sample.status = word[7] % 64 < 10 ? word[7] % 64 : 0;
      AppendRecord(&rings[cpu], &sample, sizeof(sample));
      continue;
    }
    if (word[1] % 8 == 6 && word[2] % 2) {
      const ss_cuda_turn turn = MakeTurn(word, end_ns[cpu], cpu);
      AppendRecord(&rings[cpu], &turn, sizeof(turn));
    }
    if (word[1] % 8 == 6) {
      const ss_cuda_call call = MakeCall(word, end_ns[cpu], cpu);
      AppendRecord(&rings[cpu], &call, sizeof(call));
      if (word[2] % 16 == 0) {
        struct {
          GpuViewItem head;
          int32_t gpus[2];
        } view = {{call.tgid, 2}, {static_cast<int16_t>(word[5]) % 4, word[6] % 4}};
        const auto* bytes = reinterpret_cast<const std::byte*>(&view);
        AppendItem(&items, ItemKind::kGpuView, 0, now_ns, {bytes, bytes + sizeof(view)});
      } else if (word[2] % 16 == 1) {
        const GpuSample sample = {word[5] % 4u, word[6] % 4u, word[7], word[7] * 100u, now_ns - word[6]};
        const auto* bytes = reinterpret_cast<const std::byte*>(&sample);
        AppendItem(&items, ItemKind::kGpuSample, 0, now_ns, {bytes, bytes + sizeof(sample)});
      } else if (word[2] % 16 == 2) {
        const RemoteMemory memory = {call.tgid, word[5] % 4u, word[7], now_ns - word[6]};
        const auto* bytes = reinterpret_cast<const std::byte*>(&memory);
        AppendItem(&items, ItemKind::kRemoteMemory, 0, now_ns, {bytes, bytes + sizeof(memory)});
      } else if (word[2] % 16 == 3) {
        const RemoteStraggle straggle = {call.tgid, word[5] % 2u, word[7], now_ns - word[6]};
        const auto* bytes = reinterpret_cast<const std::byte*>(&straggle);
        AppendItem(&items, ItemKind::kRemoteStraggle, 0, now_ns, {bytes, bytes + sizeof(straggle)});
      } else if (word[2] % 16 == 4) {
        AppendItem(&items, ItemKind::kRemoteGone, 0, now_ns, {});
      } else if (word[2] % 16 == 5) {
        const LostCalls lost = {call.tgid, 0, call.start_time_ns, word[7]};
        const auto* bytes = reinterpret_cast<const std::byte*>(&lost);
        AppendItem(&items, ItemKind::kLostCalls, 0, now_ns, {bytes, bytes + sizeof(lost)});
      } else if (word[2] % 16 == 6) {
        const uint64_t slot_ns = 1 + word[7] * uint64_t{word[6]} % kMaxSlotNs;
        const auto* bytes = reinterpret_cast<const std::byte*>(&slot_ns);
        AppendItem(&items, ItemKind::kSlotLength, 0, now_ns, {bytes, bytes + sizeof(slot_ns)});
      } else if (word[2] % 16 == 7) {
        const uint64_t told = word[7] % 2;
        const auto* bytes = reinterpret_cast<const std::byte*>(&told);
        AppendItem(&items, ItemKind::kWaitCauses, 0, now_ns, {bytes, bytes + sizeof(told)});
      }
      continue;
    }
    ss_measure measure = {};
    measure.start_ns =
        end_ns[cpu] + (word[1] % 8 ? 0 : word[2] * 100) - (word[1] % 64 == 9 ? word[2] * 500 : 0);
    measure.hdr = {measure.start_ns + word[3] * (word[1] % 16 == 1 ? 1000u : 10u), SS_MEASURE,
                   sizeof(ss_measure), cpu};
    measure.tgid = word[4] % 8;
    measure.rmid = word[4] >> 12;
    measure.flags = word[5] & 63u;
    if (word[5] & 0xf000) measure.flags &= ~SS_MEASURE_UNKNOWN;
    measure.switches = word[6];
    measure.counters[word[7] % 3] = {word[7], word[6], word[6]};
    end_ns[cpu] = measure.hdr.ts_ns;
    AppendRecord(&rings[cpu], &measure, sizeof(measure));
    if (word[1] % 4) continue;
    now_ns = std::max(now_ns, *std::max_element(end_ns, end_ns + kCpus)) + word[2] * 10u;
    for (uint32_t drained = 0; drained < kCpus; drained++) {
      if (word[1] % 32 == 4 && drained == word[1] / 32 % kCpus) continue;  // stalled
      AppendItem(&items, ItemKind::kRecords, drained, now_ns, rings[drained]);
      rings[drained].clear();
    }
    if (word[1] % 128 == 8)
      AppendItem(&items, word[2] % 2 ? ItemKind::kOffline : ItemKind::kOnline, cpu, now_ns);
    AppendItem(&items, ItemKind::kRoundEnd, 0, 0);
  }
  if (!run->Feed(&items)) std::abort();  // they are well-formed
}

}  // namespace
}  // namespace slotscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  if (size < 2) return 0;
  const bool as_items = data[1] % 2;
  // A day is allowed between two drains: coarse slots, or there are too many for a fuzzer's patience.
  const uint64_t slot_ns = (1 + data[0] % 4) * (as_items ? 1'000'000'000ull : 1'000'000ull);
  RdtShape rdt;
  if (data[1] & 2) rdt = {{{0, {0, 1}}, {1, {2}}}, true, true, (data[1] & 4) != 0};
  CheckedRun run(slot_ns, slot_ns * (2 + data[0] / 4), rdt);
  if (as_items)
    AsItems(&run, {data + 2, size - 2});
  else
    AsMeasures(&run, {data + 2, size - 2});
  run.Finish();
  return 0;
}
