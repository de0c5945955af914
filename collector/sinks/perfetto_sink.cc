// SPDX-License-Identifier: MIT
#include "sinks/perfetto_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <protozero/pbf_writer.hpp>

#include "base/escape.h"
#include "sinks/span_order.h"
#include "slots/column.h"

namespace slotscope {
namespace {

using protozero::pbf_writer;

constexpr uint32_t kSequence = 1;

// Of Perfetto's protos/perfetto/trace/*.proto, which keep their numbers.
namespace trace {
constexpr uint32_t kPacket = 1;
}
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11,
                   kTimestampClock = 58, kTrackDescriptor = 60;
}
namespace clock_snapshot {
constexpr uint32_t kClocks = 1, kPrimaryTraceClock = 2;
constexpr uint32_t kClockId = 1, kTimestamp = 2;  // of a clock
constexpr uint32_t kRealtime = 1, kMonotonic = 3;
}  // namespace clock_snapshot
namespace track_descriptor {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kParentUuid = 5, kCounter = 8;
constexpr uint32_t kPid = 1, kProcessName = 6;  // of a process
constexpr uint32_t kUnit = 3;                   // of a counter
constexpr uint32_t kTimeNs = 1, kCount = 2, kBytes = 3;
}  // namespace track_descriptor
namespace track_event {
constexpr uint32_t kAnnotations = 4, kType = 9, kTrackUuid = 11, kName = 23, kCounterValue = 30;
constexpr uint32_t kBegin = 1, kEnd = 2, kCounter = 4;    // types
constexpr uint32_t kUintValue = 3, kAnnotationName = 10;  // of an annotation
constexpr uint32_t kFlow = 47, kTerminatingFlow = 48;
}  // namespace track_event

void BeginPacket(pbf_writer* to, uint64_t ns) {
  to->add_uint64(packet::kTimestamp, ns);
  to->add_uint32(packet::kTimestampClock, clock_snapshot::kMonotonic);
  to->add_uint32(packet::kSequenceId, kSequence);
}

// By Unit.
constexpr uint32_t kUnits[] = {0, track_descriptor::kTimeNs, track_descriptor::kCount,
                               track_descriptor::kBytes, 0};

// In place of a device.
constexpr int32_t kWaitedLane = INT32_MIN, kRanInsteadLane = INT32_MIN + 1;

std::string NameOf(const Comm& comm, ProcessKey key) {
  return comm == Comm{} ? std::to_string(key.tgid)
                        : fmt::format("{} {}", EscapeName(CommText(comm)), key.tgid);
}

std::string DeviceName(int32_t device) {
  return device == kUnknownDevice ? "unknown device" : fmt::format("device {}", device);
}

const Column& ColumnAt(size_t counter) {
  return counter < kSlotColumns.size() ? kSlotColumns[counter]
                                       : kMoreColumns[counter - kSlotColumns.size()];
}

}  // namespace

void PerfettoSink::WriteHeader(const HeaderLines&) {}

// From here on the wall clock is this much ahead.
void PerfettoSink::AppendClock(const Slot& slot) {
  if (has_clock_ && slot.unix_offset_ns == unix_offset_ns_) return;
  has_clock_ = true;
  unix_offset_ns_ = slot.unix_offset_ns;
  pbf_writer out(text_);
  pbf_writer in_packet(out, trace::kPacket);
  in_packet.add_uint32(packet::kSequenceId, kSequence);
  pbf_writer snapshot(in_packet, packet::kClockSnapshot);
  const std::pair<uint32_t, uint64_t> clocks[] = {
      {clock_snapshot::kMonotonic, slot.start_ns},
      {clock_snapshot::kRealtime, slot.start_ns + static_cast<uint64_t>(slot.unix_offset_ns)}};
  for (const auto& [id, ns] : clocks) {
    pbf_writer clock(snapshot, clock_snapshot::kClocks);
    clock.add_uint32(clock_snapshot::kClockId, id);
    clock.add_uint64(clock_snapshot::kTimestamp, ns);
  }
  snapshot.add_uint32(clock_snapshot::kPrimaryTraceClock, clock_snapshot::kMonotonic);
}

void PerfettoSink::Describe(const Process& process, ProcessKey key) {
  pbf_writer out(text_);
  pbf_writer in_packet(out, trace::kPacket);
  in_packet.add_uint32(packet::kSequenceId, kSequence);
  pbf_writer track(in_packet, packet::kTrackDescriptor);
  track.add_uint64(track_descriptor::kUuid, process.track);
  pbf_writer descriptor(track, track_descriptor::kProcess);
  descriptor.add_int32(track_descriptor::kPid, key.tgid);
  if (!process.name.empty()) descriptor.add_string(track_descriptor::kProcessName, process.name);
}

