// SPDX-License-Identifier: MIT
#include "cuda/uretprobe_safety.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

namespace slotscope {
namespace {

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

TEST(UretprobeSafety, TheChildLeavesNothingBehind) {
  for (int i = 0; i < 3; i++) EXPECT_EQ(TryUnderFilter(SYS_getpid), FilterVerdict::kRefuses);
  EXPECT_GT(syscall(SYS_getpid), 0);
}

}  // namespace
}  // namespace slotscope
