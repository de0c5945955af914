// SPDX-License-Identifier: MIT
#include "merge/merger.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/escape.h"
#include "base/trim.h"

namespace slotscope {
namespace {

constexpr size_t kMaxHeld = 1u << 18;  // some 70 MB of one CPU
constexpr uint64_t kTrimPeriodNs = 1'000'000'000;
// PERF_RECORD_LOST: a u64 id, then the number of records.
constexpr size_t kNrLostAt = sizeof(perf_event_header) + sizeof(uint64_t);

// Up to the first 0.
std::string_view TextOf(std::span<const std::byte> payload) {
  const auto* text = reinterpret_cast<const char*>(payload.data());
  return {text, strnlen(text, payload.size())};
}

// Of the clock before and after.
bool IsInterval(const ItemHeader& item) {
  return item.end_ns >= item.begin_ns && item.end_ns - item.begin_ns <= kMaxJumpNs;
}

// Takes the first of several messages, one behind the other; empty if there is none that is whole.
std::span<const std::byte> TakeMessage(std::span<const std::byte>* messages, ss_hdr* hdr) {
  if (messages->size() < sizeof(*hdr)) return {};
  *hdr = Load<ss_hdr>(messages->data());
  if (hdr->size < sizeof(*hdr) || hdr->size > messages->size()) return {};
  const auto message = messages->first(hdr->size);
  *messages = messages->subspan(hdr->size);
  return message;
}

// What both kinds of measures have.
const ss_measure& HeadOf(const ss_measure& measure) { return measure; }
const ss_measure& HeadOf(const ss_long_measure& measure) { return measure.measure; }

}  // namespace

Merger::Held Merger::MakeOffline(size_t cpu, uint64_t ts_ns) {
  Held message;
  message.cpu_state = {{ts_ns, SS_CPU_STATE, sizeof(ss_cpu_state), static_cast<uint32_t>(cpu)}, 0, 0};
  return message;
}

// Where it begins on its CPU.
uint64_t Merger::StartOf(const Held& message) {
  return message.hdr.type == SS_MEASURE ? message.measure.start_ns : message.hdr.ts_ns;
}

// One of no length follows the one that ends where it does.
bool Merger::IsEarlier(const Held& a, const Held& b) {
  return a.hdr.ts_ns != b.hdr.ts_ns ? a.hdr.ts_ns < b.hdr.ts_ns : StartOf(a) < StartOf(b);
}

Merger::Merger(size_t nr_cpus, uint64_t window_ns, MergeSink* sink, ItemSink* others,
               size_t measure_size)
    : nr_cpus_(nr_cpus),
      window_ns_(window_ns),
      sink_(sink),
      others_(others),
      measure_size_(measure_size),
      streams_(nr_cpus + 1) {}

bool Merger::OnItems(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(ItemHeader)) return false;
    auto item = Load<ItemHeader>(bytes.data());
    bytes = bytes.subspan(sizeof(item));
    if (item.size > bytes.size() || item.size % kItemAlign || item.stream > nr_cpus_) return false;
    if (!OnItem(item, bytes.first(item.size))) return false;
    bytes = bytes.subspan(item.size);
  }
  return true;
}

bool Merger::OnItem(const ItemHeader& item, std::span<const std::byte> payload) {
  if (item.kind != ItemKind::kRoundEnd) {
    if (item.begin_ns > UINT64_MAX / 2) return false;  // sums of times must not wrap
    const auto jump_ns = static_cast<int64_t>(item.begin_ns - clock_ns_);
    if (clock_ns_ && std::abs(jump_ns) > static_cast<int64_t>(kMaxJumpNs)) return false;
    if (clock_ns_ && jump_ns > 0) {
      const auto step_ns = static_cast<uint64_t>(jump_ns);
      (step_ns > kPauseNs ? paused_ns_ : run_ns_) += step_ns;
      if (paused_ns_ > kMaxPausesNs + run_ns_) return false;
    }
    clock_ns_ = std::max(clock_ns_, item.begin_ns);
  }
  switch (item.kind) {
    case ItemKind::kRecords:
    case ItemKind::kOnline:
    case ItemKind::kOffline:
    case ItemKind::kExpected:
      return item.stream < nr_cpus_ && OnCpuItem(item, payload);
    case ItemKind::kRoundEnd:
      stats_.nr_rounds++;
      Advance();
      return true;
    case ItemKind::kDumpBegin:
      dump_begin_ns_ = item.begin_ns;
      return true;
    case ItemKind::kDump:
      if (!IsInterval(item)) return false;
      OnDump(DrainOf(item), payload);
      return true;
    case ItemKind::kDumpEnd:
      dumps_.push_back({dump_begin_ns_, item.begin_ns});
      return true;
    case ItemKind::kClock:
      sink_->OnClock(item.begin_ns, static_cast<int64_t>(item.end_ns));
      return true;
    case ItemKind::kNote:
      sink_->OnNote(item.begin_ns, EscapeControls(TextOf(payload)));
      return true;
    case ItemKind::kPods:
      sink_->OnPods(item.begin_ns, TextOf(payload));
      return true;
    case ItemKind::kSlotLength: {
      uint64_t slot_ns = 0;
      if (payload.size() >= sizeof(slot_ns)) slot_ns = Load<uint64_t>(payload.data());
      if (slot_ns == 0 || slot_ns > kMaxSlotNs) return false;
      sink_->OnSlotLength(item.begin_ns, slot_ns);
      return true;
    }
    case ItemKind::kWaitCauses:
      if (payload.size() < sizeof(uint64_t)) return false;
      sink_->OnWaitCauses(item.begin_ns, Load<uint64_t>(payload.data()) != 0);
      return true;
    case ItemKind::kLosses:
    case ItemKind::kLostCalls:
    case ItemKind::kGpuView:
    case ItemKind::kGpuSample:
    case ItemKind::kRemoteMemory:
    case ItemKind::kRemoteStraggle:
    case ItemKind::kRemoteGone:
    case ItemKind::kRemoteCounts:
      return !others_ || others_->OnItem(item, payload);
  }
  return false;
}

