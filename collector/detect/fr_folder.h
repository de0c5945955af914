// SPDX-License-Identifier: MIT
// A folder of dumps, one file per rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "detect/nccl_records.h"

namespace slotscope {

struct FrFolder {
  NcclRecords records;
  std::vector<std::string> problems;  // files that are no dumps, or not yet
  size_t nr_malformed = 0;            // entries
};

// Files whose names have no rank are left alone. Exit::kBadInput if the folder cannot be read, or has no
// dump at all.
Status ReadFrFolder(const std::string& path, FrFolder* folder);

}  // namespace slotscope
