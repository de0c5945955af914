// SPDX-License-Identifier: MIT
// The socket of a service manager that a test is: $NOTIFY_SOCKET.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {

class NotifyListener {
 public:
  NotifyListener() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  int fd() const { return fd_.get(); }
  // A datagram that has come; empty: there is none.
  std::string TakeOne() const {
    char text[256];
    const ssize_t size = recv(fd_.get(), text, sizeof(text), MSG_DONTWAIT);
    return {text, static_cast<size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  const TempFolder folder_;
  const std::string path_ = folder_.At("notify");
  const UniqueFd fd_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

}  // namespace slotscope
