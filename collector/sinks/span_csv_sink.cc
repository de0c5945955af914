// SPDX-License-Identifier: MIT
#include "sinks/span_csv_sink.h"

#include <fmt/core.h>

#include <iterator>

#include "sinks/span_order.h"

namespace slotscope {
namespace {

constexpr const char* kColumns =
    "span,tgid,start_time_ns,device,handle,start_ns,end_ns,launches,avg_threads,bytes,memory,end\n";

std::string DeviceText(int32_t device) { return device == kUnknownDevice ? "" : std::to_string(device); }

// A graph's threads cannot be seen.
std::string ThreadsText(uint64_t threads) { return threads == 0 ? "" : std::to_string(threads); }

}  // namespace

void SpanCsvSink::WriteHeader(const HeaderLines& lines) { WriteCsvHeader(lines, kColumns); }

void SpanCsvSink::Append(const KernelSpan& span) {
  fmt::format_to(std::back_inserter(text_), "kernels,{},{},{},{:#x},{},{},{},{},,,{}\n",
                 span.process.tgid, span.process.start_time_ns, DeviceText(span.device), span.stream,
                 span.start_ns, span.end_ns, span.nr_launches, ThreadsText(span.avg_threads),
                 kKernelsEndNames[static_cast<size_t>(span.end)]);
}

void SpanCsvSink::Append(const MemorySpan& span) {
  fmt::format_to(std::back_inserter(text_), "memory,{},{},{},{:#x},{},{},,,{},{},{}\n",
                 span.process.tgid, span.process.start_time_ns, DeviceText(span.device), span.handle,
                 span.start_ns, span.end_ns, span.bytes, NameOf(span.kind),
                 span.leaked ? "leaked" : "freed");
}

void SpanCsvSink::Append(const Slot& slot) {
  for (const KernelSpan* span : InOrder(slot.gpu_detail.spans.kernels)) Append(*span);
  for (const MemorySpan* span : InOrder(slot.gpu_detail.spans.memory)) Append(*span);
  nr_spans_ += slot.gpu_detail.spans.kernels.size() + slot.gpu_detail.spans.memory.size();
}

std::string SpanCsvSink::Contents() const { return fmt::format("{} spans", nr_spans_); }

}  // namespace slotscope
