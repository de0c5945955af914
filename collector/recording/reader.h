// SPDX-License-Identifier: MIT
// A recording that is read: a folder, also one that is being written, or one file of it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "recording/manifest.h"

namespace slotscope {

// Of Unix time, [from_ns, to_ns).
struct UnixRange {
  int64_t from_ns = std::numeric_limits<int64_t>::min();
  int64_t to_ns = std::numeric_limits<int64_t>::max();
};

// Where the service records.
inline constexpr const char* kServiceRecording = "/var/lib/slotscope/slotscope.rec";

// The newest recording in this folder that has this table, else the service's if it has, else any.
// Exit::kUsage if there is none.
Status FindRecording(std::string* path, std::string_view table = kSlotsTable);

class RecordingReader {
 public:
  // Whole lines, one behind the other: first a segment's header, then rows.
  using OnText = std::function<void(std::string_view)>;

  static bool IsFolder(const std::string& path);
  // Is it something that this reads, and not a file of plain text?
  static bool Reads(const std::string& path);

  // Exit::kBadInput if it is none.
  Status Open(const std::string& path);

  // Those that are complete, and the one that is being written.
  const Segments& segments() const { return segments_; }
  // The files of a table that have something of that time, in the order in which they were recorded.
  std::vector<std::string> FilesOf(std::string_view table, const UnixRange& range = {}) const;

  // Of one of these that is not there: Exit::kBadInput if it is missing; ok if the ring has removed it.
  Status WhyGone(const std::string& path) const;

  // What a table has of that time, in the order in which it was recorded; and up to a frame (a second or
  // so) before and behind it. Rows of a segment that was removed meanwhile are left out, and so is what
  // is damaged (a segment whose header is, as a whole); that is the status in the end: Exit::kBadInput.
  Status Read(std::string_view table, const UnixRange& range, const OnText& on_text) const;

 private:
  Status AddFiles();
  void AddFile(const std::string& name);
  // least_bytes: of a file that is complete, what its manifest says; 0: not known.
  Status ReadFile(const std::string& path, uint64_t least_bytes, const UnixRange& range,
                  const OnText& on_text) const;

  std::string folder_;
  bool is_file_ = false;
  Segments segments_;
};

}  // namespace slotscope
