// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/rate.h"
#include "base/time_debt.h"
#include "detect/inputs/fr_dump.h"
#include "detect/inputs/fr_folder.h"
#include "detect/inputs/nccl_records.h"

namespace slotscope {

// What the files of such a folder may cost: whoever may write there is not trusted.
struct FrBudget {
  size_t max_files = 65'536;
  uint64_t max_kept = 512u << 20;  // bytes that are kept of all of them; of 10,000 ranks it is 400 MB
  // CPU time for all of them: at once, and one part in so many of the time behind that.
  uint64_t burst_ns = 60'000'000'000;
  uint64_t share = 50;
  uint64_t look_ns = 2'000'000'000;  // of one look
};

// The dumps in a folder as they come, are written anew, and go.
class FrWatch {
 public:
  explicit FrWatch(std::string folder, const FrBudget& budget = {})
      : folder_(std::move(folder)), budget_(budget), debt_(budget.burst_ns, budget.share) {}

  // Looks at what has changed, at who was not read for longest first. What the budget does not allow
  // waits for another look; at the last one, which may take a few times as long, it is left out. Whether
  // records() are others now. `now_ns`: Unix time.
  bool Poll(int64_t now_ns, bool is_last = false);
  // Of all dumps that are there, with the times at which they came.
  NcclRecords Records() const;
  // Files that cannot be read though nobody has written to them for a while; each is said once, as long
  // as nobody changes it, and ten of them an hour. So is a budget that is used up.
  std::vector<std::string> TakeProblems();

 private:
  struct File {
    int64_t changed_ns = 0;
    uint64_t size = 0;
    uint64_t inode = 0;
    int32_t rank = 0;
    bool is_read = false;
    bool is_told = false;
    bool is_left_out = false;  // it is more than can be kept
    uint64_t read_at = 0;      // 0: never; the reads are numbered
    std::string problem;
    FrDump dump;        // condensed; of the last time it could be read
    uint64_t kept = 0;  // bytes of that
  };
  struct Change {
    File* file;
    std::string path;
    int64_t changed_ns;
    uint64_t size, inode;
  };

  // Those that have changed; and forgets those that are gone.
  std::vector<Change> Changes(uint64_t until_ns, bool* is_changed);
  bool Read(const Change& change);
  void TellProblem(std::string text, int64_t now_ns);

  std::string folder_;
  const FrBudget budget_;
  TimeDebt debt_;
  FrFileReader reader_;
  std::map<std::string, File> files_;  // by name
  uint64_t kept_ = 0;                  // bytes, of all
  uint64_t nr_reads_ = 0;
  Rate problem_rate_ = Rate(10, 360'000'000'000);
  Rate budget_rate_ = Rate(1, 3'600'000'000'000);
  uint64_t nr_untold_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace slotscope
