// SPDX-License-Identifier: MIT
// Something that is written once and read elsewhere at the same time, such as a pipe.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_text.h"
#include "base/out_file.h"
#include "base/unique_fd.h"

namespace slotscope {

class StreamFile final : public OutFile {
 public:
  // The process's standard output is this file's from here on; what else is written there goes to
  // standard error.
  Status TakeStdout() {
    fd_.Reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!fd_.valid() || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
      return {Exit::kOutput, fmt::format("there is no standard output: {}", ErrnoText(errno))};
    return {};
  }

  using OutFile::Write;
  // Waits for who reads.
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
    for (std::span<const std::byte> piece : pieces) {
      while (!piece.empty()) {
        const ssize_t written = write(fd_.get(), piece.data(), piece.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno == EAGAIN) {
          pollfd writable = {fd_.get(), POLLOUT, 0};
          poll(&writable, 1, -1);
          continue;
        }
        if (written < 0)
          return {Exit::kOutput,
                  errno == EPIPE ? "who read the stream of rows has gone"
                                 : fmt::format("cannot write the stream of rows: {}", ErrnoText(errno))};
        size_ += static_cast<uint64_t>(written);
        piece = piece.subspan(static_cast<size_t>(written));
      }
    }
    return {};
  }
  uint64_t size() const override { return size_; }

 private:
  UniqueFd fd_;
  uint64_t size_ = 0;
};

}  // namespace slotscope
