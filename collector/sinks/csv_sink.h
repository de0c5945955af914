// SPDX-License-Identifier: MIT
// slots.csv: the header, a line per row, and the counters at the end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sinks/part_file.h"
#include "slots/slot.h"

namespace slotscope {

// Written as "# key: value" lines in front of the rows.
using HeaderLines = std::vector<std::pair<std::string, std::string>>;

class CsvSink final : public SlotSink {
 public:
  // `unix_offset_ns` is CLOCK_REALTIME - CLOCK_MONOTONIC at the start. max_size 0: no limit.
  CsvSink(PartFile* file, int64_t unix_offset_ns, uint64_t max_size);

  void WriteHeader(const HeaderLines& lines);
  void OnSlot(const Slot& slot) override;
  // Everything so far goes to the file. Ends at a row end.
  void Flush();
  // The counters beside the data. Returns the first error of all writes.
  Status Finish(const HeaderLines& lines);

  const Status& status() const { return status_; }
  // max_size is reached: the slot that did not fit, and all after it, were not written.
  bool is_full() const { return full_; }
  uint64_t nr_rows() const { return nr_rows_; }
  uint64_t nr_unwritten_slots() const { return nr_unwritten_slots_; }

 private:
  void AppendComments(const HeaderLines& lines);
  void AppendRow(const Slot& slot, const Row& row);

  PartFile* file_;
  int64_t unix_offset_ns_;
  uint64_t max_size_;
  std::string buffer_;
  Status status_;
  bool full_ = false;
  uint64_t nr_rows_ = 0;
  uint64_t nr_unwritten_slots_ = 0;
};

}  // namespace slotscope
