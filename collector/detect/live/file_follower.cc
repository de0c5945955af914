// SPDX-License-Identifier: MIT
#include "detect/live/file_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace slotscope {
namespace {

constexpr size_t kBuffer = 64u << 10;
constexpr size_t kMaxPerPoll = 16u << 20;

}  // namespace

bool FileFollower::Open() {
  fd_.Reset(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  error_ = fd_.valid() || errno == ENOENT ? 0 : errno;
  struct stat info;
  if (!fd_.valid() || fstat(fd_.get(), &info)) return false;
  if (S_ISDIR(info.st_mode)) {
    error_ = EISDIR;
    fd_.Reset();
    return false;
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
  is_regular_ = S_ISREG(info.st_mode);
  offset_ = 0;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (is_regular_ && skip_to_last_ && size > skip_to_last_) {
    offset_ = size - skip_to_last_;
    lseek(fd_.get(), static_cast<off_t>(offset_), SEEK_SET);
    in_middle_ = true;
  }
  skip_to_last_ = 0;  // a file that comes later is new, all of it
  return true;
}

bool FileFollower::IsReplaced() const {
  struct stat info;
  if (stat(path_.c_str(), &info)) return false;
  if (info.st_dev == device_ && info.st_ino == inode_) return false;
  // Rotation makes an empty file, to which the writer of the old one comes only when it is told.
  return !S_ISREG(info.st_mode) || info.st_size > 0;
}

bool FileFollower::Poll(const std::function<void(std::string_view)>& on_bytes,
                        const std::function<void()>& on_begin) {
  if (!fd_.valid()) {
    if (!Open()) return false;
    on_begin();
  }
  buffer_.resize(kBuffer);
  size_t nr_read = 0;
  bool is_replaced = false;
  while (nr_read < kMaxPerPoll) {
    const ssize_t nr = read(fd_.get(), buffer_.data(), buffer_.size());
    if (nr > 0) {
      nr_read += static_cast<size_t>(nr);
      offset_ += static_cast<uint64_t>(nr);
      std::string_view bytes(buffer_.data(), static_cast<size_t>(nr));
      if (in_middle_) {
        bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);
        in_middle_ = bytes.empty();
      }
      on_bytes(bytes);
      continue;
    }
    if (nr < 0 && errno == EINTR) continue;
    if (nr < 0 && errno == EPIPE) {  // of /dev/kmsg: the next read goes on behind the gap
      nr_lost_++;
      continue;
    }
    if (nr < 0 && errno != EAGAIN) {
      error_ = errno;
      fd_.Reset();
      return false;
    }
    if (!is_regular_) return false;
    // All of it is read. A rotated file is read to its end before the next one: to where it ends once
    // its writer has begun that.
    struct stat info;
    if (fstat(fd_.get(), &info) == 0 && static_cast<uint64_t>(info.st_size) < offset_) {
      offset_ = 0;
      lseek(fd_.get(), 0, SEEK_SET);
      on_begin();
      continue;
    }
    if (!is_replaced) {
      is_replaced = IsReplaced();
      if (!is_replaced) return false;
      continue;
    }
    fd_.Reset();
    if (!Open()) return false;
    is_replaced = false;
    on_begin();
  }
  return true;
}

}  // namespace slotscope
