// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace slotscope {

// Reads what is added to a file: also to one that is not there yet, that is rotated away, or truncated;
// and to /dev/kmsg. Never waits.
class FileFollower {
 public:
  // `skip_to_last`: of what is there at the first look only so many bytes are read; 0: all of it.
  FileFollower(std::string path, uint64_t skip_to_last)
      : path_(std::move(path)), skip_to_last_(skip_to_last) {}

  // What is new. `on_begin` is called before the first bytes of another file, or of the same one from
  // its beginning. Reads so much at most that others get their turn; true: there may be more.
  bool Poll(const std::function<void(std::string_view)>& on_bytes,
            const std::function<void()>& on_begin);

  // Records that the kernel overwrote before they were read.
  uint64_t nr_lost() const { return nr_lost_; }
  // Why it cannot be read; 0: it can, or it is not there yet.
  int error() const { return error_; }
  const std::string& path() const { return path_; }

 private:
  bool Open();
  // Whether the name means another file now, which is written to.
  bool IsReplaced() const;

  std::string path_;
  uint64_t skip_to_last_;
  UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool is_regular_ = false;
  uint64_t offset_ = 0;
  bool in_middle_ = false;  // of a line that is not read from its beginning
  uint64_t nr_lost_ = 0;
  int error_ = 0;
  std::vector<char> buffer_;
};

}  // namespace slotscope
