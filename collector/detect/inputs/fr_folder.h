// SPDX-License-Identifier: MIT
// A folder of dumps, one file per rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "detect/inputs/fr_dump.h"
#include "detect/inputs/nccl_records.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {

// Reads one file after the other into the same memory: there may be thousands.
class FrFileReader {
 public:
  // A regular file, and no link. The dump is condensed. Exit::kBadInput.
  Status Read(const std::string& path, FrDump* dump);
  size_t nr_bytes() const { return bytes_.size(); }  // of the last one

 private:
  std::string bytes_;
  ValueTree tree_;
};

struct FrFolder {
  NcclRecords records;
  std::vector<std::string> problems;  // files that are no dumps, or not yet
  size_t nr_malformed = 0;            // entries
};

// Files whose names have no rank are left alone. Exit::kBadInput if the folder cannot be read, or has no
// dump at all.
// A problem of each that comes behind max_bytes of others (a job of ten thousand ranks has a tenth).
Status ReadFrFolder(const std::string& path, FrFolder* folder, uint64_t max_bytes = 16ull << 30);

}  // namespace slotscope
