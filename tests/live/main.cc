// SPDX-License-Identifier: MIT
// The live tests, or, with --workload, one of the workloads they observe.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
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
  return RUN_ALL_TESTS();
}
