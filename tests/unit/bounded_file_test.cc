// SPDX-License-Identifier: MIT
#include "base/bounded_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "temp_folder.h"

namespace slotscope {
namespace {

TEST(ReadProcFile, ReadsSoMuchAndNoMore) {
  EXPECT_EQ(ReadProcFile("/dev/zero", 300'000).size(), 300'000u) << "as an environment without an end";
  EXPECT_EQ(ReadProcFile("/proc/self/comm", 5), ReadProcFile("/proc/self/comm", 4096).substr(0, 5));
  EXPECT_EQ(ReadProcFile("/proc/self/comm", 4096).back(), '\n');
  EXPECT_EQ(ReadProcFile("/proc/self/nobody", 10), "");
  EXPECT_EQ(ReadProcFile("/proc", 10), "") << "a folder";
}

TEST(ForEachProcLine, HasTheLastLineAndNoneThatIsCut) {
  const TempFolder folder;
  const auto lines = [&](const std::string& text, size_t max_bytes) {
    folder.Write("lines", text);
    std::vector<std::string> found;
    EXPECT_TRUE(ForEachProcLine(folder.At("lines"), max_bytes, [&](std::string_view line) {
      found.emplace_back(line);
      return line != "stop";
    }));
    return found;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines("", 100), Lines{});
  EXPECT_EQ(lines("a\n\nb\n", 100), (Lines{"a", "", "b"}));
  EXPECT_EQ(lines("a\nb", 100), (Lines{"a", "b"}));
  EXPECT_EQ(lines("a\nlonger", 4), Lines{"a"}) << "it would be another word";
  EXPECT_EQ(lines("a\nstop\nb", 100), (Lines{"a", "stop"}));
  const std::string of_two_pieces(100'000, 'x');
  EXPECT_EQ(lines(of_two_pieces + "\nb", 1u << 20), (Lines{of_two_pieces, "b"}));
  EXPECT_FALSE(ForEachProcLine("/proc/self/nobody", 100, [](std::string_view) { return true; }));
}

TEST(ReadWholeFile, IsWholeOrRefused) {
  const TempFolder folder;
  const auto read = [&](const std::string& name, size_t max_bytes) {
    std::string bytes = "of the last one";
    const Status status = ReadWholeFile(folder.At(name), max_bytes, &bytes);
    return status.ok() ? "'" + bytes + "'" : status.message();
  };
  const size_t kMiB = 1u << 20;
  folder.Write("text", std::string(200'000, 'x'));
  EXPECT_EQ(read("text", kMiB), "'" + std::string(200'000, 'x') + "'");
  EXPECT_EQ(read("text", 200'000), "'" + std::string(200'000, 'x') + "'");
  folder.Write("empty", "");
  EXPECT_EQ(read("empty", kMiB), "''");
  folder.Write("large", std::string(kMiB + 1, 'x'));
  EXPECT_EQ(read("large", kMiB), "it is larger than 1 MiB");
  std::filesystem::create_symlink("text", folder.At("link"));
  EXPECT_EQ(read("link", kMiB), "it is a link");
  ASSERT_EQ(mkfifo(folder.At("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read("fifo", kMiB), "it is no regular file");
  EXPECT_EQ(read("nothing", kMiB), "cannot open it: No such file or directory");
}

// Between any two of our looks: whoever waits for a writer that never comes is ended by SIGALRM.
TEST(ReadWholeFile, WhatBecomesAFifoMeanwhileIsNotWaitedFor) {
  const TempFolder folder;
  const std::string path = folder.At("dump");
  folder.Write("dump", "whole");
  folder.Write("secret", "of another");  // who follows the link reads that
  std::atomic<bool> stop{false};
  std::thread swaps([&] {
    for (int i = 0; !stop; i++) {
      const std::string next = folder.At("next");
      if (i % 3 == 0)
        folder.Write("next", "whole");
      else if (i % 3 == 1)
        mkfifo(next.c_str(), 0600);
      else
        symlink("secret", next.c_str());
      rename(next.c_str(), path.c_str());
    }
  });
  std::map<std::string, size_t> seen;
  alarm(60);
  while (seen["'whole'"] < 1'000 || seen["it is no regular file"] < 1'000 ||
         seen["it is a link"] < 1'000) {
    std::string bytes;
    const Status status = ReadWholeFile(path, 100, &bytes);
    seen[status.ok() ? "'" + bytes + "'" : status.message()]++;
  }
  alarm(0);
  stop = true;
  swaps.join();
  EXPECT_EQ(seen.size(), 3u) << seen.rbegin()->first;
}

}  // namespace
}  // namespace slotscope
