// SPDX-License-Identifier: MIT
// What is in a recording: a line of JSON that says what it is, then one per segment that is complete,
// and one per segment that was removed. Lines are added; a last one that is cut is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "recording/frame.h"
#include "recording/segment_name.h"

namespace slotscope {

// A stretch of slots, of all tables that have something in it.
struct Segment {
  struct File {
    std::string name;  // in the folder
    uint64_t bytes = 0;
    bool operator==(const File&) const = default;
  };

  uint64_t number = 0;
  FrameTimes times;
  std::string host, boot_id;
  uint64_t slot_ns = 0;
  bool cut = false;                   // its recorder was killed
  std::map<std::string, File> files;  // by table

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [table, file] : files) sum += file.bytes;
    return sum;
  }
  bool operator==(const Segment&) const = default;
};

// A file that no manifest has: what its frames say. The slots' count for the whole segment.
void TakeFile(int fd, const std::vector<FrameAt>& frames, const SegmentName& name,
              const Segment::File& file, Segment* segment);

// By number, which is the order in which they were recorded.
using Segments = std::map<uint64_t, Segment>;

// Of Unix time, [from, to).
using Intervals = std::deque<std::pair<int64_t, int64_t>>;
// One that begins where the last one did makes that longer.
void AddInterval(int64_t from_ns, int64_t to_ns, Intervals* intervals);

// Those that a recording says are there, and what is protected of them (may be null); none if it has no
// manifest. Exit::kBadInput if it is one of a later version, or no manifest.
Status ReadManifest(const std::string& folder, Segments* segments, Intervals* protections = nullptr);

class ManifestWriter {
 public:
  // Writes it anew, with these, and keeps it open for more. Each call is on the disk when it returns.
  Status Open(const std::string& folder, const Segments& segments, const Intervals& protections = {});
  Status Add(const Segment& segment);
  // Somebody has: it is to be opened again.
  bool IsRemoved() const;
  Status Protect(int64_t from_ns, int64_t to_ns);
  // These tables of a segment are gone; all: so is the segment. Anew, once more lines say what is gone
  // than what is there.
  Status Remove(uint64_t number, const std::vector<std::string>& tables, const Segments& left,
                const Intervals& protections = {});

 private:
  Status Append(const std::string& text);

  std::string folder_;
  UniqueFd fd_;
  size_t nr_removed_ = 0;  // lines
};

// Names that were made, or changed, are so after a power loss.
Status SyncFolder(const std::string& folder);

}  // namespace slotscope