uint64_t PerfettoSink::DescribeTrack(uint64_t parent, const std::string& name, uint32_t unit) {
  const uint64_t uuid = next_track_++;
  pbf_writer out(text_);
  pbf_writer in_packet(out, trace::kPacket);
  in_packet.add_uint32(packet::kSequenceId, kSequence);
  pbf_writer track(in_packet, packet::kTrackDescriptor);
  track.add_uint64(track_descriptor::kUuid, uuid);
  track.add_uint64(track_descriptor::kParentUuid, parent);
  track.add_string(track_descriptor::kName, name);
  if (unit == kNoUnit) return uuid;
  pbf_writer counter(track, track_descriptor::kCounter);
  counter.add_uint32(track_descriptor::kUnit, unit);
  return uuid;
}

PerfettoSink::Process& PerfettoSink::ProcessOf(ProcessKey key, const std::string& name) {
  auto [found, is_new] = processes_.try_emplace(key);
  Process& process = found->second;
  if (is_new) process.track = next_track_++;
  if (!is_new && (name.empty() || name == process.name)) return process;
  process.name = name;
  Describe(process, key);
  return process;
}

void PerfettoSink::Show(Process* process, size_t counter, uint64_t ns, uint64_t value) {
  uint64_t& uuid = process->tracks[counter];
  if (uuid != 0 && process->shown[counter] == value) return;
  process->shown[counter] = value;
  const Column& column = ColumnAt(counter);
  if (uuid == 0)
    uuid = DescribeTrack(process->track, std::string(column.name),
                         kUnits[static_cast<size_t>(column.unit)]);
  pbf_writer out(text_);
  pbf_writer in_packet(out, trace::kPacket);
  BeginPacket(&in_packet, ns);
  pbf_writer event(in_packet, packet::kTrackEvent);
  event.add_uint32(track_event::kType, track_event::kCounter);
  event.add_uint64(track_event::kTrackUuid, uuid);
  event.add_int64(track_event::kCounterValue,
                  static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  nr_values_++;
}

void PerfettoSink::ForgetTracks() {
  running_.clear();
  processes_.clear();
  lanes_.clear();
  nr_lanes_ = 0;
}

void PerfettoSink::Append(const Slot& slot) {
  AppendClock(slot);
  if (std::max(processes_.size(), nr_lanes_) > kMaxTracks) ForgetTracks();
  std::vector<Process*> ran = std::exchange(running_, {});
  for (const Row& row : slot.rows) {
    if (!IsProcess(row.kind)) continue;
    Process& process = ProcessOf(row.key, row.named ? EscapeName(CommText(row.comm)) : "");
    for (size_t i = 0; i < process.tracks.size(); i++)
      if (ColumnAt(i).is_value())
        if (const auto value = ValueOf(slot, row, ColumnAt(i))) Show(&process, i, slot.start_ns, *value);
    process.slot_ns = slot.start_ns;
    running_.push_back(&process);
  }
  for (Process* process : ran) {
    if (process->slot_ns == slot.start_ns) continue;
    for (size_t i = 0; i < process->tracks.size(); i++)
      if (process->tracks[i] && ColumnAt(i).adds) Show(process, i, slot.start_ns, 0);
  }
  AppendWaits(slot);
  for (const KernelSpan* span : InOrder(slot.gpu_detail.spans.kernels)) Append(*span);
  for (const MemorySpan* span : InOrder(slot.gpu_detail.spans.memory)) Append(*span);
  nr_spans_ += slot.gpu_detail.spans.kernels.size() + slot.gpu_detail.spans.memory.size();
}

void PerfettoSink::AppendSlice(uint64_t track, uint64_t start_ns, uint64_t end_ns,
                               const std::string& name,
                               const std::vector<std::pair<const char*, uint64_t>>& annotations,
                               uint32_t flow_field, uint64_t flow) {
  pbf_writer out(text_);
  {
    pbf_writer in_packet(out, trace::kPacket);
    BeginPacket(&in_packet, start_ns);
    pbf_writer event(in_packet, packet::kTrackEvent);
    event.add_uint32(track_event::kType, track_event::kBegin);
    event.add_uint64(track_event::kTrackUuid, track);
    event.add_string(track_event::kName, name);
    for (const auto& [key, value] : annotations) {
      pbf_writer annotation(event, track_event::kAnnotations);
      annotation.add_string(track_event::kAnnotationName, key);
      annotation.add_uint64(track_event::kUintValue, value);
    }
    if (flow_field) event.add_fixed64(flow_field, flow);
  }
  pbf_writer in_packet(out, trace::kPacket);
  BeginPacket(&in_packet, end_ns);
  pbf_writer event(in_packet, packet::kTrackEvent);
  event.add_uint32(track_event::kType, track_event::kEnd);
  event.add_uint64(track_event::kTrackUuid, track);
}

void PerfettoSink::Append(const KernelSpan& span) {
  // An event that was waited for ends a span before all that was launched in its stream has ended: the
  // next one may overlap.
  const uint64_t track = LaneOf({span.process, span.device, span.stream},
                                fmt::format("{} stream {:#x}", DeviceName(span.device), span.stream),
                                span.start_ns, span.end_ns);
  std::vector<std::pair<const char*, uint64_t>> annotations = {{"launches", span.nr_launches}};
  if (span.avg_threads) annotations.emplace_back("avg_threads", span.avg_threads);
  const std::string name =
      span.end == KernelsEnd::kWaited
          ? "kernels"
          : fmt::format("kernels ({})", kKernelsEndNames[static_cast<size_t>(span.end)]);
  AppendSlice(track, span.start_ns, span.end_ns, name, annotations);
}

// Spans come in the order of their ends: one fits behind all that ended before it began, and goes behind
// the last of these.
uint64_t PerfettoSink::LaneOf(const LaneKind& kind, const std::string& name, uint64_t start_ns,
                              uint64_t end_ns) {
  std::set<Lane>& lanes = lanes_[kind];
  const auto behind = lanes.upper_bound({start_ns, UINT64_MAX});
  uint64_t track;
  if (behind == lanes.begin()) {
    track = DescribeTrack(ProcessOf(kind.process, "").track, name);
    nr_lanes_++;
  } else {
    track = std::prev(behind)->second;
    lanes.erase(std::prev(behind));
  }
  lanes.insert({end_ns, track});
  return track;
}

void PerfettoSink::AppendWaits(const Slot& slot) {
  for (const Row& row : slot.rows) {
    if (!IsProcess(row.kind) || !row.wait) continue;
    const WaitRow& wait = slot.waits[row.wait - 1];
    if (wait.ran_ns * 1000 < (slot.end_ns - slot.start_ns) * kShownWaitPermille) continue;
    Waiting& waiting = waiting_[row.key];
    if (waiting.end_ns != slot.start_ns || waiting.ran != wait.ran_instead) {
      if (waiting.end_ns) Append(row.key, waiting);
      waiting = {wait.ran_instead, {}, slot.start_ns, slot.end_ns, 0};
    }
    waiting.end_ns = slot.end_ns;
    waiting.ns += wait.ran_ns;
  }
  for (const WaitDetail& one : slot.wait_details)
    if (one.has_ran() && one.ran_comm != Comm{})
      if (auto found = waiting_.find(one.waiter);
          found != waiting_.end() && found->second.ran == one.ran)
        found->second.ran_comm = one.ran_comm;
  std::erase_if(waiting_, [&](const auto& one) {
    if (one.second.end_ns == slot.end_ns) return false;
    Append(one.first, one.second);
    return true;
  });
}

// The arrow leads from who ran to who waited.
void PerfettoSink::Append(ProcessKey waiter, const Waiting& waiting) {
  const uint64_t arrow = ++nr_arrows_;
  const Process& process = ProcessOf(waiter, "");
  const std::string waiter_name = process.name.empty() ? std::to_string(waiter.tgid)
                                                       : fmt::format("{} {}", process.name, waiter.tgid);
  const std::string ran_name = NameOf(waiting.ran_comm, waiting.ran);
  ProcessOf(waiting.ran, waiting.ran_comm == Comm{} ? "" : EscapeName(CommText(waiting.ran_comm)));
  AppendSlice(LaneOf({waiting.ran, kRanInsteadLane}, "ran instead of", waiting.start_ns, waiting.end_ns),
              waiting.start_ns, waiting.end_ns, waiter_name, {{"ran_instead_ns", waiting.ns}},
              track_event::kFlow, arrow);
  AppendSlice(LaneOf({waiter, kWaitedLane}, "waited while it ran", waiting.start_ns, waiting.end_ns),
              waiting.start_ns, waiting.end_ns, ran_name, {{"ran_instead_ns", waiting.ns}},
              track_event::kTerminatingFlow, arrow);
}

void PerfettoSink::EndSegment() {
  for (const auto& [waiter, waiting] : waiting_) Append(waiter, waiting);
  waiting_.clear();
}

void PerfettoSink::Append(const MemorySpan& span) {
  const uint64_t track =
      LaneOf({span.process, span.device}, fmt::format("{} memory", DeviceName(span.device)),
             span.start_ns, span.end_ns);
  AppendSlice(track, span.start_ns, span.end_ns,
              fmt::format("{}{}", NameOf(span.kind), span.leaked ? " (leaked)" : ""),
              {{"bytes", span.bytes}, {"handle", span.handle}});
}

std::string PerfettoSink::Contents() const {
  return fmt::format("{} spans, {} arrows, {} values", nr_spans_, nr_arrows_, nr_values_);
}

}  // namespace slotscope