bool Merger::OnCpuItem(const ItemHeader& item, std::span<const std::byte> payload) {
  Stream& stream = streams_[item.stream];
  switch (item.kind) {
    case ItemKind::kRecords:
      if (!IsInterval(item)) return false;
      OnRecords(DrainOf(item), payload);
      if (!(item.flags & kItemMore) && item.begin_ns > kGraceNs)
        stream.passed_ns = std::max(stream.passed_ns, item.begin_ns - kGraceNs);
      break;
    case ItemKind::kOnline:
      stream.online = true;
      stream.stalled = false;
      stream.passed_ns = std::max(stream.passed_ns, item.begin_ns);
      break;
    case ItemKind::kOffline:
      stream.online = false;
      Hold(&stream, MakeOffline(item.stream, EndOf(stream)));
      break;
    default:
      sink_->OnExpected(static_cast<int>(item.stream));
  }
  return true;
}

// A message is written before its drain ends, and drained soon.
Merger::Drain Merger::DrainOf(const ItemHeader& item) {
  return {&streams_[item.stream],
          item.stream,
          {item.begin_ns - std::min(item.begin_ns, kMaxJumpNs), item.end_ns + kGraceNs}};
}

template <typename Measure>
inline void Merger::OnMeasure(const Drain& drain, const Measure& whole) {
  const ss_measure& measure = HeadOf(whole);
  if (!IsValidMeasure(whole) || !drain.possible.Contains(measure.hdr.ts_ns)) {
    stats_.nr_malformed++;
    return;
  }
  stats_.nr_messages++;
  Stream& stream = *drain.stream;
  const bool late = measure.hdr.ts_ns < watermark_ns_;
  stats_.nr_late += late;
  if (measure.start_ns == stream.continues_at_ns || late) {
    stream.continues_at_ns = std::max<uint64_t>(stream.continues_at_ns, measure.hdr.ts_ns);
    if (!late && !stream.held.empty()) stats_.nr_reordered++;  // it was overtaken by those
    HandOutMeasure(whole);
    if (!stream.held.empty()) HandOutHeld(&stream, 0);
    return;
  }
  Held message;
  std::memcpy(&message, &whole, sizeof(whole));
  Hold(&stream, message);
}

inline void Merger::OnTick(const Drain& drain, const ss_tick& tick) {
  if (!drain.possible.Contains(tick.hdr.ts_ns)) {
    stats_.nr_malformed++;
    return;
  }
  stats_.nr_messages++;
  stats_.nr_late += tick.hdr.ts_ns < watermark_ns_;
  sink_->OnTick(tick);
}

// `record` has room for a message's header.
inline void Merger::OnRecord(const Drain& drain, std::span<const std::byte> record) {
  const auto raw_size = Load<uint32_t>(record.data() + kRawSizeAt);
  const std::byte* at = record.data() + kMessageAt;
  const auto* hdr = reinterpret_cast<const ss_hdr*>(at);
  // The raw size has the padding in it. A ring is written by its CPU only.
  if (raw_size > record.size() - kMessageAt || hdr->size > raw_size ||
      hdr->size + kItemAlign <= raw_size || hdr->cpu != drain.cpu) {
    stats_.nr_malformed++;
    return;
  }
  if (hdr->type == SS_MEASURE && hdr->size >= measure_size_) {
    if (measure_size_ == sizeof(ss_measure) && hdr->size < sizeof(ss_measure) + sizeof(ss_counter))
      OnMeasure(drain, *reinterpret_cast<const ss_measure*>(at));
    else
      OnMeasure(drain, CopyLongMeasure(hdr, measure_size_));
  } else if (hdr->type == SS_TICK && hdr->size >= sizeof(ss_tick)) {
    OnTick(drain, *reinterpret_cast<const ss_tick*>(at));
  } else if (hdr->type == SS_CUDA_CALLS && hdr->size >= sizeof(ss_hdr)) {
    OnCalls(drain, {at + sizeof(ss_hdr), hdr->size - sizeof(ss_hdr)});
  } else {
    OnOther(drain, {at, hdr->size});
  }
}

