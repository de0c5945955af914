// SPDX-License-Identifier: MIT
// Which functions of which files are probed. The stand-in libraries are built by make; a real libcudart
// is looked at where there is one (CUDA_HOME or /usr/local/cuda).
#include "cuda/library.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/unique_fd.h"
#include "cuda/calls.h"
#include "cuda/process_maps.h"

namespace slotscope {
namespace {

std::string Standin(const char* name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "standin" / name).string();
}

Status Read(const std::string& path, CudaLibrary* library) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  return ReadCudaLibrary(fd.get(), library);
}

std::set<std::string> NamesOf(const CudaLibrary& library) {
  std::set<std::string> names;
  for (const auto& target : library.targets) names.insert(CudaCalls()[target.call].name);
  return names;
}

TEST(CudaCalls, EachNameOnceAndAllFitIntoTheTable) {
  std::set<std::string> names;
  for (const CudaCall& call : CudaCalls()) {
    EXPECT_TRUE(names.insert(call.name).second) << call.name;
    EXPECT_GT(call.probe.op, 0) << call.name;
    EXPECT_LT(call.probe.op, SS_CUDA_NR_OPS) << call.name;
    EXPECT_EQ(call.name.ends_with("_ptsz") || call.name.ends_with("_ptds"),
              (call.probe.flags & SS_CUDA_PER_THREAD) != 0)
        << call.name;
    for (const ss_cuda_value& value : call.probe.values) {
      const bool on_stack = value.from == SS_FROM_STACK || value.from == SS_FROM_STACK32;
      EXPECT_TRUE(on_stack || value.index < 6) << call.name;
    }
  }
  EXPECT_LE(CudaCalls().size(), size_t{SS_CUDA_MAX_CALLS});
}

TEST(CudaCalls, WhatMayAllocateOrLaunchAndIsNotProbedIsAGap) {
  for (const char* name :
       {"cudaMallocNextYear", "cuLaunchKernelEx_v2", "cuMemCreate_v2", "cudaLaunchKernel_v7000"})
    EXPECT_TRUE(IsCudaGap(name)) << name;
  for (const char* name :
       {"cudaMalloc", "cuLaunchKernel_ptsz", "cudaGetLastError", "cuMulticastUnbind", "main", ""})
    EXPECT_FALSE(IsCudaGap(name)) << name;
}

TEST(CudaLibrary, StandIns) {
  CudaLibrary runtime, driver;
  ASSERT_TRUE(Read(Standin("libcudart.so.13"), &runtime).ok());
  ASSERT_TRUE(Read(Standin("libcuda.so.1"), &driver).ok());
  EXPECT_EQ(runtime.kind, CudaLibrary::Kind::kRuntime);
  EXPECT_EQ(driver.kind, CudaLibrary::Kind::kDriver);
  EXPECT_TRUE(NamesOf(runtime).contains("__cudaLaunchKernel_ptsz"));
  EXPECT_TRUE(NamesOf(driver).contains("cuMemAlloc_v2"));
  EXPECT_FALSE(NamesOf(driver).contains("cudaMalloc"));
  std::set<uint64_t> offsets;
  for (const auto& target : driver.targets) EXPECT_TRUE(offsets.insert(target.offset).second);
}

TEST(CudaLibrary, TheRealRuntimeHasNoFunctionThatWeDoNotKnow) {
  const char* home = std::getenv("CUDA_HOME");
  const std::string path = std::string(home ? home : "/usr/local/cuda") + "/lib64/libcudart.so";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "there is no " << path;
  CudaLibrary library;
  ASSERT_TRUE(Read(path, &library).ok());
  EXPECT_EQ(library.kind, CudaLibrary::Kind::kRuntime);
  EXPECT_EQ(library.gaps, std::vector<std::string>{});
  EXPECT_GT(library.targets.size(), 50u);
}

TEST(CudaLibrary, OtherFilesHaveNothing) {
  CudaLibrary library;
  EXPECT_TRUE(Read("/bin/sh", &library).ok());
  EXPECT_EQ(library.kind, CudaLibrary::Kind::kNone);
  EXPECT_EQ(library.targets.size(), 0u);
  const Status status = Read("/etc/passwd", &library);
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find("not a well-formed ELF file"), std::string::npos) << status.message();
}

// A hostile file: each byte of a real one's start, and each of its section headers' bytes, set to 0xff.
TEST(CudaLibrary, DamagedFilesAreRefusedOrRead) {
  std::ifstream in(Standin("libcudart.so.13"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(whole.size(), 4096u);
  const std::string path = testing::TempDir() + "/damaged.so";
  auto read_with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    CudaLibrary library;
    (void)Read(path, &library);
    for (const auto& target : library.targets) EXPECT_LT(target.offset, whole.size());
  };
  for (size_t at = 0; at < 1024; at += 3) {
    std::string bytes = whole;
    bytes[at] = '\xff';
    read_with(bytes);
  }
  for (size_t at = whole.size() - 2048; at < whole.size(); at += 5) {
    std::string bytes = whole;
    bytes[at] = '\xff';
    read_with(bytes);
  }
  for (size_t size = 0; size < whole.size(); size += 997) read_with(whole.substr(0, size));
}

TEST(ProcessMaps, ExecutableFilesOnceEach) {
  const auto files = ParseMaps(
      "7f1000-7f2000 r--p 00000000 08:01 42                  /usr/lib/libcuda.so.1\n"
      "7f2000-7f3000 r-xp 00001000 08:01 42                  /usr/lib/libcuda.so.1\n"
      "7f4000-7f5000 r-xp 00001000 08:01 42                  /usr/lib/libcuda.so.1\n"
      "7f6000-7f7000 rwxp 00000000 00:00 0 \n"
      "7f7000-7f8000 r-xp 00000000 00:00 0                   [vdso]\n"
      "7f8000-7f9000 r-xp 00000000 fe:10 7                   /tmp/a b\\012c (deleted)\n");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].range, "7f2000-7f3000");
  EXPECT_EQ(files[0].dev, (uint64_t{8} << 32 | 1));
  EXPECT_EQ(files[0].inode, 42u);
  EXPECT_EQ(files[1].path, "/tmp/a b\\012c (deleted)");
  EXPECT_EQ(files[1].dev, (uint64_t{0xfe} << 32 | 0x10));
}

TEST(ProcessMaps, WhatIsNotALineIsLeftOut) {
  for (const char* text :
       {"", "\n\n", "x", "7f-8f r-xp", "7f-8f r-xp 0 08:01 42", "7f-8f r-xp 0 08:01 42 ",
        "7f r-xp 0 08:01 42 /a", "7f-8f r-xp 0 0801 42 /a", "-8f r-xp 0 08:01 42 /a",
        "ffffffffffffffffff-8f r-xp 0 08:01 42 /a", "7f-8f r-xp 0 08:01 -42 /a"})
    EXPECT_EQ(ParseMaps(text).size(), 0u) << text;
}

TEST(ProcessMaps, OfThisProcess) {
  std::vector<MappedFile> files;
  ASSERT_TRUE(ReadMaps(getpid(), &files).ok());
  EXPECT_GT(files.size(), 2u);
  EXPECT_FALSE(ReadMaps(0x7ffffff0, &files).ok());
  EXPECT_EQ(files.size(), 0u);
}

}  // namespace
}  // namespace slotscope
