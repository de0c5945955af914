// SPDX-License-Identifier: MIT
#include "sinks/gpu_csv_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/escape.h"

namespace slotscope {
namespace {

constexpr const char* kColumns =
    "slot_start_ns,slot_start_unix_ns,kind,gpu,gpu_uuid,tgid,start_time_ns,comm,cuda_device,"
    "gpu_mem_bytes,gpu_active_ns,gpu_launches,process_sm_active_pct,sm_active_pct,sm_active_source,"
    "sm_active_from_ns,sm_active_to_ns,gpu_used_bytes,gpu_total_bytes\n";

// Millionths as a percentage.
std::string Percent(uint64_t ppm) { return fmt::format("{}.{:04}", ppm / 10'000, ppm % 10'000); }

}  // namespace

void GpuCsvSink::WriteHeader(const HeaderLines& lines) { WriteCsvHeader(lines, kColumns); }

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

// In the columns gpu_mem_bytes, gpu_active_ns and gpu_launches.
void GpuCsvSink::AppendValues(const GpuRow& row) {
  static_assert(kNrGpuValues == 3, "a new value needs a column at the end of kColumns");
  for (size_t i = 0; i < kNrGpuValues; i++) {
    text_ += ',';
    if (!(row.unmeasured >> i & 1)) text_ += std::to_string(row.values[i]);
  }
}

// Its share of the slot, by its spans; nothing else tells processes apart.
void GpuCsvSink::Append(const Slot& slot, const GpuPart& part) {
  AppendBegin(slot, "process", part.gpu);
  fmt::format_to(std::back_inserter(text_), ",{},{},{},{}", part.process.tgid,
                 part.process.start_time_ns, EscapeName(CommText(part.comm)),
                 part.device == kUnknownDevice ? "" : std::to_string(part.device));
  AppendValues(part.row);
  if (part.row.unmeasured >> kGpuActiveNs & 1) {
    text_ += ",,,,,,,\n";
    return;
  }
  const uint64_t ppm =
      std::min<uint64_t>(part.row.values[kGpuActiveNs] * 1'000'000 / slot_ns_, 1'000'000);
  fmt::format_to(std::back_inserter(text_), ",{},,spans,{},{},,\n", Percent(ppm), slot.start_ns,
                 slot.start_ns + slot_ns_);
}

void GpuCsvSink::Append(const Slot& slot, const GpuTotal& total) {
  AppendBegin(slot, "gpu", total.gpu);
  text_ += ",,,,";
  AppendValues(total.row);
  text_ += ",,";
  if (total.known & kGpuSampleSmActive) {
    fmt::format_to(std::back_inserter(text_), "{},gpm,{},{}", Percent(total.sm_active_ppm),
                   total.sm_since_ns, total.sm_until_ns);
  } else if (!(total.row.unmeasured >> kGpuActiveNs & 1)) {
    const uint64_t ppm =
        std::min<uint64_t>(total.row.values[kGpuActiveNs] * 1'000'000 / slot_ns_, 1'000'000);
    fmt::format_to(std::back_inserter(text_), "{},spans,{},{}", Percent(ppm), slot.start_ns,
                   slot.start_ns + slot_ns_);
  } else {
    text_ += ",,,";
  }
  text_ += ',';
  if (total.known & kGpuSampleUsed) text_ += std::to_string(total.used_bytes);
  text_ += ',';
  if (const uint64_t bytes = gpus_[static_cast<size_t>(total.gpu)].total_bytes)
    text_ += std::to_string(bytes);
  text_ += '\n';
}

void GpuCsvSink::Append(const Slot& slot) {
  for (const GpuPart& part : slot.gpu_detail.parts) Append(slot, part);
  for (const GpuTotal& total : slot.gpu_detail.totals) Append(slot, total);
}

std::string GpuCsvSink::Contents() const { return fmt::format("{} rows", nr_rows_); }

}  // namespace slotscope
