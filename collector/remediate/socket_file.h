// SPDX-License-Identifier: MIT
// A Unix socket that appears under its name when somebody can connect to it, and takes nothing that is
// not ours away for that.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

class SocketFile {
 public:
  SocketFile() = default;
  SocketFile(const SocketFile&) = delete;
  ~SocketFile() { Close(); }

  // Mode 0700, or 0770 for a group. Made under a temporary name and renamed: no link is followed, and
  // what is there is replaced only if it is a socket of this user's to which nobody listens any more
  // (Exit::kBusy if somebody does, Exit::kOutput for everything else).
  Status Listen(const std::string& path, std::optional<gid_t> group);
  // Removes it, if it is still there.
  void Close();

  int fd() const { return fd_.get(); }

 private:
  std::string path_;
  UniqueFd fd_;
  dev_t dev_ = 0;
  ino_t inode_ = 0;
};

}  // namespace slotscope
