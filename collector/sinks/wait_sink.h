// SPDX-License-Identifier: MIT
// Why processes waited for a CPU, slot by slot, as CSV: a row per process, cause, who ran instead, and
// CPU.
#pragma once

#include <cstdint>
#include <string>

#include "sinks/side_sink.h"

namespace slotscope {

class WaitSink final : public SideSink {
 public:
  using SideSink::SideSink;

  void WriteHeader(const HeaderLines& lines) override;
  std::string Contents() const override;

 private:
  void Append(const Slot& slot) override;

  uint64_t nr_rows_ = 0;
};

}  // namespace slotscope
