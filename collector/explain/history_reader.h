// SPDX-License-Identifier: MIT
// The tables of a recording into a history.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text_input.h"
#include "base/unique_fd.h"
#include "explain/history.h"
#include "explain/process_places.h"
#include "recording/reader.h"
#include "recording/segment_name.h"

namespace slotscope {

// What a recording says of itself in the lines in front of its rows.
struct RecordingFacts {
  std::string host, time_zone;  // empty: not said
  uint64_t nr_cpus = 1;
  bool observes_cuda = true;  // false: it says that it does not
  // Of the table that it was opened for:
  int64_t first_ns = 0;  // Unix time of its first row; 0: none
  int64_t last_ns = 0;   // of the end of its last slot
  bool is_cut = false;   // a plain file ends in the midst of a row
  // Of a folder: since when it has rows of seconds and of minutes, which a ring keeps for longer.
  struct Coarser {
    std::string_view table;
    int64_t first_ns = 0;  // Unix time; 0: none
  };
  std::array<Coarser, 2> coarser = {{{kSecondsTable}, {kMinutesTable}}};
};

// A recording that is a folder, one segment, or a plain slots.csv, also from a pipe.
class RecordingTables {
 public:
  // Exit::kBadInput if it is none. "-": the standard input.
  Status Open(const std::string& path, std::string_view table = kSlotsTable);

  const std::string& path() const { return path_; }
  const RecordingFacts& facts() const { return facts_; }
  // Has it that table?
  bool Has(std::string_view table) const;
  // Of a folder: there is nothing in it that says which files it should have.
  bool LacksManifest() const;
  // The files that have something of a table in that range, for other readers: text, or zstd of it. One
  // that is being written ends in kPart.
  std::vector<std::string> FilesOf(std::string_view table, const UnixRange& range) const;
  // See RecordingReader::WhyGone().
  Status WhyGone(const std::string& path) const { return reader_.WhyGone(path); }
  // What a range has of a table, see RecordingReader::Read(); of a plain file all of it.
  Status Read(std::string_view table, const UnixRange& range,
              const RecordingReader::OnText& on_text) const;
  // The same line by line, without newlines.
  Status ReadTableLines(std::string_view table, const UnixRange& range,
                        const LineSplitter::OnLine& on_line) const;
  // Rows of a table that has the columns of slots, which begin in that range.
  using OnSlotRow = std::function<void(const SlotRow&)>;
  Status ReadSlotRows(std::string_view table, const UnixRange& range, const OnSlotRow& on_row) const;
  // Rows of the table waits.
  using OnWaitRow = std::function<void(const WaitTableRow&)>;
  Status ReadWaitRows(const UnixRange& range, const OnWaitRow& on_row) const;
  // The same from the begin of its first segment on, where the table processes says who was there.
  UnixRange FromSegmentStart(UnixRange range) const;
  // Who was where in that range, of a recording that has that table.
  Status ReadPlaces(const UnixRange& range, ProcessPlaces* places) const;
  // Rows of slots and of waits that begin in that range, and Finish().
  // Exit::kBadInput: something of it is damaged; what could be read is in the history.
  Status ReadHistory(const UnixRange& range, History* history) const;

 private:
  Status CopyPipe();
  Status ReadFacts(std::string_view table);

  std::string path_;       // as it was named
  std::string read_path_;  // what is read
  UniqueFd copy_;          // of what can be read only once
  bool is_plain_ = false;
  RecordingReader reader_;
  RecordingFacts facts_;
};

}  // namespace slotscope
