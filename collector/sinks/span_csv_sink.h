// SPDX-License-Identifier: MIT
// What GPUs did, span by span, as CSV: a line when a span has ended.
#pragma once

#include <cstdint>
#include <string>

#include "base/out_file.h"
#include "base/status.h"
#include "sinks/side_sink.h"
#include "slots/slot.h"

namespace slotscope {

class SpanCsvSink final : public SideSink {
 public:
  explicit SpanCsvSink(OutFile* file) : file_(file) {}

  void WriteHeader(const HeaderLines& lines) override;
  void OnSlot(const Slot& slot) override;
  void Flush() override;
  Status Finish() override;
  std::string Contents() const override;

 private:
  void Append(const KernelSpan& span);
  void Append(const MemorySpan& span);

  OutFile* file_;
  std::string text_;
  uint64_t nr_spans_ = 0;
  Status status_;
};

}  // namespace slotscope
