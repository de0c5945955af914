// SPDX-License-Identifier: MIT
#include "cuda/uretprobe_safety.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace slotscope {
namespace {

// What a process finds out that runs under a filter which answers that call with that error.
FilterVerdict TryUnderFilterOfOurOwn(long system_call, unsigned error) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(system_call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {std::size(program), program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
      _exit(100);
    _exit(static_cast<int>(TryUnderFilter(system_call)));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<FilterVerdict>(WEXITSTATUS(status));
}

TEST(UretprobeSafety, ACallThatFiltersSeeIsRefused) {
  EXPECT_EQ(TryUnderFilter(SYS_getpid), FilterVerdict::kRefuses);
}

// That fails, and whose failure is the kernel's.
TEST(UretprobeSafety, SoIsOneThatFailsByItself) {
  EXPECT_EQ(TryUnderFilter(SYS_pipe2), FilterVerdict::kRefuses);
}

TEST(UretprobeSafety, ACallThatTheKernelDoesNotHaveIsNone) {
  EXPECT_EQ(TryUnderFilter(100'000), FilterVerdict::kNoSuchCall);
}

// Profiles of containers answer so what they do not know.
TEST(UretprobeSafety, AFilterThatHidesTheCallIsNotTheKernel) {
  EXPECT_EQ(TryUnderFilterOfOurOwn(SYS_getppid, ENOSYS), FilterVerdict::kHidden);
  EXPECT_EQ(TryUnderFilterOfOurOwn(SYS_getppid, EPERM), FilterVerdict::kRefuses);
}

TEST(UretprobeSafety, TheChildLeavesNothingBehind) {
  for (int i = 0; i < 3; i++) EXPECT_EQ(TryUnderFilter(SYS_getpid), FilterVerdict::kRefuses);
  EXPECT_GT(syscall(SYS_getpid), 0);
}

}  // namespace
}  // namespace slotscope
