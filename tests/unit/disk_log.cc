// SPDX-License-Identifier: MIT
#include "tests/unit/disk_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "recording/manifest.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;
using What = DiskLog::Entry::What;

std::atomic<bool> logs{false};  // else nothing is done here
std::mutex mutex;               // the next two
std::string below;
std::vector<DiskLog::Entry> entries;

std::string PathOf(int fd) {
  std::error_code error;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
}

// As it is without links: recorders hold their folder by /proc/self/fd.
std::string PathOf(const char* path) {
  const fs::path named(path);
  std::error_code error;
  return fs::canonical(named.parent_path(), error) / named.filename();
}

void Add(What what, const std::string& path, const std::string& to = {}) {
  const std::lock_guard lock(mutex);
  if (path.starts_with(below)) entries.push_back({what, path, to});
}

}  // namespace

DiskLog::DiskLog(std::string folder) {
  const std::lock_guard lock(mutex);
  below = fs::canonical(folder);
  entries.clear();
  logs = true;
}

DiskLog::~DiskLog() { logs = false; }

std::vector<DiskLog::Entry> DiskLog::Take() {
  const std::lock_guard lock(mutex);
  return std::exchange(entries, {});
}

std::string FindUnsafe(const std::vector<DiskLog::Entry>& log) {
  std::set<std::string> dirty, renamed;
  for (const auto& entry : log) {
    const std::string name = fs::path(entry.path).filename();
    switch (entry.what) {
      case What::kWrite:
        if (name == kManifestName && !renamed.empty())
          return *renamed.begin() + " is not in its folder when the manifest is written";
        if (!dirty.insert(entry.path).second && name == kManifestName)
          return "a line of " + entry.path + " is not on the disk when the next one is written";
        break;
      case What::kSync:
        dirty.erase(entry.path);
        std::erase_if(renamed,
                      [&](const auto& path) { return fs::path(path).parent_path() == entry.path; });
        break;
      case What::kRename:
        if (dirty.contains(entry.path)) return entry.path + " is renamed before it is on the disk";
        if (fs::path(entry.to).filename() == kManifestName && !renamed.empty())
          return *renamed.begin() + " is not in its folder when the manifest comes there";
        renamed.insert(entry.to);
    }
  }
  if (!renamed.empty()) return *renamed.begin() + " is not in its folder at the end";
  for (const std::string& path : dirty)
    if (!path.ends_with(".part")) return path + " is not on the disk at the end";
  return {};
}

}  // namespace slotscope

// In front of the C library's own.
extern "C" {
ssize_t write(int fd, const void* bytes, size_t size) {
  const ssize_t result = syscall(SYS_write, fd, bytes, size);
  const int error = errno;
  if (slotscope::logs) slotscope::Add(slotscope::What::kWrite, slotscope::PathOf(fd));
  errno = error;
  return result;
}

int ftruncate(int fd, off_t size) noexcept {
  const auto result = static_cast<int>(syscall(SYS_ftruncate, fd, size));
  const int error = errno;
  if (slotscope::logs) slotscope::Add(slotscope::What::kWrite, slotscope::PathOf(fd));
  errno = error;
  return result;
}

int fsync(int fd) {
  const auto result = static_cast<int>(syscall(SYS_fsync, fd));
  const int error = errno;
  if (slotscope::logs && result == 0) slotscope::Add(slotscope::What::kSync, slotscope::PathOf(fd));
  errno = error;
  return result;
}

int rename(const char* from, const char* to) noexcept {
  const auto result = static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  const int error = errno;
  if (slotscope::logs && result == 0)
    slotscope::Add(slotscope::What::kRename, slotscope::PathOf(from), slotscope::PathOf(to));
  errno = error;
  return result;
}
}
