// SPDX-License-Identifier: MIT
#include "run/last_wait.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace slotscope {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

void Leave(const char* name) {
  fprintf(stderr, "left %s\n", name);
  _exit(6);
}

TEST(LastWaitDeathTest, WhoDoesNotEndIsLeft) {
  EXPECT_EXIT(
      {
        LastWait wait(milliseconds(50), Leave);
        wait.For("the detectors");
        for (;;) pause();
      },
      testing::ExitedWithCode(6), "left the detectors");
}

TEST(LastWait, WhoEndsInTimeIsNot) {
  bool left = false;
  {
    LastWait wait(hours(1), [&](const char*) { left = true; });
    wait.For("the detectors");
  }
  EXPECT_FALSE(left);
}

}  // namespace
}  // namespace slotscope
