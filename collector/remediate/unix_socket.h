// SPDX-License-Identifier: MIT
// What both ends of a Unix socket need.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>

namespace slotscope {

// REQUIRES: path.size() < sizeof(sockaddr_un::sun_path).
inline sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Who is at the other end, as of when it connected or listened; nothing, with errno, if it cannot be
// told.
inline std::optional<ucred> PeerOf(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return peer;
}

inline bool IsRootOrSelf(const ucred& peer) { return peer.uid == 0 || peer.uid == geteuid(); }

}  // namespace slotscope
