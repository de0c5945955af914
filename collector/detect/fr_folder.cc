// SPDX-License-Identifier: MIT
#include "detect/fr_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "base/escape.h"

namespace slotscope {
namespace {

constexpr uintmax_t kMaxFile = 1u << 30;

// Regular files only: to open a pipe would wait for who writes it.
Status ReadFile(const std::filesystem::path& path, std::string* bytes) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return {Exit::kBadInput, error.message()};
  if (size > kMaxFile) return {Exit::kBadInput, "it is larger than 1 GiB"};
  std::ifstream file(path, std::ios::binary);
  bytes->resize(size);
  if (!file.read(bytes->data(), static_cast<std::streamsize>(size)))
    return {Exit::kBadInput, "it cannot be read"};
  return {};
}

}  // namespace

Status ReadFrFolder(const std::string& path, FrFolder* folder) {
  std::error_code error;
  std::filesystem::directory_iterator files(path, error);
  std::map<int32_t, std::filesystem::path> by_rank;
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    if (!files->is_regular_file(error)) continue;
    const auto rank = FrRankOfName(files->path().filename().string());
    if (!rank) continue;
    const auto [at, is_new] = by_rank.try_emplace(*rank, files->path());
    if (!is_new)
      folder->problems.push_back(fmt::format("{}: rank {} has another file, {}; give each job a folder",
                                             EscapeControls(files->path().string()), *rank,
                                             EscapeControls(at->second.filename().string())));
  }
  if (error)
    return {Exit::kBadInput, fmt::format("--fr-dir {}: cannot read the folder: {}", EscapeControls(path),
                                         error.message())};
  for (const auto& [rank, file] : by_rank) {
    std::string bytes;
    FrDump dump;
    Status status = ReadFile(file, &bytes);
    if (status.ok()) status = ParseFrDump(bytes, &dump);
    if (!status.ok()) {
      folder->problems.push_back(fmt::format("{}: {}", EscapeControls(file.string()), status.message()));
      continue;
    }
    folder->nr_malformed += dump.nr_malformed;
    folder->records.Add(rank, dump);
  }
  std::sort(folder->problems.begin(), folder->problems.end());
  if (folder->records.ranks().empty())
    return {Exit::kBadInput,
            fmt::format(
                "--fr-dir {}: there is no dump of a flight recorder in it (files named by rank, such "
                "as nccl_trace_rank_0){}{}",
                EscapeControls(path), folder->problems.empty() ? "" : ": ",
                folder->problems.empty() ? "" : folder->problems[0])};
  return {};
}

}  // namespace slotscope
