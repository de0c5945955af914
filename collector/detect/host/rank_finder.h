// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detect/host/rank_note.h"

namespace slotscope {

// The rank that a process's environment says (RANK, as torchrun sets it, and what MPI and Slurm set);
// nothing if it says none.
std::optional<int32_t> RankOfEnvironment(std::string_view environment);

// A process with a rank in its environment.
struct RankCandidate {
  int32_t parent = 0;
  int32_t rank = 0;
  bool uses_cuda = false;
};

struct RankChoice {
  std::map<int32_t, int32_t> chosen;                 // tgid by rank
  std::map<int32_t, std::vector<int32_t>> disputed;  // tgids by rank
};

// Which of them (by tgid) is the rank: of a family the one that uses CUDA, and of these the first one,
// whose children the others are. Where two families have the same rank, as two jobs have, or where
// somebody has forged it, none is it.
RankChoice ChooseRanks(const std::map<int32_t, RankCandidate>& candidates);

// Finds the processes of this machine that are ranks of a job.
class RankFinder {
 public:
  // Looks at /proc. Those that are new, or other ones than before.
  std::vector<RankNote> Scan();
  // What is disputed since the last call, a sentence each.
  std::vector<std::string> TakeDisputes() { return std::exchange(disputes_, {}); }

 private:
  struct Process {
    uint64_t start_ticks = 0;
    uint32_t nr_scans = 0;  // since it was seen first
    std::optional<int32_t> rank;
    bool uses_cuda = false;  // it stays so
  };

  std::map<int32_t, Process> processes_;
  std::map<int32_t, int32_t> told_;                   // tgid by rank
  std::map<int32_t, std::vector<int32_t>> disputed_;  // as it was last
  std::vector<std::string> disputes_;
};

}  // namespace slotscope
