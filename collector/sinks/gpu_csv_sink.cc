// SPDX-License-Identifier: MIT
#include "sinks/gpu_csv_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/escape.h"
#include "slots/column.h"

namespace slotscope {
namespace {

// Behind these come the values that there are more of (kNrMiddle).
constexpr const char* kColumns =
    "slot_start_ns,slot_start_unix_ns,kind,gpu,gpu_uuid,tgid,start_time_ns,comm,cuda_device,"
    "gpu_mem_bytes,gpu_active_ns,gpu_launches,process_sm_active_pct,sm_active_pct,sm_active_source,"
    "sm_active_from_ns,sm_active_to_ns,gpu_used_bytes,gpu_total_bytes";

// Of GpuValue: those that stand in the middle of a row. What has come since is at its end.
constexpr size_t kNrMiddle = 3;

// Millionths as a percentage.
std::string Percent(uint64_t ppm) { return fmt::format("{}.{:04}", ppm / 10'000, ppm % 10'000); }

}  // namespace

void GpuCsvSink::WriteHeader(const HeaderLines& lines) {
  std::string columns = kColumns;
  for (size_t i = kNrMiddle; i < kNrGpuValues; i++)
    columns += fmt::format(",{}", ColumnName(RowPart::kGpu, i));
  WriteCsvHeader(lines, columns + '\n');
}

void GpuCsvSink::AppendBegin(const Slot& slot, const char* kind, int32_t gpu) {
  const auto unix_ns = static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns;
  fmt::format_to(std::back_inserter(text_), "{},{},{},", slot.start_ns, unix_ns, kind);
  if (gpu != kUnknownGpu) {
    const GpuDevice& device = gpus_[static_cast<size_t>(gpu)];
    fmt::format_to(std::back_inserter(text_), "{},{}", device.label(), device.uuid);
  } else {
    text_ += ',';
  }
  nr_rows_++;
}

void GpuCsvSink::AppendValues(const GpuRow& row, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    text_ += ',';
    if (!(row.unmeasured >> i & 1)) text_ += std::to_string(row.values[i]);
  }
}

void GpuCsvSink::AppendEnd(const GpuRow& row) {
  AppendValues(row, kNrMiddle, kNrGpuValues);
  text_ += '\n';
}

// Its share of the slot, by its spans; nothing else tells processes apart.
void GpuCsvSink::Append(const Slot& slot, const GpuPart& part) {
  AppendBegin(slot, "process", part.gpu);
  fmt::format_to(std::back_inserter(text_), ",{},{},{},{}", part.process.tgid,
                 part.process.start_time_ns, EscapeName(CommText(part.comm)),
                 part.device == kUnknownDevice ? "" : std::to_string(part.device));
  AppendValues(part.row, 0, kNrMiddle);
  if (part.row.unmeasured >> kGpuActiveNs & 1) {
    text_ += ",,,,,,,";
  } else {
    const uint64_t ppm = std::min<uint64_t>(
        part.row.values[kGpuActiveNs] * 1'000'000 / (slot.end_ns - slot.start_ns), 1'000'000);
    fmt::format_to(std::back_inserter(text_), ",{},,spans,{},{},,", Percent(ppm), slot.start_ns,
                   slot.end_ns);
  }
  AppendEnd(part.row);
}

void GpuCsvSink::Append(const Slot& slot, const GpuTotal& total) {
  AppendBegin(slot, "gpu", total.gpu);
  text_ += ",,,,";
  AppendValues(total.row, 0, kNrMiddle);
  text_ += ",,";
  if (total.known & kGpuSampleSmActive) {
    fmt::format_to(std::back_inserter(text_), "{},gpm,{},{}", Percent(total.sm_active_ppm),
                   total.sm_since_ns, total.sm_until_ns);
  } else if (!(total.row.unmeasured >> kGpuActiveNs & 1)) {
    const uint64_t ppm = std::min<uint64_t>(
        total.row.values[kGpuActiveNs] * 1'000'000 / (slot.end_ns - slot.start_ns), 1'000'000);
    fmt::format_to(std::back_inserter(text_), "{},spans,{},{}", Percent(ppm), slot.start_ns,
                   slot.end_ns);
  } else {
    text_ += ",,,";
  }
  text_ += ',';
  if (total.known & kGpuSampleUsed) text_ += std::to_string(total.used_bytes);
  text_ += ',';
  if (const uint64_t bytes = gpus_[static_cast<size_t>(total.gpu)].total_bytes)
    text_ += std::to_string(bytes);
  AppendEnd(total.row);
}

void GpuCsvSink::Append(const Slot& slot) {
  for (const GpuPart& part : slot.gpu_detail.parts) Append(slot, part);
  for (const GpuTotal& total : slot.gpu_detail.totals) Append(slot, total);
}

std::string GpuCsvSink::Contents() const { return fmt::format("{} rows", nr_rows_); }

}  // namespace slotscope
