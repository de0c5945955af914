// SPDX-License-Identifier: MIT
#include "merge/merger.h"

#include <algorithm>
#include <functional>

namespace slotscope {
namespace {

// What must keep its place among the messages but is none; no message has this type.
constexpr uint16_t kDumpEndType = 0xffff;
// Consumed messages are cut off a stream's front when there are this many.
constexpr size_t kCompactAt = 4096;

ss_any_message MakeDumpEnd(uint64_t begin_ns, uint64_t end_ns) {
  ss_any_message message = {};
  message.hdr.ts_ns = end_ns;
  message.hdr.type = kDumpEndType;
  message.tick.due_ns = begin_ns;
  return message;
}

ss_any_message MakeOffline(size_t cpu, uint64_t ts_ns) {
  ss_any_message message = {};
  message.hdr = {ts_ns, SS_CPU_STATE, sizeof(ss_cpu_state), static_cast<uint32_t>(cpu)};
  return message;
}

}  // namespace

Merger::Merger(size_t nr_cpus, uint64_t window_ns, MergeSink* sink)
    : nr_cpus_(nr_cpus), window_ns_(window_ns), sink_(sink), streams_(nr_cpus + 1) {
  heap_.reserve(streams_.size());
}

void Merger::OnFrame(size_t stream_index, const FrameBuffer& frame) {
  Stream& stream = streams_[stream_index];
  uint64_t value = frame.header.value;
  switch (frame.header.kind) {
    case FrameKind::kMessage:
      OnMessage(stream_index, frame);
      break;
    case FrameKind::kRound:
      if (value > kGraceNs) stream.passed_ns = std::max(stream.passed_ns, value - kGraceNs);
      break;
    case FrameKind::kLost:
      stats_.nr_lost += value;
      break;
    case FrameKind::kDropped:
      stats_.nr_dropped += value;
      break;
    case FrameKind::kMalformed:
      stats_.nr_malformed += value;
      break;
    case FrameKind::kOnline:
      stream.online = true;
      stream.stalled = false;
      stream.passed_ns = std::max(stream.passed_ns, value);
      break;
    case FrameKind::kExpected:
      sink_->OnExpected(static_cast<int>(stream_index));
      break;
    case FrameKind::kOffline:
      stream.online = false;
      Insert(&stream, MakeOffline(stream_index, std::max(value, watermark_ns_)));
      break;
    case FrameKind::kDumpBegin:
      dump_begin_ns_ = value;
      break;
    case FrameKind::kDumpEnd:
      Insert(&stream, MakeDumpEnd(dump_begin_ns_, value));
      break;
  }
}

void Merger::OnMessage(size_t stream_index, const FrameBuffer& frame) {
  ss_any_message message;
  switch (DecodeMessage({frame.payload.data(), frame.header.size}, &message)) {
    case Verdict::kUnknownType:
      stats_.nr_unknown++;
      return;
    case Verdict::kMalformed:
      stats_.nr_malformed++;
      return;
    case Verdict::kValid:
      break;
  }
  // A ring is written by its CPU only; the dump stream carries any CPU's number.
  if (stream_index < nr_cpus_ && message.hdr.cpu != stream_index) {
    stats_.nr_malformed++;
    return;
  }
  stats_.nr_messages++;
  Stream& stream = streams_[stream_index];
  if (message.hdr.ts_ns < watermark_ns_) {
    stats_.nr_late++;
    HandOut(message, true);
    return;
  }
  Insert(&stream, message);
}

void Merger::HandOut(const ss_any_message& message, bool late) {
  if (message.hdr.type == kDumpEndType)
    sink_->OnDumpEnd(message.tick.due_ns);
  else
    sink_->OnMessage(message, late);
}

void Merger::Insert(Stream* stream, const ss_any_message& message) {
  auto& pending = stream->pending;
  if (stream->first == pending.size() || stream->first >= kCompactAt) {
    pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(stream->first));
    stream->first = 0;
  }
  pending.push_back(message);
  size_t at = pending.size() - 1;
  if (at > stream->first && pending[at - 1].hdr.ts_ns > message.hdr.ts_ns) {
    stats_.nr_reordered++;
    do {
      pending[at] = pending[at - 1];
      at--;
    } while (at > stream->first && pending[at - 1].hdr.ts_ns > message.hdr.ts_ns);
    pending[at] = message;
  }
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

void Merger::HandOutUpTo(uint64_t limit_ns) {
  heap_.clear();
  auto later = std::greater<>();
  for (size_t i = 0; i < streams_.size(); i++)
    if (streams_[i].first < streams_[i].pending.size())
      heap_.emplace_back(streams_[i].pending[streams_[i].first].hdr.ts_ns, i);
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty() && heap_.front().first <= limit_ns) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Stream& stream = streams_[heap_.back().second];
    HandOut(stream.pending[stream.first++], false);
    if (stream.first < stream.pending.size()) {
      heap_.back().first = stream.pending[stream.first].hdr.ts_ns;
      std::push_heap(heap_.begin(), heap_.end(), later);
    } else {
      heap_.pop_back();
    }
  }
}

void Merger::Advance() {
  uint64_t watermark_ns = ComputeWatermark();
  if (watermark_ns <= watermark_ns_) return;
  // In steps of a window, so that the slots that are open at a time stay few however late we are.
  if (watermark_ns_ == 0) watermark_ns_ = watermark_ns - std::min(watermark_ns, window_ns_);
  while (watermark_ns_ < watermark_ns) {
    uint64_t step_ns = std::min(watermark_ns, watermark_ns_ + window_ns_);
    HandOutUpTo(step_ns - 1);  // a message at the watermark may still get company
    watermark_ns_ = step_ns;
    sink_->OnWatermark(watermark_ns_);
  }
}

void Merger::Flush() {
  Advance();
  // What was written while the last drains ran. A timestamp further ahead is a broken one.
  uint64_t newest_ns = 0;
  for (const Stream& stream : streams_) newest_ns = std::max(newest_ns, stream.passed_ns);
  HandOutUpTo(newest_ns + kGraceNs + window_ns_);
  for (Stream& stream : streams_) {
    stats_.nr_malformed += stream.pending.size() - stream.first;
    stream.pending.clear();
    stream.first = 0;
  }
}

}  // namespace slotscope
