// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rate.h"
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

// Finds the processes of this machine that are ranks of a job. Anybody may say that he is one, so
// nobody's processes take the place, the time or the attention that is another's.
class RankFinder {
 public:
  // Of one owner so many count, those that began first.
  static constexpr size_t kMostOfOwner = 64;
  // For so long processes are looked at, those first that took the least time before, and the others
  // next time.
  static constexpr uint64_t kMostNs = 250'000'000;

  explicit RankFinder(uint64_t most_ns = kMostNs) : most_ns_(most_ns) {}

  // Looks at /proc. Sentences: ranks that are new, or other processes than before, and those that have
  // ended (see RankNoteText()). Of one owner, 128 at once, and 120 an hour.
  std::vector<std::string> Scan(uint64_t now_ns);
  // What is wrong with them, since the last call: ten sentences at once, and ten an hour.
  std::vector<std::string> TakeProblems() { return std::exchange(problems_, {}); }

 private:
  struct Process {
    uint64_t start_ticks = 0;
    uint32_t nr_scans = 0;  // since it was seen first
    uint64_t took_ns = 0;   // to look at it last
    std::optional<int32_t> rank;
    bool uses_cuda = false;  // it stays so
    std::string owner;       // of one that is a rank
  };
  struct Told {
    RankNote note;
    uint64_t start_ticks = 0;
  };

  void LookAtAll();
  static void LookAt(int32_t tgid, Process* process);
  std::map<int32_t, RankCandidate> Candidates(uint64_t now_ns);
  void TellDisputes(RankChoice* choice, uint64_t now_ns);
  void TellProblem(std::string text, uint64_t now_ns);

  const uint64_t most_ns_;
  std::map<int32_t, Process> processes_;
  std::map<int32_t, Told> told_;                      // by tgid, until it ends
  std::map<int32_t, std::vector<int32_t>> disputed_;  // as it was last
  std::map<std::string, Rate> rates_;                 // of notes, by owner
  std::set<std::string> too_many_;                    // owners of whom that was told
  Rate problem_rate_ = Rate(10, 360'000'000'000);
  std::vector<std::string> problems_;
};

}  // namespace slotscope
