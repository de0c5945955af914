// SPDX-License-Identifier: MIT
// Which processes are ranks, of candidates and of this machine's.
#include "detect/host/rank_finder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/proc.h"
#include "own_environment.h"
#include "temp_folder.h"
#include "until.h"
#include "waiting_child.h"

namespace slotscope {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::Pair;

constexpr uint64_t kS = 1'000'000'000;

TEST(RankFinder, TheEnvironmentSaysTheRank) {
  using namespace std::string_literals;
  EXPECT_EQ(RankOfEnvironment("HOME=/\0RANK=3\0WORLD_SIZE=8\0"s), 3);
  EXPECT_EQ(RankOfEnvironment("SLURM_PROCID=5\0RANK=3"s), 3) << "the job's own word counts";
  EXPECT_EQ(RankOfEnvironment("OMPI_COMM_WORLD_RANK=7\0LOCAL_RANK=1\0"s), 7);
  for (const std::string& none : {""s, "LOCAL_RANK=1\0"s, "RANK=\0"s, "RANK=x\0"s, "RANK=-1\0"s,
                                  "MY_RANK=1\0"s, "RANK=99999999999\0"s})
    EXPECT_FALSE(RankOfEnvironment(none)) << none;
}

TEST(RankFinder, OfAFamilyTheOneThatUsesCudaAndOfTheseTheFirst) {
  // A shell, its python, and python's loaders, which have the library mapped, too.
  EXPECT_THAT(
      ChooseRanks({{10, {1, 0, false}}, {11, {10, 0, true}}, {12, {11, 0, true}}, {13, {11, 0, true}}})
          .chosen,
      ElementsAre(Pair(0, 11)));
  // Before any of them uses it.
  EXPECT_THAT(ChooseRanks({{10, {1, 0, false}}, {11, {10, 0, false}}}).chosen, ElementsAre(Pair(0, 10)));
  EXPECT_THAT(ChooseRanks({{10, {1, 0, true}}, {20, {1, 1, true}}}).chosen,
              ElementsAre(Pair(0, 10), Pair(1, 20)));
  // Two jobs, or one that somebody has forged: no wrong one.
  const RankChoice choice = ChooseRanks({{10, {1, 0, true}}, {20, {1, 0, true}}, {21, {1, 1, true}}});
  EXPECT_THAT(choice.chosen, ElementsAre(Pair(1, 21)));
  EXPECT_THAT(choice.disputed, ElementsAre(Pair(0, ElementsAre(10, 20))));
}

// A process of this machine that says it is that rank.
class Rank {
 public:
  // preload: a library that it maps.
  explicit Rank(int rank, uid_t uid = 0, const std::string& preload = "") : rank_(rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return;
    pid_ = fork();
    if (pid_ == 0) {
      const std::string said = fmt::format("RANK={}", rank);
      const char* const argv[] = {"sleep", "600", nullptr};
      const std::string maps = "LD_PRELOAD=" + preload;
      const char* const environment[] = {said.c_str(), maps.c_str(), nullptr};
      if (setgid(uid) == 0 && setuid(uid) == 0)
        execve("/bin/sleep", const_cast<char**>(argv), const_cast<char**>(environment));
      _exit(1);
    }
    close(ends[1]);
    char none;
    (void)!read(ends[0], &none, 1);  // until it has become the other program
    close(ends[0]);
  }
  ~Rank() { End(); }
  Rank(const Rank&) = delete;

  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  std::string text() const { return fmt::format("rank {} is process {} (sleep)", rank_, pid_); }
  std::string end_text(pid_t pid) const {
    return fmt::format("rank {} was process {} (sleep), which has ended", rank_, pid);
  }

