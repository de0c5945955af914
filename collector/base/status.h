// SPDX-License-Identifier: MIT
// Status: the outcome of anything that touches the world. A message says what, where and what to do.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

namespace slotscope {

// Exit codes of the program. Part of its interface: see doc/recordings.md.
enum class Exit : int {
  kOk = 0,
  kUsage = 2,
  kPrivilege = 3,
  kKernel = 4,  // the kernel lacks something
  kModule = 5,  // absent, or another ABI
  kOutput = 6,
  kBusy = 7,
  kIdentity = 8,  // the accounting identity is broken: a bug of ours
  kBadInput = 9,
  kDataLost = 10,   // only with --strict
  kTooCostly = 11,  // --max-overhead N,stop
  kTryAgain = 12,   // the machine was short of something, or was paused
  kCommandFailed = 125,
  kCommandNotExecutable = 126,
  kCommandNotFound = 127,
};

// Of a call that the kernel has refused: for lack of rights, of memory or files, or of what was asked
// for. `error`: errno, or libbpf's negative codes.
constexpr Exit ExitOfErrno(int error) {
  switch (error < 0 ? -error : error) {
    case EPERM:
    case EACCES:
      return Exit::kPrivilege;
    case ENOMEM:
    case ENFILE:
    case EMFILE:
    case EAGAIN:
    case EINTR:
      return Exit::kTryAgain;
    default:
      return Exit::kKernel;
  }
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  // `error`: the errno that it is due to, for whoever can do something about some.
  Status(Exit code, std::string message, int error = 0)
      : code_(code), error_(error), message_(std::move(message)) {}

  bool ok() const { return code_ == Exit::kOk; }
  // The disk is full, or somebody's share of it.
  bool lacks_room() const { return error_ == ENOSPC || error_ == EDQUOT; }
  // What is there is none of ours, or is not any more.
  bool is_damaged() const { return error_ == EBADMSG; }
  Exit code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Exit code_ = Exit::kOk;
  int error_ = 0;
  std::string message_;
};

}  // namespace slotscope
