// SPDX-License-Identifier: MIT
// An eventfd, to wake a thread that polls.
#pragma once

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "base/errno_text.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

inline Status OpenEventFd(UniqueFd* fd) {
  fd->Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (fd->valid()) return {};
  return {Exit::kKernel, fmt::format("cannot make an eventfd: {}", ErrnoText(errno))};
}

}  // namespace slotscope
