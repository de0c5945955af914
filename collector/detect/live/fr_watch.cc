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

// A file that is still being written to is not broken.
constexpr int64_t kSettledNs = 5'000'000'000;
constexpr uint64_t kLastLooks = 5;
constexpr size_t kNamesBetween = 1024;  // two looks at the clock

uint64_t CpuNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }

// What it takes in memory, about.
uint64_t BytesOf(const FrDump& dump) {
  uint64_t bytes = sizeof(dump) + dump.entries.capacity() * sizeof(FrEntry);
  for (const FrGroup& group : dump.groups)
    bytes += sizeof(group) + group.name.capacity() + group.description.capacity() +
             group.members.capacity() * sizeof(int32_t);
  for (const std::string& operation : dump.operations) bytes += sizeof(operation) + operation.capacity();
  for (const FrTensors& tensors : dump.tensors)
    bytes += sizeof(tensors) + tensors.text.capacity() + tensors.type.capacity();
  return bytes;
}

}  // namespace

bool FrWatch::Poll(int64_t now_ns, bool is_last) {
  const auto now = static_cast<uint64_t>(now_ns);
  if (!is_last && !debt_.Allows(now)) return false;
  uint64_t paid_ns = CpuNs();
  const uint64_t until_ns = paid_ns + budget_.look_ns * (is_last ? kLastLooks : 1);
  const auto may_go_on = [&] {
    const uint64_t took_ns = CpuNs() - paid_ns;
    debt_.Took(took_ns, now);
    paid_ns += took_ns;
    return paid_ns < until_ns && (is_last || debt_.Allows(now));
  };
  bool is_changed = false;
  std::vector<Change> changes = Changes(until_ns, &is_changed);
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::pair(a.file->read_at, a.changed_ns) < std::pair(b.file->read_at, b.changed_ns);
  });
  size_t nr_read = 0;
  while (nr_read < changes.size()) {  // one at least, however many names there are
    is_changed |= Read(changes[nr_read++]);
    if (!may_go_on()) break;
  }
  if (nr_read < changes.size() && !debt_.Allows(now) && budget_rate_.Take(now))
    problems_.push_back(
        fmt::format("{}: {} dumps wait to be read: reading them takes more than one part in {} of a CPU",
                    EscapeControls(folder_), changes.size() - nr_read, budget_.share));
  for (auto& [name, file] : files_)
    if (!file.problem.empty() && !file.is_told && now_ns - file.changed_ns >= kSettledNs) {
      TellProblem(fmt::format("{}/{}: {}", EscapeControls(folder_), EscapeControls(name), file.problem),
                  now_ns);
      file.is_told = true;
    }
  return is_changed;
}

std::vector<FrWatch::Change> FrWatch::Changes(uint64_t until_ns, bool* is_changed) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()), closedir);
  if (!folder) return {};  // what is known stays known
  std::set<std::string> there;
  std::vector<Change> changes;
  for (size_t nr_names = 1; const dirent* entry = readdir(folder.get()); nr_names++) {
    if (nr_names % kNamesBetween == 0 && CpuNs() >= until_ns) return changes;  // nobody is gone
    const std::string name = entry->d_name;
    const auto rank = FrRankOfName(name);
    if (!rank || (files_.size() >= budget_.max_files && !files_.contains(name))) continue;
    std::string path = folder_ + "/" + name;
    struct stat info;
    if (stat(path.c_str(), &info) || !S_ISREG(info.st_mode)) continue;
    there.insert(name);
    File& file = files_[name];
    file.rank = *rank;
    const int64_t changed_ns = NsOf(info.st_mtim);
    const auto size = static_cast<uint64_t>(info.st_size);
    if (file.changed_ns != changed_ns || file.size != size || file.inode != info.st_ino)
      changes.push_back({&file, std::move(path), changed_ns, size, info.st_ino});
  }
  uint64_t nr_gone = 0;
  std::erase_if(files_, [&](const auto& one) {
    const auto& [name, file] = one;
    if (there.contains(name)) return false;
    *is_changed |= file.is_read;
    kept_ -= file.kept;
    nr_gone++;
    return true;
  });
  if (nr_gone)  // there is room for them now
    for (auto& [name, file] : files_)
      if (file.is_left_out) file.inode = 0;
  return changes;
}

bool FrWatch::Read(const Change& change) {
  File& file = *change.file;
  file.changed_ns = change.changed_ns;
  file.size = change.size;
  file.inode = change.inode;
  file.is_told = file.is_left_out = false;
  file.read_at = ++nr_reads_;
  FrDump dump;
  const Status status = reader_.Read(change.path, &dump);
  file.problem = status.message();
  if (!status.ok()) return false;
  const bool was_read = file.is_read;
  kept_ -= std::exchange(file.kept, 0);
  const uint64_t bytes = BytesOf(dump);
  file.is_left_out = kept_ + bytes > budget_.max_kept;
  file.is_read = !file.is_left_out;
  file.dump = file.is_read ? std::move(dump) : FrDump();
  if (file.is_left_out) {
    file.problem =
        fmt::format("it is left out: the others take {} MiB of memory", budget_.max_kept >> 20);
    return was_read;
  }
  kept_ += file.kept = bytes;
  return true;
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
