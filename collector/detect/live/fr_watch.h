// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/rate.h"
#include "detect/inputs/fr_dump.h"
#include "detect/inputs/fr_folder.h"
#include "detect/inputs/nccl_records.h"

namespace slotscope {

// The dumps in a folder as they come, are written anew, and go.
class FrWatch {
 public:
  explicit FrWatch(std::string folder) : folder_(std::move(folder)) {}

  // Looks at what has changed. Whether records() are others now. `now_ns`: Unix time.
  bool Poll(int64_t now_ns);
  // Of all dumps that are there, with the times at which they came.
  NcclRecords Records() const;
  // Files that cannot be read though nobody has written to them for a while; each is said once, as long
  // as nobody changes it, and ten of them an hour.
  std::vector<std::string> TakeProblems();

 private:
  struct File {
    int64_t changed_ns = 0;
    uint64_t size = 0;
    uint64_t inode = 0;
    int32_t rank = 0;
    bool is_read = false;
    bool is_told = false;
    std::string problem;
    FrDump dump;  // condensed; of the last time it could be read
  };

  void TellProblem(std::string text, int64_t now_ns);

  std::string folder_;
  FrFileReader reader_;
  std::map<std::string, File> files_;  // by name
  Rate problem_rate_ = Rate(10, 360'000'000'000);
  uint64_t nr_untold_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace slotscope
