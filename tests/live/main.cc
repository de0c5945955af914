// SPDX-License-Identifier: MIT
// The live tests, or, with --workload, one of the workloads they observe.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.h"

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "--workload") == 0)
    return slotscope::RunWorkloadHere(argc - 2, argv + 2);
  testing::InitGoogleTest(&argc, argv);
  if (geteuid() != 0) {
    std::printf("SKIP live tests: they need root, to load eBPF programs\n");
    return 77;
  }
  int code = RUN_ALL_TESTS();
  // Where all of them can run, one that does not is as bad as one that fails.
  if (const int skipped = testing::UnitTest::GetInstance()->skipped_test_count();
      skipped > 0 && std::getenv("SLOTSCOPE_TEST_STRICT")) {
    std::printf("%d tests were skipped, and SLOTSCOPE_TEST_STRICT is set\n", skipped);
    code = 1;
  }
  return code;
}
