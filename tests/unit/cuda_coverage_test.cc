// SPDX-License-Identifier: MIT
// What is said of a process's CUDA libraries.
#include "cuda/coverage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace slotscope {
namespace {

using Kind = CudaLibrary::Kind;

CudaLibrary Library(Kind kind, size_t nr_targets, std::vector<std::string> gaps = {}) {
  CudaLibrary library;
  library.kind = kind;
  for (uint32_t i = 0; i < nr_targets; i++) library.targets.push_back({i, i});
  library.gaps = std::move(gaps);
  return library;
}

std::vector<CudaFileCoverage> Describe(
    const std::vector<std::tuple<std::string, CudaLibrary, std::string>>& files) {
  std::vector<CudaFileCoverage> all;
  for (const auto& [path, library, error] : files) {
    CudaFileCoverage one;
    if (DescribeFile(path, library, error, &one)) all.push_back(one);
  }
  return all;
}

TEST(CudaCoverage, OfAProcess) {
  const struct {
    const char* what;
    std::vector<std::tuple<std::string, CudaLibrary, std::string>> files;
    const char* text;
    bool has_gaps;
  } cases[] = {
      {"nothing", {}, "", false},
      {"other libraries",
       {{"/lib/libc.so.6", Library(Kind::kNone, 0), ""}, {"/x", Library(Kind::kNone, 0), "bad"}},
       "",
       false},
      {"all of it",
       {{"/a/libcudart.so.13", Library(Kind::kRuntime, 3), ""},
        {"/b/libcuda.so.1", Library(Kind::kDriver, 5), ""}},
       "libcudart.so.13: 3 functions probed; libcuda.so.1: 5 functions probed",
       false},
      {"newer functions",
       {{"libcuda.so.1", Library(Kind::kDriver, 5, {"cuMemAllocNew", "cuLaunchNew"}), ""}},
       "libcuda.so.1: 5 functions probed, not these: cuMemAllocNew cuLaunchNew",
       true},
      {"a runtime within",
       {{"/t/libcublas.so", Library(Kind::kHiddenRuntime, 0), ""}},
       "libcublas.so: its runtime has no symbols, only what it asks of the driver is seen",
       true},
      {"a stripped driver",
       {{"libcuda.so.550.1", Library(Kind::kNone, 0), ""}},
       "libcuda.so.550.1: not probed (it has no symbols of CUDA's functions)",
       true},
      {"an error",
       {{"libcuda.so.1", Library(Kind::kDriver, 5), "no permission"}},
       "libcuda.so.1: not probed (no permission)",
       true},
      {"a hostile name",
       {{"/libcudart.so.\x1b[2J,\n", Library(Kind::kRuntime, 1), ""}},
       "libcudart.so.\\x1b[2J\\x2c\\x0a: 1 functions probed",
       false},
  };
  for (const auto& c : cases) {
    const auto files = Describe(c.files);
    EXPECT_EQ(CoverageText(files), c.text) << c.what;
    EXPECT_EQ(!GapsOf(files).empty(), c.has_gaps) << c.what;
  }
}

// A dozen libraries with a runtime each, one mapped after the other, are told of once.
TEST(CudaCoverage, RuntimesWithoutSymbolsAreAlike) {
  const CudaLibrary runtime = Library(Kind::kRuntime, 3), hidden = Library(Kind::kHiddenRuntime, 0);
  const auto one = Describe({{"libcudart.so.13", runtime, ""}, {"libcublas.so", hidden, ""}});
  const auto more = Describe({{"libcufft.so", hidden, ""}, {"libcublas.so", hidden, ""}});
  EXPECT_EQ(GapsOf(one), GapsOf(more));
  const auto other =
      Describe({{"libcublas.so", hidden, ""}, {"libcuda.so", Library(Kind::kNone, 0), ""}});
  EXPECT_NE(GapsOf(one), GapsOf(other));
}

TEST(CudaCoverage, ATextHasAnEnd) {
  std::vector<std::string> gaps;
  for (int i = 0; i < 1000; i++) gaps.push_back("cuMemAlloc" + std::to_string(i));
  const std::string text =
      CoverageText(Describe({{"libcuda.so.1", Library(Kind::kDriver, 5, gaps), ""}}));
  EXPECT_LT(text.size(), 500u);
  EXPECT_TRUE(text.ends_with(" cuMemAlloc19 and 980 more")) << text;
}

TEST(CudaCoverage, AlsoThatOfManyFiles) {
  std::vector<std::tuple<std::string, CudaLibrary, std::string>> files;
  for (int i = 0; i < 5000; i++) files.emplace_back("libcuda.so.x", Library(Kind::kNone, 0), "");
  EXPECT_LT(CoverageText(Describe(files)).size(), 3000u);
}

TEST(CudaCoverage, AProcessWithoutCudaHasNone) {
  KnownLibraries known;
  EXPECT_TRUE(ReadCoverage(getpid(), &known).empty());
  EXPECT_TRUE(ReadCoverage(0x7fffffff, &known).empty());
  EXPECT_TRUE(known.empty());
}

}  // namespace
}  // namespace slotscope
