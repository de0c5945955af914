// SPDX-License-Identifier: MIT
// What this process does to files, in order; and what of it a loss of power would undo.
#pragma once

#include <string>
#include <vector>

namespace slotscope {

// While it lives: what was written, synced and renamed below a folder. One at a time, any thread.
class DiskLog {
 public:
  struct Entry {
    enum class What { kWrite /* or cut */, kSync, kRename } what;
    std::string path;  // of a folder, too, where it is synced
    std::string to;    // of a rename
  };

  explicit DiskLog(std::string folder);
  ~DiskLog();
  DiskLog(const DiskLog&) = delete;
  std::vector<Entry> Take();
};

// The first thing that is not safe; "": all is. What gets a name is on the disk before, and what the
// manifest names has its name there; each of its lines is there before the next. Files that end in .part
// may have anything on its way.
std::string FindUnsafe(const std::vector<DiskLog::Entry>& log);

}  // namespace slotscope
