// SPDX-License-Identifier: MIT
#include "base/proc.h"

#include <gtest/gtest.h>
#include <linux/prctl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace slotscope {
namespace {

constexpr size_t kHuge = 64ull << 30;

// Makes 64 GiB of nothing this process's environment, as any process may. False: this kernel does not
// let it (CONFIG_CHECKPOINT_RESTORE).
bool HaveHugeEnvironment() {
  void* const huge = mmap(nullptr, kHuge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (huge == MAP_FAILED) return false;
  std::string stat;
  std::getline(std::ifstream("/proc/self/stat"), stat);
  std::istringstream behind_comm(stat.substr(stat.rfind(')') + 2));
  std::vector<uint64_t> fields(3);  // so that they are counted as in proc(5)
  for (std::string word; behind_comm >> word;)
    fields.push_back(word[0] >= 'A' ? 0 : std::strtoull(word.c_str(), nullptr, 10));
  prctl_mm_map map = {};
  map.start_code = fields.at(26);
  map.end_code = fields.at(27);
  map.start_stack = fields.at(28);
  map.start_data = fields.at(45);
  map.end_data = fields.at(46);
  map.start_brk = fields.at(47);
  map.brk = reinterpret_cast<uint64_t>(sbrk(0));
  map.arg_start = fields.at(48);
  map.arg_end = fields.at(49);
  map.env_start = reinterpret_cast<uint64_t>(huge);
  map.env_end = map.env_start + kHuge;
  map.exe_fd = UINT32_MAX;
  return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) == 0;
}

TEST(Proc, AnEnvironmentIsReadUpToItsBudget) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const char is_huge = HaveHugeEnvironment();
    (void)!write(ends[1], &is_huge, 1);
    for (;;) pause();
  }
  char is_huge = 0;
  ASSERT_EQ(read(ends[0], &is_huge, 1), 1);
  const size_t size = is_huge ? ReadEnvironment(child).size() : 0;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  if (!is_huge) GTEST_SKIP() << "this kernel does not let a process move its environment";
  EXPECT_EQ(size, 4u << 20) << "of 64 GiB";
}

}  // namespace
}  // namespace slotscope
