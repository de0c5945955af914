// SPDX-License-Identifier: MIT
#include "detect/live/fr_watch.h"

#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/escape.h"

namespace slotscope {
namespace {

constexpr size_t kMaxFiles = 65'536;
constexpr uint64_t kMaxBytes = 1u << 30;  // at one look; the others wait for the next
// A file that is still being written to is not broken.
constexpr int64_t kSettledNs = 5'000'000'000;

}  // namespace

bool FrWatch::Poll(int64_t now_ns) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()), closedir);
  if (!folder) return false;  // what is known stays known
  std::set<std::string> there;
  bool is_changed = false;
  uint64_t nr_bytes = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    const auto rank = FrRankOfName(name);
    if (!rank || (files_.size() >= kMaxFiles && !files_.contains(name))) continue;
    const std::string path = folder_ + "/" + name;
    struct stat info;
    if (stat(path.c_str(), &info) || !S_ISREG(info.st_mode)) continue;
    there.insert(name);
    File& file = files_[name];
    const int64_t changed_ns = NsOf(info.st_mtim);
    if (nr_bytes >= kMaxBytes) continue;
    if (file.changed_ns != changed_ns || file.size != static_cast<uint64_t>(info.st_size) ||
        file.inode != info.st_ino) {
      file.changed_ns = changed_ns;
      file.size = static_cast<uint64_t>(info.st_size);
      file.inode = info.st_ino;
      file.rank = *rank;
      file.is_told = false;
      FrDump dump;
      const Status status = reader_.Read(path, &dump);
      nr_bytes += reader_.nr_bytes();
      file.problem = status.message();
      if (status.ok()) {
        file.dump = std::move(dump);
        file.is_read = true;
        is_changed = true;
      }
    }
    if (!file.problem.empty() && !file.is_told && now_ns - file.changed_ns >= kSettledNs) {
      TellProblem(fmt::format("{}: {}", EscapeControls(path), file.problem), now_ns);
      file.is_told = true;
    }
  }
  for (auto file = files_.begin(); file != files_.end();) {
    if (there.contains(file->first)) {
      ++file;
      continue;
    }
    is_changed |= file->second.is_read;
    file = files_.erase(file);
  }
  return is_changed;
}

void FrWatch::TellProblem(std::string text, int64_t now_ns) {
  if (!problem_rate_.Take(static_cast<uint64_t>(now_ns))) {
    nr_untold_++;
    return;
  }
  if (const uint64_t nr = std::exchange(nr_untold_, 0))
    text += fmt::format(" ({} more like this before)", nr);
  problems_.push_back(std::move(text));
}

NcclRecords FrWatch::Records() const {
  std::map<int32_t, const File*> by_rank;
  for (const auto& [name, file] : files_) {
    if (!file.is_read) continue;
    const File*& one = by_rank[file.rank];
    if (!one || one->changed_ns < file.changed_ns) one = &file;  // the latest counts
  }
  NcclRecords records;
  for (const auto& [rank, file] : by_rank) records.Add(rank, file->dump, file->changed_ns);
  return records;
}

std::vector<std::string> FrWatch::TakeProblems() { return std::exchange(problems_, {}); }

}  // namespace slotscope