// All in front that continues the CPU's time, if nothing waits and nothing is late. Returns what is
// behind.
inline std::span<const std::byte> Merger::HandOutRun(const Drain& drain,
                                                     std::span<const std::byte> records) {
  Stream& stream = *drain.stream;
  if (!stream.held.empty() || stream.continues_at_ns < watermark_ns_) return records;
  if (measure_size_ != sizeof(ss_measure)) return records;
  Run run(records, drain.cpu, drain.possible, stream.continues_at_ns);
  sink_->OnRun(&run);
  stream.continues_at_ns = run.continues_at_ns();
  stats_.nr_messages += run.nr();
  return run.rest();
}

// What the kernel wrote into one ring, as it is.
void Merger::OnRecords(const Drain& drain, std::span<const std::byte> records) {
  while (!records.empty()) {
    records = HandOutRun(drain, records);
    if (records.empty()) return;
    auto header = Load<perf_event_header>(records.data());
    if (header.size < sizeof(header) || header.size % kItemAlign || header.size > records.size()) {
      stats_.nr_malformed++;
      return;
    }
    auto record = records.first(header.size);
    records = records.subspan(header.size);
    if (header.type == PERF_RECORD_SAMPLE && header.size >= kMessageAt + sizeof(ss_hdr)) {
      OnRecord(drain, record);
    } else if (header.type == PERF_RECORD_LOST && header.size >= kNrLostAt + sizeof(uint64_t)) {
      stats_.nr_lost += Load<uint64_t>(record.data() + kNrLostAt);
    } else {
      stats_.nr_malformed++;
    }
  }
}

// Returns whether it is used.
bool Merger::Count(const Drain& drain, const ss_hdr& hdr, Decoded decoded) {
  if (decoded == Decoded::kUnknownType) {
    stats_.nr_unknown++;
    return false;
  }
  if (decoded == Decoded::kMalformed || !drain.possible.Contains(hdr.ts_ns)) {
    OnMalformed(drain, hdr.type);
    return false;
  }
  stats_.nr_messages++;
  stats_.nr_late += hdr.ts_ns < watermark_ns_;
  return true;
}

void Merger::OnText(const Drain& drain, std::span<const std::byte> bytes) {
  ss_text text;
  const Decoded decoded = DecodeText(bytes, &text);
  if (Count(drain, text.hdr, decoded)) sink_->OnText(text, text.hdr.ts_ns < watermark_ns_);
}

void Merger::OnOther(const Drain& drain, std::span<const std::byte> bytes) {
  if (bytes.size() >= sizeof(ss_hdr) && IsText(Load<ss_hdr>(bytes.data()).type))
    return OnText(drain, bytes);
  ss_any_message message;
  const Decoded decoded = DecodeMessage(bytes, &message);
  if (!Count(drain, message.hdr, decoded)) return;
  const bool late = message.hdr.ts_ns < watermark_ns_;
  if (message.hdr.type != SS_CPU_STATE) {
    sink_->OnMessage(message, late);
    return;
  }
  Held held;
  held.cpu_state = message.cpu_state;
  if (late)
    HandOut(drain.stream, held);
  else
    Hold(drain.stream, held);
}

// What is behind a call that cannot be is not found any more.
void Merger::OnCalls(const Drain& drain, std::span<const std::byte> calls) {
  while (!calls.empty()) {
    ss_hdr hdr;
    const auto call = TakeMessage(&calls, &hdr);
    if (call.empty() || hdr.type != SS_CUDA_CALL) {
      OnMalformed(drain, SS_CUDA_CALL);
      return;
    }
    OnOther(drain, call);
  }
}

// What a CUDA call did that cannot be read is as unknown as one that was lost.
void Merger::OnMalformed(const Drain& drain, uint16_t type) {
  stats_.nr_malformed++;
  if (type != SS_CUDA_CALL) return;
  stats_.nr_malformed_calls++;
  sink_->OnMalformedCall(drain.stream->passed_ns, drain.possible.latest_ns);
}

