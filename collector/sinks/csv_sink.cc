// SPDX-License-Identifier: MIT
#include "sinks/csv_sink.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "base/escape.h"

namespace slotscope {
namespace {

constexpr size_t kBufferBytes = 256u << 10;
constexpr size_t kFooterBytes = 4096;  // kept free under max_size
constexpr std::string_view kColumns =
    "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,rmid,kind,cpu_ns,wait_ns,switches,"
    "preemptions,"
    "cycles,instructions,llc_misses,mux_pct,mbm_total_bytes,mbm_local_bytes,llc_occupancy_bytes,rdt_"
    "status,"
    "gpu_mem_bytes,gpu_active_ns,gpu_launches,straggle,throughput_drop_pct\n";

bool IsEmpty(const Row& row) {
  for (uint64_t sum : row.sums)
    if (sum != 0) return false;
  return true;
}

}  // namespace

CsvSink::CsvSink(PartFile* file, int64_t unix_offset_ns, uint64_t max_size)
    : file_(file), unix_offset_ns_(unix_offset_ns), max_size_(max_size) {
  buffer_.reserve(2 * kBufferBytes);
}

void CsvSink::AppendComments(const HeaderLines& lines) {
  for (const auto& [key, value] : lines) {
    std::string_view text = value;
    fmt::format_to(std::back_inserter(buffer_), "# {}: {}\n", key, text.substr(0, text.find('\n')));
  }
}

void CsvSink::WriteHeader(const HeaderLines& lines) {
  AppendComments(lines);
  buffer_ += kColumns;
  Flush();
}

void CsvSink::OnSlot(const Slot& slot) {
  if (full_ || !status_.ok()) {
    nr_unwritten_slots_++;
    return;
  }
  size_t before = buffer_.size();
  uint64_t rows_before = nr_rows_;
  for (const Row& row : slot.rows)
    if (!IsEmpty(row)) AppendRow(slot, row);
  if (max_size_ && file_->size() + buffer_.size() + kFooterBytes > max_size_) {
    buffer_.resize(before);  // whole slots only
    nr_rows_ = rows_before;
    full_ = true;
    nr_unwritten_slots_++;
  }
  if (buffer_.size() >= kBufferBytes) Flush();
}

void CsvSink::AppendRow(const Slot& slot, const Row& row) {
  auto out = std::back_inserter(buffer_);
  bool process = IsProcess(row.kind) || row.kind == RowKind::kIdle;
  auto put = [&](Additive id) {
    if (row.unmeasured >> id & 1)
      buffer_ += ',';
    else
      fmt::format_to(out, "{},", row.sums[id]);
  };

  fmt::format_to(out, "{},{},", slot.start_ns, static_cast<int64_t>(slot.start_ns) + unix_offset_ns_);
  if (process) fmt::format_to(out, "{}", row.key.tgid);
  buffer_ += ',';
  if (process && row.tracked && row.kind != RowKind::kIdle)
    fmt::format_to(out, "{}", row.key.start_time_ns);
  buffer_ += ',';
  if (row.named) buffer_ += EscapeName(CommText(row.comm));
  buffer_ += ',';
  if (process) fmt::format_to(out, "{}", row.rmid);
  fmt::format_to(out, ",{},", kRowKindNames[static_cast<size_t>(row.kind)]);
  for (Additive id : {kCpuNs, kWaitNs, kSwitches, kPreemptions, kCycles, kInstructions, kLlcMisses})
    put(id);
  if (!(row.unmeasured >> kEnabledNs & 1) && row.sums[kEnabledNs] > 0)
    fmt::format_to(
        out, "{:.1f}",
        100.0 * static_cast<double>(row.sums[kRunningNs]) / static_cast<double>(row.sums[kEnabledNs]));
  // mux_pct, mbm_total_bytes, mbm_local_bytes, llc_occupancy_bytes, rdt_status, then the GPU columns,
  // straggle and throughput_drop_pct: no source measures them yet.
  fmt::format_to(out, ",,,,{},,,,,\n", process ? "unsupported" : "");
  nr_rows_++;
}

void CsvSink::Flush() {
  if (status_.ok() && !buffer_.empty()) status_ = file_->Write(buffer_);
  buffer_.clear();
}

Status CsvSink::Finish(const HeaderLines& lines) {
  AppendComments(lines);
  Flush();
  return status_;
}

}  // namespace slotscope
