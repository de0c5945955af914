// SPDX-License-Identifier: MIT
// A file beside slots.csv that is made from the same slots.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/out_file.h"
#include "base/status.h"
#include "sinks/csv_sink.h"
#include "slots/slot.h"

namespace slotscope {

class SideSink {
 public:
  explicit SideSink(OutFile* file) : file_(file) {}
  virtual ~SideSink() = default;

  virtual void WriteHeader(const HeaderLines& lines) = 0;
  // Filtered and folded, as for slots.csv.
  void OnSlot(const Slot& slot);
  void Flush();
  // What is behind comes into another file: what is not complete yet is written as it is.
  virtual void EndSegment() {}
  // The last lines; the first error of all.
  Status Finish();
  // The first error so far. What comes behind it is not written.
  const Status& status() const { return status_; }
  // "12 spans", for the summary.
  virtual std::string Contents() const = 0;

 protected:
  virtual void Append(const Slot& slot) = 0;
  // "# key: value" lines, then the columns.
  void WriteCsvHeader(const HeaderLines& lines, std::string_view columns);

  std::string text_;  // to be written

 private:
  static constexpr size_t kBufferBytes = 256u << 10;

  OutFile* file_;
  Status status_;
};

}  // namespace slotscope
