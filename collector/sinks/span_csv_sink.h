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
  using SideSink::SideSink;

  void WriteHeader(const HeaderLines& lines) override;
  std::string Contents() const override;

 private:
  void Append(const Slot& slot) override;
  void Append(const KernelSpan& span);
  void Append(const MemorySpan& span);

  uint64_t nr_spans_ = 0;
};

}  // namespace slotscope
