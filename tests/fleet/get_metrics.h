// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace slotscope {

// Of 127.0.0.1; not valid if nobody listens.
inline UniqueFd ConnectTo(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval timeout = {30, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address))) fd.Reset();
  return fd;
}

// The page of metrics; "": nobody listens, or nobody answers.
inline std::string GetMetrics(uint16_t port) {
  const UniqueFd fd = ConnectTo(port);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (!fd.valid() || send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
                         static_cast<ssize_t>(request.size()))
    return "";
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = recv(fd.get(), chunk, sizeof(chunk), 0)) > 0;)
    text.append(chunk, static_cast<size_t>(got));
  return text;
}

}  // namespace slotscope
