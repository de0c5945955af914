// SPDX-License-Identifier: MIT
#include "base/service_manager.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace slotscope {
namespace {

std::string TakeVariable(const char* name) {
  const char* value = getenv(name);
  std::string text = value ? value : "";
  unsetenv(name);
  return text;
}

}  // namespace

void ServiceManager::Open() {
  const std::string path = TakeVariable("NOTIFY_SOCKET");
  const std::string period = TakeVariable("WATCHDOG_USEC");
  TakeVariable("WATCHDOG_PID");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() < 2 || (path[0] != '/' && path[0] != '@') || path.size() >= sizeof(address.sun_path))
    return;
  memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // one without a file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size)) return;
  socket_ = std::move(fd);
  period_ns_ = strtoull(period.c_str(), nullptr, 10) * 1000 / 2;
}

void ServiceManager::Tell(std::string_view text) const {
  if (socket_.valid()) (void)send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

void ServiceManager::Status(std::string_view text) const { Tell(fmt::format("STATUS={}", text)); }

void ServiceManager::Poll(uint64_t now_ns, uint64_t progress) {
  if (period_ns_ == 0 || progress == progress_ || now_ns - told_ns_ < period_ns_) return;
  told_ns_ = now_ns;
  progress_ = progress;
  Tell("WATCHDOG=1");
}

}  // namespace slotscope