// Messages of a state dump carry any CPU's number, and only state.
void Merger::OnDump(const Drain& drain, std::span<const std::byte> messages) {
  while (!messages.empty()) {
    ss_hdr hdr;
    const auto message = TakeMessage(&messages, &hdr);
    if (message.empty() || hdr.type == SS_MEASURE || hdr.type == SS_CPU_STATE || hdr.type == SS_TICK) {
      stats_.nr_malformed++;
      return;
    }
    OnOther(drain, message);
  }
}

// Where what is known of a CPU ends. Its ring has just been drained: what is behind it is time without
// it.
uint64_t Merger::EndOf(const Stream& stream) const {
  uint64_t end_ns = std::max(stream.continues_at_ns, watermark_ns_);
  for (const Held& message : stream.held) end_ns = std::max<uint64_t>(end_ns, message.hdr.ts_ns);
  return end_ns;
}

void Merger::Hold(Stream* stream, const Held& message) {
  auto& held = stream->held;
  if (held.size() >= kMaxHeld) HandOutHeld(stream, UINT64_MAX);  // a round without an end
  held.push_back(message);
  if (held.size() > 1 && IsEarlier(message, held[stream->newest])) {
    stats_.nr_reordered++;
    stream->sorted = false;  // until somebody looks: many may come in the wrong order
  } else {
    stream->newest = held.size() - 1;
  }
  if (StartOf(message) == stream->continues_at_ns) HandOutHeld(stream, 0);
}

void Merger::HandOut(Stream* stream, const Held& message) {
  stream->continues_at_ns = std::max<uint64_t>(stream->continues_at_ns, message.hdr.ts_ns);
  if (message.hdr.type != SS_MEASURE)
    sink_->OnCpuState(message.cpu_state);
  else if (NrMore(message.measure) == 0)
    sink_->OnMeasure(message.measure);
  else
    sink_->OnLongMeasure(message.long_measure);
}

// What is before until_ns, and what then continues the CPU's time.
void Merger::HandOutHeld(Stream* stream, uint64_t until_ns) {
  stream->most_held = std::max(stream->most_held, stream->held.size());
  if (!std::exchange(stream->sorted, true))
    std::stable_sort(stream->held.begin(), stream->held.end(), IsEarlier);
  auto at = stream->held.begin();
  while (at != stream->held.end() &&
         (at->hdr.ts_ns < until_ns || StartOf(*at) == stream->continues_at_ns))
    HandOut(stream, *at++);
  stream->held.erase(stream->held.begin(), at);
  stream->newest = stream->held.empty() ? 0 : stream->held.size() - 1;
}

uint64_t Merger::ComputeWatermark() {
  uint64_t newest_ns = 0;
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++)
    if (streams_[cpu].online) newest_ns = std::max(newest_ns, streams_[cpu].passed_ns);
  uint64_t watermark_ns = newest_ns;
  for (size_t cpu = 0; cpu < nr_cpus_; cpu++) {
    Stream& stream = streams_[cpu];
    if (!stream.online) continue;
    bool behind = newest_ns - stream.passed_ns > window_ns_;
    if (behind && !stream.stalled) stats_.nr_stalls++;
    stream.stalled = behind;
    if (!behind) watermark_ns = std::min(watermark_ns, stream.passed_ns);
  }
  return watermark_ns;
}

void Merger::Advance() {
  uint64_t watermark_ns = ComputeWatermark();
  if (watermark_ns <= watermark_ns_) return;
  watermark_ns_ = watermark_ns;
  // A message at the watermark may still get company.
  for (Stream& stream : streams_)
    if (!stream.held.empty()) HandOutHeld(&stream, watermark_ns_);
  auto untold = std::find_if(dumps_.begin(), dumps_.end(),
                             [&](const Dump& dump) { return dump.end_ns >= watermark_ns_; });
  for (auto dump = dumps_.begin(); dump != untold; ++dump)
    sink_->OnDumpEnd(dump->begin_ns, dump->end_ns);
  dumps_.erase(dumps_.begin(), untold);
  if (watermark_ns_ >= next_trim_ns_) Trim();
  sink_->OnWatermark(watermark_ns_);
}

// What a burst took goes back once it has not been needed for a while.
void Merger::Trim() {
  for (Stream& stream : streams_) {
    if (stream.held.empty()) FreeIfTooLarge(&stream.held, stream.most_held);
    stream.most_held = 0;
  }
  next_trim_ns_ = watermark_ns_ + kTrimPeriodNs;
}

void Merger::Flush() {
  Advance();
  // What was written while the last drains ran.
  for (Stream& stream : streams_) HandOutHeld(&stream, UINT64_MAX);
  for (const Dump& dump : dumps_) sink_->OnDumpEnd(dump.begin_ns, dump.end_ns);
  dumps_.clear();
}

}  // namespace slotscope
