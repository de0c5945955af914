// SPDX-License-Identifier: MIT
#include "base/proc.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/proc_memory.h"
#include "own_environment.h"
#include "temp_folder.h"
#include "until.h"
#include "waiting_child.h"

namespace slotscope {
namespace {

TEST(Proc, AnEnvironmentIsReadUpToItsBudget) {
  const WaitingChild child([] { return HaveHugeEnvironment(64ull << 30); });
  if (!child.is_ready()) GTEST_SKIP() << "this kernel does not let a process move its environment";
  EXPECT_EQ(ReadEnvironment(child.pid()).size(), 4u << 20) << "of 64 GiB";
}

// What a process's memory is if it lies in a file system of its own: it does not come.
class NeverComes {
 public:
  NeverComes() { EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0); }
  const std::string& path() const { return path_; }
  void Come() const { close(open(path_.c_str(), O_RDWR)); }

 private:
  TempFolder folder_;
  const std::string path_ = folder_.At("fifo");
};

size_t NrThreads() { return ListProcesses("/proc/self/task").size(); }

TEST(ProcMemory, WhatNeverComesIsNotWaitedFor) {
  const size_t before = NrThreads();
  const NeverComes never;
  EXPECT_EQ(ReadProcMemory(never.path(), 1u << 20), "");
  EXPECT_EQ(NrThreads(), before + 1) << "or it was not stuck at all";
  // It is not asked again, while it is, and others are.
  EXPECT_EQ(ReadProcMemory(never.path(), 1u << 20), "");
  EXPECT_EQ(NrThreads(), before + 1);
  EXPECT_NE(ReadEnvironment(getpid()), "");
  // Its thread ends with it.
  never.Come();
  EXPECT_TRUE(Until([&] { return NrThreads() == before; }));
}

// Only so many are waited for, and when one has ended, others are read again.
TEST(ProcMemory, ManyThatNeverComeAreBounded) {
  const size_t before = NrThreads();
  std::vector<NeverComes> never(kMostStuckReads + 1);
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kMostStuckReads; i++)
    readers.emplace_back([&, i] { ReadProcMemory(never[i].path(), 100); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(NrThreads(), before + kMostStuckReads);
  EXPECT_EQ(ReadProcMemory(never.back().path(), 100), "");
  EXPECT_EQ(NrThreads(), before + kMostStuckReads);
  EXPECT_EQ(ReadEnvironment(getpid()), "");
  never[0].Come();
  EXPECT_TRUE(Until([] { return !ReadEnvironment(getpid()).empty(); }));
  for (const NeverComes& one : never) one.Come();
  EXPECT_TRUE(Until([&] { return NrThreads() == before; }));
}

}  // namespace
}  // namespace slotscope
