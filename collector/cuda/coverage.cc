// SPDX-License-Identifier: MIT
#include "cuda/coverage.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/escape.h"
#include "base/unique_fd.h"
#include "cuda/process_maps.h"

namespace slotscope {
namespace {

// A text has no end where a library has a thousand functions that we do not know.
constexpr size_t kMaxNamedGaps = 20;
constexpr size_t kMaxTextBytes = 2000;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool IsCudaName(std::string_view path) {
  return BaseName(path).starts_with("libcuda.so") || BaseName(path).starts_with("libcudart.so");
}

bool DescribeFile(std::string_view path, const CudaLibrary& library, const std::string& error,
                  CudaFileCoverage* coverage) {
  using Kind = CudaLibrary::Kind;
  // Libraries of others that are no well-formed files are none of our business.
  if (library.kind == Kind::kNone && !IsCudaName(path)) return false;
  *coverage = {EscapeName(BaseName(path)), library.kind, library.targets.size(), library.gaps, error};
  if (error.empty() && library.kind == Kind::kNone)
    coverage->error = "it has no symbols of CUDA's functions";
  return true;
}

std::string GapsOf(const std::vector<CudaFileCoverage>& files) {
  std::vector<std::string> gaps;
  for (const CudaFileCoverage& file : files) {
    if (file.kind == CudaLibrary::Kind::kHiddenRuntime && file.error.empty())
      gaps.push_back("a runtime without symbols");
    else if (!file.gaps.empty() || !file.error.empty())
      gaps.push_back(fmt::format("{} {}{}", file.name, file.error, fmt::join(file.gaps, " ")));
  }
  std::sort(gaps.begin(), gaps.end());
  gaps.erase(std::unique(gaps.begin(), gaps.end()), gaps.end());
  return fmt::format("{}", fmt::join(gaps, "; ")).substr(0, kMaxTextBytes);
}

std::string CoverageText(const std::vector<CudaFileCoverage>& files) {
  std::string text;
  for (const CudaFileCoverage& file : files) {
    if (text.size() > kMaxTextBytes) return text + "; and more";
    if (!text.empty()) text += "; ";
    if (!file.error.empty()) {
      text += fmt::format("{}: not probed ({})", file.name, file.error);
      continue;
    }
    if (file.kind == CudaLibrary::Kind::kHiddenRuntime) {
      text += fmt::format("{}: its runtime has no symbols, only what it asks of the driver is seen",
                          file.name);
      continue;
    }
    text += fmt::format("{}: {} functions probed", file.name, file.nr_probed);
    if (file.gaps.empty()) continue;
    text += ", not these:";
    for (size_t i = 0; i < std::min(file.gaps.size(), kMaxNamedGaps); i++) text += " " + file.gaps[i];
    if (file.gaps.size() > kMaxNamedGaps)
      text += fmt::format(" and {} more", file.gaps.size() - kMaxNamedGaps);
  }
  return text;
}

std::vector<CudaFileCoverage> ReadCoverage(int32_t tgid, KnownLibraries* known) {
  std::vector<CudaFileCoverage> files;
  std::vector<MappedFile> mapped;
  if (!ReadMaps(tgid, &mapped).ok()) return files;
  if (std::none_of(mapped.begin(), mapped.end(),
                   [](const MappedFile& file) { return IsCudaName(file.path); }))
    return files;
  for (const MappedFile& one : mapped) {
    auto [at, is_new] = known->try_emplace({one.dev, one.inode});
    auto& [library, error] = at->second;
    if (is_new) {
      const std::string path = fmt::format("/proc/{}/map_files/{}", tgid, one.range);
      UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      if (!fd.valid()) {
        known->erase(at);
        continue;
      }
      if (Status status = ReadCudaLibrary(fd.get(), &library); !status.ok()) error = status.message();
    }
    CudaFileCoverage file;
    if (DescribeFile(one.path, library, error, &file)) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace slotscope
