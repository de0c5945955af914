// SPDX-License-Identifier: MIT
// A file beside slots.csv that is made from the same slots.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sinks/csv_sink.h"
#include "slots/slot.h"

namespace slotscope {

struct SideSink {
  virtual ~SideSink() = default;
  virtual void WriteHeader(const HeaderLines& lines) = 0;
  // Filtered and folded, as for slots.csv.
  virtual void OnSlot(const Slot& slot) = 0;
  virtual void Flush() = 0;
  // The last lines; the first error of all.
  virtual Status Finish() = 0;
  // "12 spans", for the summary.
  virtual std::string Contents() const = 0;
};

}  // namespace slotscope
