// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace slotscope {

// The page of metrics; "": nobody listens.
inline std::string GetMetrics(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address))) return "";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), 0) != static_cast<ssize_t>(request.size()))
    return "";
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = recv(fd.get(), chunk, sizeof(chunk), 0)) > 0;)
    text.append(chunk, static_cast<size_t>(got));
  return text;
}

}  // namespace slotscope
