// SPDX-License-Identifier: MIT
#include "run/gpu_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/escape.h"
#include "base/scan.h"
#include "base/table_rows.h"
#include "base/text_input.h"
#include "recording/reader.h"
#include "sinks/span_order.h"
#include "slots/column.h"
#include "slots/slot.h"

namespace slotscope {
namespace {

ProcessKey ProcessOf(const TableRows& rows) {
  return {rows.Number<int32_t>("tgid"), rows.Number<uint64_t>("start_time_ns")};
}

// See MakeHeader(): "# gpu 0:1: NAME, UUID, PCI, N bytes, divided", and no comma in any of these.
void AddGpu(std::string_view line, std::vector<GpuDevice>* gpus) {
  GpuDevice gpu;
  if (!TakeText(&line, "# gpu ") || !TakeNumber(&line, &gpu.index)) return;
  if (TakeText(&line, ":") && TakeNumber(&line, &gpu.instance)) TakeText(&line, ":");
  TakeText(&line, " ");
  std::vector<std::string> texts;
  while (!line.empty()) {
    const std::string_view text = line.substr(0, line.find(", "));
    texts.push_back(EscapeControls(text));
    line.remove_prefix(std::min(line.size(), text.size() + 2));
  }
  if (texts.size() < 4) return;
  gpu.name = texts[0];
  gpu.uuid = texts[1];
  gpu.pci = texts[2];
  std::string_view bytes = texts[3];
  TakeNumber(&bytes, &gpu.total_bytes);
  gpu.divided = texts.size() > 4;
  if (std::find(gpus->begin(), gpus->end(), gpu) == gpus->end()) gpus->push_back(gpu);
}

// A row of the table gpu; nothing if it is of no process.
void AddPart(const TableRows& rows, const std::vector<GpuDevice>& gpus, Slot* slot) {
  if (rows["kind"] != "process") return;
  GpuPart part;
  part.process = ProcessOf(rows);
  const std::string_view comm = rows["comm"].substr(0, part.comm.size() - 1);
  std::copy(comm.begin(), comm.end(), part.comm.begin());
  part.device = rows.Number<int32_t>("cuda_device", kUnknownDevice);
  const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const GpuDevice& one) {
    return !rows["gpu"].empty() && one.label() == rows["gpu"];
  });
  part.gpu = gpu == gpus.end() ? kUnknownGpu : static_cast<int32_t>(gpu - gpus.begin());
  for (size_t i = 0; i < kNrGpuValues; i++) {
    const auto value = NumberOf<uint64_t>(rows[ColumnName(RowPart::kGpu, i)]);
    part.row.values[i] = value.value_or(0);
    part.row.unmeasured |= uint32_t{!value} << i;
  }
  slot->gpu_detail.parts = {part};
}

// A row of the table spans; nothing if it is of no memory that leaked on a device.
void AddLeak(const TableRows& rows, Slot* slot) {
  if (rows["span"] != "memory" || rows["end"] != "leaked") return;
  MemorySpan span = {};
  span.process = ProcessOf(rows);
  span.device = rows.Number<int32_t>("device", kUnknownDevice);
  span.bytes = rows.Number<uint64_t>("bytes");
  span.kind = rows["memory"] == NameOf(SS_CUDA_HOST) ? SS_CUDA_HOST : SS_CUDA_LINEAR;
  span.leaked = true;
  slot->gpu_detail.spans.memory = {span};
}

}  // namespace

Status ReadGpuTables(const std::string& path, std::vector<GpuDevice>* gpus, GpuReport* report) {
  RecordingReader recording;
  if (Status status = recording.Open(path); !status.ok()) return status;
  Status first;
  const auto read = [&](std::string_view table, std::string_view first_column, auto&& add) {
    TableRows rows(first_column);
    LineSplitter lines;
    const auto on_line = [&](std::string_view line) {
      constexpr std::string_view kNote = "# note: ";
      Slot slot;
      if (line.starts_with("# gpu ")) AddGpu(line, gpus);
      if (line.starts_with(kNote)) slot.notes.push_back(EscapeControls(line.substr(kNote.size())));
      if (rows.Take(line) == TableRows::Line::kRow) add(rows, &slot);
      report->OnSlot(&slot);
    };
    Status status = recording.Read(table, {}, [&](std::string_view text) { lines.Feed(text, on_line); });
    lines.Finish(on_line);
    if (first.ok()) first = std::move(status);
  };
  read("gpu", "slot_start_ns", [&](const TableRows& rows, Slot* slot) { AddPart(rows, *gpus, slot); });
  read("spans", "span", AddLeak);
  return first;
}

}  // namespace slotscope
