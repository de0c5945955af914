// SPDX-License-Identifier: MIT
// Something that listens where a Prometheus should.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace slotscope {

// Answers every connection with the same bytes, after as long as it likes.
class FakePrometheus {
 public:
  enum class Then { kClose, kSayNothingMore };

  // On a port of 127.0.0.1; 0: on any.
  FakePrometheus(std::string answer, Then then, uint16_t port = 0)
      : answer_(std::move(answer)), then_(then) {
    fd_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 16), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~FakePrometheus() {
    stop_ = true;
    thread_.join();
  }

  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void Run() {
    std::vector<UniqueFd> silent;
    while (!stop_) {
      pollfd poll_fd = {fd_.get(), POLLIN, 0};
      if (poll(&poll_fd, 1, 10) != 1) continue;
      UniqueFd client(accept(fd_.get(), nullptr, nullptr));
      const timeval timeout = {5, 0};
      setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
      std::string request;
      char chunk[4096];
      while (request.find("\r\n\r\n") == request.npos) {
        const ssize_t got = recv(client.get(), chunk, sizeof(chunk), 0);
        if (got <= 0) break;
        request.append(chunk, static_cast<size_t>(got));
      }
      {
        std::lock_guard lock(mutex_);
        asked_ = request;
      }
      for (size_t at = 0; at < answer_.size();) {
        const ssize_t sent = send(client.get(), answer_.data() + at, answer_.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += static_cast<size_t>(sent);
      }
      if (then_ == Then::kSayNothingMore) silent.push_back(std::move(client));
    }
  }

  std::string answer_;
  Then then_;
  UniqueFd fd_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string asked_;
  std::thread thread_;
};

// A port that is free just now, and that the kernel gives to nobody who does not ask for it.
inline uint16_t FreePort() {
  for (uint16_t port = 15'000; port < 32'000; port++) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return port;
  }
  return 0;
}

}  // namespace slotscope
