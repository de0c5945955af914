// SPDX-License-Identifier: MIT
#include "sinks/span_csv_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

namespace slotscope {
namespace {

constexpr size_t kBufferBytes = 256u << 10;

const char* NameOf(ss_cuda_memory kind) {
  switch (kind) {
    case SS_CUDA_LINEAR:
      return "linear";
    case SS_CUDA_MANAGED:
      return "managed";
    case SS_CUDA_HOST:
      return "host";
    case SS_CUDA_ARRAY:
      return "array";
    case SS_CUDA_MIPMAPPED_ARRAY:
      return "mipmapped_array";
  }
  return "";
}

std::string DeviceText(int32_t device) { return device == kUnknownDevice ? "" : std::to_string(device); }

// A graph's threads cannot be seen.
std::string ThreadsText(uint64_t threads) { return threads == 0 ? "" : std::to_string(threads); }

// In the order of their ends, so that the same slot looks the same however its calls came.
template <typename Span>
std::vector<const Span*> InOrder(const std::vector<Span>& spans) {
  std::vector<const Span*> sorted;
  for (const Span& span : spans) sorted.push_back(&span);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Span* a, const Span* b) {
    return std::tie(a->end_ns, a->start_ns, a->process) < std::tie(b->end_ns, b->start_ns, b->process);
  });
  return sorted;
}

}  // namespace

void SpanCsvSink::WriteHeader(const HeaderLines& lines) {
  for (const auto& [key, value] : lines)
    fmt::format_to(std::back_inserter(text_), "# {}: {}\n", key, value);
  text_ +=
      "span,tgid,start_time_ns,device,handle,start_ns,end_ns,launches,avg_threads,bytes,memory,end\n";
  Flush();
}

void SpanCsvSink::Append(const KernelSpan& span) {
  fmt::format_to(std::back_inserter(text_), "kernels,{},{},{},{:#x},{},{},{},{},,,{}\n",
                 span.process.tgid, span.process.start_time_ns, DeviceText(span.device), span.stream,
                 span.start_ns, span.end_ns, span.nr_launches, ThreadsText(span.avg_threads),
                 span.forced ? "forced" : "waited");
}

void SpanCsvSink::Append(const MemorySpan& span) {
  fmt::format_to(std::back_inserter(text_), "memory,{},{},{},{:#x},{},{},,,{},{},{}\n",
                 span.process.tgid, span.process.start_time_ns, DeviceText(span.device), span.handle,
                 span.start_ns, span.end_ns, span.bytes, NameOf(span.kind),
                 span.leaked ? "leaked" : "freed");
}

void SpanCsvSink::OnSlot(const Slot& slot) {
  for (const KernelSpan* span : InOrder(slot.gpu_spans.kernels)) Append(*span);
  for (const MemorySpan* span : InOrder(slot.gpu_spans.memory)) Append(*span);
  nr_spans_ += slot.gpu_spans.kernels.size() + slot.gpu_spans.memory.size();
  if (text_.size() >= kBufferBytes) Flush();
}

void SpanCsvSink::Flush() {
  if (status_.ok() && !text_.empty()) status_ = file_->Write(text_);
  text_.clear();
}

Status SpanCsvSink::Finish() {
  Flush();
  return status_;
}

}  // namespace slotscope