 private:
  int rank_;
  pid_t pid_ = 0;
};

// A thousand ranks, and a user, that nobody has in a test beside this one.
const int kMine = getpid() % 1000;
const int kRank = 9'000'000 + kMine * 1000;
const uid_t kUser = static_cast<uid_t>(100'000 + kMine);
// However long it takes on a busy machine.
constexpr uint64_t kNoLimit = 3600 * kS;

// What is said of these.
std::vector<std::string> Mine(std::vector<std::string> said) {
  const std::string begin = fmt::format("rank {}", kRank / 1000);
  std::erase_if(said, [&](const std::string& text) { return !text.starts_with(begin); });
  return said;
}

TEST(RankFinder, WhoIsOneIsSaidWithItsEnd) {
  Rank one(kRank), other(kRank + 1);
  RankFinder finder(kNoLimit);
  EXPECT_THAT(Mine(finder.Scan(1 * kS)), IsSupersetOf({one.text(), other.text()}));
  EXPECT_THAT(Mine(finder.Scan(2 * kS)), IsEmpty());
  const pid_t pid = one.pid();
  one.End();
  EXPECT_THAT(Mine(finder.Scan(3 * kS)), ElementsAre(one.end_text(pid)));
  EXPECT_THAT(Mine(finder.Scan(4 * kS)), IsEmpty());
}

// A shell, and then the program that uses CUDA: the end of both is said.
TEST(RankFinder, TheEndOfOneThatAnotherFollowedIsSaid) {
  const TempFolder temp;
  std::filesystem::copy_file("/lib/x86_64-linux-gnu/libm.so.6", temp.At("libcuda.so.1"));
  RankFinder finder(kNoLimit);
  Rank shell(kRank);
  EXPECT_THAT(Mine(finder.Scan(1 * kS)), ElementsAre(shell.text()));
  Rank trainer(kRank, 0, temp.At("libcuda.so.1"));
  std::vector<std::string> said;  // its loader maps the library some time after it has begun
  EXPECT_TRUE(Until([&] { return !(said = Mine(finder.Scan(2 * kS))).empty(); }));
  EXPECT_THAT(said, ElementsAre(trainer.text()));
  const pid_t first = shell.pid();
  shell.End();
  EXPECT_THAT(Mine(finder.Scan(3 * kS)), ElementsAre(shell.end_text(first)));
}

// Two that say that they are one rank are named, once.
TEST(RankFinder, ADisputedRankIsNamed) {
  const Rank one(kRank), other(kRank);
  RankFinder finder(kNoLimit);
  EXPECT_THAT(Mine(finder.Scan(1 * kS)), IsEmpty());
  EXPECT_THAT(
      finder.TakeProblems(),
      Contains(AllOf(HasSubstr(fmt::format("2 processes say that they are rank {}", kRank)),
                     HasSubstr(std::to_string(one.pid())), HasSubstr(std::to_string(other.pid())))));
  finder.Scan(2 * kS);
  EXPECT_THAT(finder.TakeProblems(), Not(Contains(HasSubstr(std::to_string(kRank)))));
}

// Another user, who forges as many as he likes, takes no place of the job's, and is told of once.
TEST(RankFinder, OfOneUserSoManyCount) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  std::vector<std::unique_ptr<Rank>> forged;
  for (int i = 0; i < 100; i++) forged.push_back(std::make_unique<Rank>(kRank + i, kUser));
  const Rank job(kRank + 500);
  RankFinder finder(kNoLimit);
  auto said = Mine(finder.Scan(1 * kS));
  EXPECT_THAT(said, Contains(job.text()));
  const auto nr_forged = [&] {
    return std::count_if(said.begin(), said.end(), [&](const std::string& text) {
      return std::any_of(forged.begin(), forged.end(),
                         [&](const auto& one) { return one->text() == text; });
    });
  };
  EXPECT_EQ(nr_forged(), 64);
  EXPECT_THAT(finder.TakeProblems(),
              Contains(HasSubstr(fmt::format(
                  "100 processes of user {} say that they are ranks of a job; the 64", kUser))));
  // They come and go: 128 are said, and then one each 30 s.
  nr_forged();
  size_t nr_said = 64;
  for (uint64_t at = 2; at < 6; at++) {
    forged.clear();
    for (int i = 0; i < 64; i++) forged.push_back(std::make_unique<Rank>(kRank + i, kUser));
    said = Mine(finder.Scan(at * kS));
    nr_said += static_cast<size_t>(nr_forged());
  }
  EXPECT_EQ(nr_said, 128u);
  const Rank later(kRank + 501);
  EXPECT_THAT(Mine(finder.Scan(6 * kS)), ElementsAre(later.text())) << "and nobody else waits for it";
  said = Mine(finder.Scan(96 * kS));
  EXPECT_EQ(nr_forged(), 3);
}

// Nobody is looked at again before all others have been, as long as he takes.
TEST(RankFinder, WhoTakesLongIsLookedAtLast) {
  std::vector<std::unique_ptr<WaitingChild>> huge;
  for (int i = 0; i < 10; i++) {
    huge.push_back(std::make_unique<WaitingChild>([] { return HaveHugeEnvironment(64ull << 30); }));
    if (!huge.back()->is_ready()) GTEST_SKIP() << "this kernel does not let a process do that";
  }
  const Rank job(kRank);
  RankFinder finder(/*most_ns=*/1);  // one process at each look
  const auto is_found = [&] {
    const auto said = Mine(finder.Scan(1 * kS));
    return std::find(said.begin(), said.end(), job.text()) != said.end();
  };
  EXPECT_FALSE(is_found()) << "there is no limit";
  // Of others some come and go meanwhile.
  const size_t most = 3 * ListProcesses().size() + 100;
  size_t nr_scans = 0;
  while (nr_scans < most && !is_found()) nr_scans++;
  EXPECT_LT(nr_scans, most);
}

}  // namespace
}  // namespace slotscope
