// SPDX-License-Identifier: MIT
#include "detect/inputs/fr_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/bounded_file.h"
#include "base/escape.h"

namespace slotscope {
namespace {

constexpr size_t kMaxFile = 64u << 20;

}  // namespace

Status FrFileReader::Read(const std::string& path, FrDump* dump) {
  if (Status status = ReadWholeFile(path, kMaxFile, &bytes_); !status.ok()) return status;
  Status status = ParseFrDump(bytes_, &tree_, dump);
  tree_.Clear();  // it refers to the bytes
  if (status.ok()) CondenseFrDump(dump);
  return status;
}

Status ReadFrFolder(const std::string& path, FrFolder* folder, uint64_t max_bytes) {
  std::error_code error;
  std::filesystem::directory_iterator files(path, error);
  // A job's files have one name, but for the rank: the one that most of them have.
  std::map<std::string, std::map<int32_t, std::filesystem::path>> by_name;
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    if (!files->is_regular_file(error)) continue;
    const std::string stem = files->path().stem().string();
    const auto rank = FrRankOfName(files->path().filename().string());
    if (!rank) continue;
    const std::string name = stem.substr(0, stem.find_last_not_of("0123456789") + 1);
    auto& one = by_name[name][*rank];
    if (one.empty() || files->path() < one) one = files->path();  // JSON beside a pickle is the same
  }
  std::map<int32_t, std::filesystem::path> by_rank;
  for (const auto& [name, ranks] : by_name)
    if (ranks.size() > by_rank.size()) by_rank = ranks;
  for (const auto& [name, ranks] : by_name)
    for (const auto& [rank, file] : ranks) {
      const auto [at, is_new] = by_rank.try_emplace(rank, file);
      if (!is_new && at->second != file)
        folder->problems.push_back(fmt::format(
            "{}: rank {} has another file, {}; give each job a folder", EscapeControls(file.string()),
            rank, EscapeControls(at->second.filename().string())));
    }
  if (error)
    return {
        Exit::kBadInput,
        fmt::format("--fr-dir {}: cannot read the folder: {}{}", EscapeControls(path), error.message(),
                    error == std::errc::not_a_directory ? "; give the folder that the dump is in" : "")};
  FrFileReader reader;
  uint64_t nr_bytes = 0;
  for (const auto& [rank, file] : by_rank) {
    FrDump dump;
    const Status status =
        nr_bytes < max_bytes
            ? reader.Read(file.string(), &dump)
            : Status{Exit::kBadInput, fmt::format("those before it have {} MiB", max_bytes >> 20)};
    nr_bytes += reader.nr_bytes();
    if (!status.ok()) {
      folder->problems.push_back(fmt::format("{}: {}", EscapeControls(file.string()), status.message()));
      continue;
    }
    folder->nr_malformed += dump.nr_malformed;
    folder->records.Add(rank, dump);
  }
  std::sort(folder->problems.begin(), folder->problems.end());
  if (!folder->records.ranks().empty()) return {};
  const size_t nr = folder->problems.size();
  if (nr == 0)
    return {Exit::kBadInput,
            fmt::format("--fr-dir {}: there is no dump of a flight recorder in it (files named by rank, "
                        "such as nccl_trace_rank_0; pickles or JSON)",
                        EscapeControls(path))};
  constexpr size_t kMaxNamed = 3;
  std::string text = fmt::format("--fr-dir {}: of {} file{} named as a dump none can be read",
                                 EscapeControls(path), nr, nr == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(nr, kMaxNamed); i++)
    text += (i == 0 ? ": " : "; ") + folder->problems[i];
  if (nr > kMaxNamed) text += "; ...";
  return {Exit::kBadInput, text};
}

}  // namespace slotscope
