// SPDX-License-Identifier: MIT
#include "base/part_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/errno_text.h"
#include "base/held_path.h"

namespace slotscope {
namespace {

constexpr int kMaxLeftovers = 1000;

Status Busy(const std::string& path) {
  return {Exit::kBusy,
          fmt::format("another recording is writing {}: wait for it, or choose another --output",
                      ShownPath(path))};
}

}  // namespace

PartFile::~PartFile() {
  if (!committed_ && size_ == 0) Discard();
}

// REQUIRES: part_path_ exists.
Status PartFile::MoveLeftover() {
  UniqueFd old(open(part_path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (!old.valid() || fstat(old.get(), &info) || !S_ISREG(info.st_mode))
    return {Exit::kOutput,
            fmt::format("{} is in the way and is no plain file: remove it, or choose another --output",
                        ShownPath(part_path_))};
  if (flock(old.get(), LOCK_EX | LOCK_NB)) return Busy(part_path_);
  for (int i = 1; i <= kMaxLeftovers; i++) {
    std::string moved = fmt::format("{}.{}", part_path_, i);
    if (renameat2(AT_FDCWD, part_path_.c_str(), AT_FDCWD, moved.c_str(), RENAME_NOREPLACE) == 0) {
      leftover_path_ = moved;
      return {};
    }
    if (errno != EEXIST) break;
  }
  return {Exit::kOutput,
          fmt::format("{} is left from a recording that was killed and cannot be moved away: {}",
                      ShownPath(part_path_), ErrnoText(errno))};
}

Status PartFile::Open(const std::string& path) {
  path_ = path;
  part_path_ = path + ".part";
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return {Exit::kOutput,
            fmt::format("{} exists and is no plain file: choose another --output", ShownPath(path))};
  for (int attempt = 0; attempt < 2; attempt++) {
    fd_.Reset(open(part_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
    if (fd_.valid()) {
      // Between the two calls another recorder may have taken it for a leftover and moved it.
      struct stat at_path;
      if (flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 && fstat(fd_.get(), &info) == 0 &&
          lstat(part_path_.c_str(), &at_path) == 0 && info.st_ino == at_path.st_ino)
        return {};
      return Busy(part_path_);
    }
    if (errno != EEXIST) break;
    if (Status status = MoveLeftover(); !status.ok()) return status;
  }
  const int error = errno;
  return {Exit::kOutput, CannotCreateText(ShownPath(part_path_), error), error};
}

Status PartFile::Write(std::initializer_list<std::span<const std::byte>> pieces) {
  if (!error_.ok()) return error_;
  const uint64_t begin = size_;
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      ssize_t written = write(fd_.get(), piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        int err = errno;
        torn_ = ftruncate(fd_.get(), static_cast<off_t>(begin)) != 0 ||
                lseek(fd_.get(), static_cast<off_t>(begin), SEEK_SET) < 0;
        if (!torn_) size_ = begin;  // no half row
        error_ = {Exit::kOutput,
                  fmt::format("cannot write {}: {}{}", ShownPath(part_path_), ErrnoText(err),
                              size_ > 0 ? "; what was written before is kept there" : ""),
                  err};
        return error_;
      }
      size_ += static_cast<uint64_t>(written);
      piece = piece.subspan(static_cast<size_t>(written));
    }
  }
  return {};
}

bool PartFile::ForgetError() {
  if (torn_) return false;
  error_ = {};
  return true;
}

Status PartFile::Commit(Sync sync) {
  if (!error_.ok()) return error_;
  if (sync == Sync::kSafe && fsync(fd_.get()))
    return {Exit::kOutput,
            fmt::format("cannot write {} to the disk: {}", ShownPath(part_path_), ErrnoText(errno))};
  if (rename(part_path_.c_str(), path_.c_str()))
    return {Exit::kOutput, fmt::format("cannot rename {} to {}: {}", ShownPath(part_path_),
                                       ShownPath(path_), ErrnoText(errno))};
  committed_ = true;
  fd_.Reset();
  return {};
}

void PartFile::Discard() {
  if (!fd_.valid()) return;
  unlink(part_path_.c_str());
  fd_.Reset();
}

}  // namespace slotscope
