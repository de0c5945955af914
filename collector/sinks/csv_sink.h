// SPDX-License-Identifier: MIT
// slots.csv: the header, a line per row, and the counters at the end.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/out_file.h"
#include "slots/slot.h"

namespace slotscope {

// What a row is of; that of a second or a minute has more columns, see Slot::worst.
enum class RowsOf { kSlots, kPeriods };

// Written as "# key: value" lines in front of the rows.
using HeaderLines = std::vector<std::pair<std::string, std::string>>;

class CsvSink final : public SlotSink {
 public:
  // `unix_offset_ns`, CLOCK_REALTIME - CLOCK_MONOTONIC at the start, is what the header says. max_size
  // 0: no limit. nr_more: perf counters that have columns behind the others.
  CsvSink(OutFile* file, int64_t unix_offset_ns, uint64_t max_size, size_t nr_more = 0,
          RowsOf rows_of = RowsOf::kSlots);

  void WriteHeader(const HeaderLines& lines);
  void OnSlot(Slot* slot) override { OnSlot(*slot); }
  void OnSlot(const Slot& slot);
  // "# key: value" lines between the rows.
  void WriteComments(const HeaderLines& lines) { AppendComments(lines); }
  // Everything so far goes to the file. Ends at a row end.
  void Flush();
  // The last slots, with so many rows, did not get onto the disk: they count as unwritten.
  void TakeBack(uint64_t nr_slots, uint64_t nr_rows) {
    nr_unwritten_slots_ += nr_slots;
    nr_rows_ -= nr_rows;
  }
  // The counters beside the data. Returns the first error of all writes.
  Status Finish(const HeaderLines& lines);

  const Status& status() const { return status_; }
  // max_size is reached: the slot that did not fit, and all after it, were not written.
  bool is_full() const { return full_; }
  uint64_t nr_rows() const { return nr_rows_; }
  uint64_t nr_unwritten_slots() const { return nr_unwritten_slots_; }

 private:
  // A process's fields from tgid to kind as they were written last, under its tracker id.
  struct Identity {
    ProcessKey key;
    Comm comm;
    uint32_t rmid;
    RowKind kind;
    bool named;
    bool tracked;
    uint8_t size = 0;           // of text; 0: unused
    std::array<char, 72> text;  // a longer one, with many escapes, is made anew each time

    bool Is(const Row& row) const {
      // std::array would call memcmp(): this is two words each.
      return key == row.key && std::memcmp(comm.data(), row.comm.data(), sizeof(comm)) == 0 &&
             rmid == row.rmid && kind == row.kind && named == row.named && tracked == row.tracked;
    }
  };

  char* Reserve(size_t bytes);
  void AppendText(std::string_view text);
  void AppendComments(const HeaderLines& lines);
  void AppendRows(const Slot& slot);
  char* AppendIdentity(char* out, const Row& row);
  char* AppendMore(char* out, const Slot& slot, const Row& row) const;

  OutFile* file_;
  int64_t unix_offset_ns_;
  uint64_t max_size_;
  size_t nr_more_;
  RowsOf rows_of_;
  std::vector<char> buffer_;  // its first size_ bytes are to be written
  size_t size_ = 0;
  std::vector<Identity> identities_;
  uint64_t next_trim_ns_ = 0;
  Status status_;
  bool full_ = false;
  uint64_t nr_rows_ = 0;
  uint64_t nr_unwritten_slots_ = 0;
};

}  // namespace slotscope
