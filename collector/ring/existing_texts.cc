// SPDX-License-Identifier: MIT
#include "ring/existing_texts.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <slotscope/events.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/proc.h"
#include "base/proc_memory.h"
#include "base/unique_fd.h"

namespace slotscope {
namespace {

// Somebody may make cgroups without end: what is deeper, or beyond so many, has no path.
constexpr int kMaxDepth = 64;
constexpr size_t kMaxCgroups = 65536;
constexpr size_t kChunk = 4096;
constexpr uint64_t kBudgetNs = 5'000'000;

class Messages {
 public:
  explicit Messages(const MessagesFn& sink) : sink_(sink) {}
  ~Messages() { HandOver(); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void Put(uint16_t type, int32_t tgid, uint64_t cgroup_id, std::string_view words) {
    constexpr size_t kTextAt = offsetof(ss_text, text);
    ss_text text = {};
    if (words.size() >= SS_TEXT_LEN) text.flags = SS_TEXT_CUT;
    words = words.substr(0, SS_TEXT_LEN - 1);
    const size_t size = (kTextAt + words.size() + kItemAlign) / kItemAlign * kItemAlign;
    text.hdr = {MonotonicNs(), type, static_cast<uint16_t>(size), 0};
    text.cgroup_id = cgroup_id;
    text.tgid = tgid;
    text.text_len = static_cast<uint16_t>(words.size());
    words.copy(text.text, words.size());
    const auto bytes = std::as_bytes(std::span(&text, 1)).first(size);
    if (bytes_.size() + size > kChunk) HandOver();
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

 private:
  void HandOver() {
    if (!bytes_.empty()) sink_(bytes_);
    bytes_.clear();
  }

  const MessagesFn& sink_;
  std::vector<std::byte> bytes_;
};

// Where a hierarchy is mounted, and what of it that is.
struct Mount {
  std::string point;
  std::string root;  // the cgroup that is seen there: "/", unless it is a part of it only
};

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::string_view one = words.substr(0, words.find(','));
    if (one == word) return true;
    words.remove_prefix(std::min(words.size(), one.size() + 1));
  }
  return false;
}

// The one that has the cpu controller: of v1, if it is there, else that of v2.
Mount FindMount() {
  std::ifstream file("/proc/self/mountinfo");
  Mount mount;
  for (std::string line; std::getline(file, line);) {
    std::string skipped, root, point, word, type, options;
    std::istringstream words(line);
    words >> skipped >> skipped >> skipped >> root >> point;
    while (words >> word && word != "-") continue;
    words >> type >> skipped >> options;
    if (type == "cgroup" && HasWord(options, "cpu")) return {point, root};
    if (type == "cgroup2" && mount.point.empty()) mount = {point, root};
  }
  return mount;
}

class CgroupWalk {
 public:
  explicit CgroupWalk(Messages* messages) : messages_(messages) {}

  // `path` is that of the folder, from the hierarchy's root on; empty: it is the root.
  void Tell(int folder, const std::string& path, int depth) {
    struct stat about;
    if (fstat(folder, &about) != 0 || nr_told_++ >= kMaxCgroups) return;
    // Of kernfs: an inode's number is the cgroup's id.
    messages_->Put(SS_CGROUP, 0, about.st_ino, path.empty() ? "/" : path);
    if (depth >= kMaxDepth) return;
    DIR* const entries = fdopendir(fcntl(folder, F_DUPFD_CLOEXEC, 0));
    while (const dirent* entry = entries ? readdir(entries) : nullptr) {
      const std::string name = entry->d_name;
      if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
      const UniqueFd below(
          openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      if (below.valid()) Tell(below.get(), path + "/" + name, depth + 1);
    }
    if (entries) closedir(entries);
  }

 private:
  Messages* messages_;
  size_t nr_told_ = 0;
};

void TellCgroups(Messages* messages) {
  Mount mount = FindMount();
  // In a namespace of its own a process sees what is above it as "/..": nobody can tell its path.
  if (mount.point.empty() || mount.root.starts_with("/..")) return;
  if (mount.root == "/") mount.root.clear();
  const UniqueFd folder(open(mount.point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) CgroupWalk(messages).Tell(folder.get(), mount.root, 0);
}

// Empty: it is gone, or a kernel thread.
std::string ReadExecutable(int32_t tgid) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::array<char, PATH_MAX> path;
  const ssize_t size = readlink(fmt::format("/proc/{}/exe", tgid).c_str(), path.data(), path.size());
  std::string_view text(path.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  if (text.ends_with(kDeleted)) text.remove_suffix(kDeleted.size());
  return std::string(text);
}

}  // namespace

void ExistingTexts::Tell(const MessagesFn& sink) {
  Messages messages(sink);
  TellCgroups(&messages);
  const uint64_t begun_ns = MonotonicNs();
  const bool is_again = std::exchange(has_told_, true);
  for (const int32_t tgid : ListProcesses()) {
    if (is_again && MonotonicNs() - begun_ns > kBudgetNs) return;
    const std::string executable = ReadExecutable(tgid);
    if (executable.empty()) continue;
    messages.Put(SS_EXEC, tgid, 0, executable);
    if (has_arguments_)
      messages.Put(SS_ARGUMENTS, tgid, 0,
                   ReadProcMemory(fmt::format("/proc/{}/cmdline", tgid), SS_TEXT_LEN));
  }
}

}  // namespace slotscope
