// SPDX-License-Identifier: MIT
#include "ring/reader.h"

#include <gtest/gtest.h>

namespace slotscope {
namespace {

TEST(Reader, DumpsTakeAtMostAFiftiethOfTheTimeAndNeverComeFasterThanOnceASecond) {
  constexpr uint64_t kMs = 1'000'000;
  EXPECT_EQ(NextDumpNs(0, 0), 1000 * kMs);
  for (uint64_t took_ns : {1ul, kMs, 20 * kMs, 21 * kMs, 400 * kMs, 10'000 * kMs}) {
    const uint64_t begin_ns = 7'000 * kMs, end_ns = begin_ns + took_ns;
    const uint64_t rest_ns = NextDumpNs(begin_ns, end_ns) - end_ns;
    EXPECT_GE(rest_ns, 1000 * kMs) << took_ns;
    EXPECT_GE(rest_ns, 50 * took_ns) << took_ns;
    EXPECT_LE(rest_ns, std::max(1000 * kMs, 50 * took_ns)) << took_ns << ": names come late";
  }
}

}  // namespace
}  // namespace slotscope
