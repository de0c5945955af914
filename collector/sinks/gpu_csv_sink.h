// SPDX-License-Identifier: MIT
// What was done on each GPU, slot by slot, as CSV: a row per process and device on which it did
// something in the slot (kind "process"), and behind them one per GPU (kind "gpu").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/gpu_device.h"
#include "base/out_file.h"
#include "sinks/side_sink.h"

namespace slotscope {

class GpuCsvSink final : public SideSink {
 public:
  // `gpus`: those in the facts.
  GpuCsvSink(OutFile* file, std::vector<GpuDevice> gpus) : SideSink(file), gpus_(std::move(gpus)) {}

  void WriteHeader(const HeaderLines& lines) override;
  std::string Contents() const override;

 private:
  void Append(const Slot& slot) override;
  void Append(const Slot& slot, const GpuPart& part);
  void Append(const Slot& slot, const GpuTotal& total);
  void AppendBegin(const Slot& slot, const char* kind, int32_t gpu);
  // Those from `first` to in front of `end`.
  void AppendValues(const GpuRow& row, size_t first, size_t end);
  void AppendEnd(const GpuRow& row);

  std::vector<GpuDevice> gpus_;
  uint64_t nr_rows_ = 0;
};

}  // namespace slotscope
