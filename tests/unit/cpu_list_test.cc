// SPDX-License-Identifier: MIT
#include "base/cpu_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace slotscope {
namespace {

TEST(CpuList, ParsesWhatTheKernelWrites) {
  const struct {
    const char* text;
    std::vector<int> cpus;
  } cases[] = {
      {"", {}},
      {"\n", {}},
      {"0", {0}},
      {"0\n", {0}},
      {"0-3", {0, 1, 2, 3}},
      {"0-3,8\n", {0, 1, 2, 3, 8}},
      {"0,2-2,4", {0, 2, 4}},
      {"7,1", {1, 7}},
      {"1-3,2-4,3", {1, 2, 3, 4}},
      {"65535", {65535}},
  };
  for (const auto& c : cases) {
    auto cpus = ParseCpuList(c.text);
    ASSERT_TRUE(cpus.has_value()) << c.text;
    EXPECT_EQ(*cpus, c.cpus) << c.text;
  }
}

TEST(CpuList, RefusesWhatIsNoList) {
  for (const char* text :
       {"-", ",",  "-1",  "1-",  "3-1", "0,", ",0",    "0,,1",    "0--2",       "0-1-2",
        "a", "0a", "0 1", "0x1", "+1",  " 0", "65536", "0-65536", "4294967296", "99999999999999999999"})
    EXPECT_FALSE(ParseCpuList(text).has_value()) << '"' << text << '"';
}

TEST(CpuList, LargestRangeHasEveryCpu) {
  auto cpus = ParseCpuList("0-65535");
  ASSERT_TRUE(cpus.has_value());
  EXPECT_EQ(cpus->size(), 65536u);
}

TEST(CpuList, WritesWhatItReads) {
  for (const char* text : {"", "0", "0-1", "0-3,8", "1,3,5-7,9", "65535"})
    EXPECT_EQ(FormatCpuList(*ParseCpuList(text)), text);
}

TEST(CpuList, ReadsThisMachines) {
  EXPECT_FALSE(ReadCpuList("present").empty());
  EXPECT_TRUE(ReadCpuList("no-such-file").empty());
  for (int cpu : ReadCpuList("online")) EXPECT_TRUE(IsCpuOnline(cpu)) << cpu;
  EXPECT_FALSE(IsCpuOnline(65535));
}

}  // namespace
}  // namespace slotscope
