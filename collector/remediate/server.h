// SPDX-License-Identifier: MIT
// Serves lines to one consumer at a time on a Unix socket. Who sends a line never waits: they go through
// a queue with an end to a thread of the server's own, and what cannot be delivered is dropped and
// counted.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/news.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "remediate/socket_file.h"

namespace slotscope {

struct ServerStats {
  uint64_t nr_sent = 0;  // lines
  // Lines that were not, by reason.
  uint64_t nr_no_client = 0;
  uint64_t nr_write_error = 0;  // the consumer was too slow, or went away
  uint64_t nr_queue_full = 0;   // the oldest ones
  uint64_t nr_consumers = 0;    // that were let in
  uint64_t nr_replaced = 0;     // of these: by a newer one
  uint64_t nr_refused = 0;      // that were not
};

class RemediateServer {
 public:
  static constexpr int kWriteTimeoutMs = 50;  // of a line
  static constexpr size_t kMaxQueued = 8192;  // lines

  RemediateServer() = default;
  RemediateServer(const RemediateServer&) = delete;
  ~RemediateServer() { Stop(); }

  // See SocketFile::Listen(). Lets in root, this process's user and, if it is given, the group. *news,
  // which outlives the server, hears of consumers.
  Status Start(const std::string& path, std::optional<gid_t> group, News* news);
  // What is queued is still sent, as long as the consumer takes it at once.
  void Stop();
  // Any thread. `line` ends with a newline.
  void Send(std::string line);
  // Any thread. False: nobody listens, so a line need not be made; it is counted as one that nobody
  // heard.
  bool Wants();

  // Any thread.
  ServerStats stats() const;

 private:
  struct Counters {
    std::atomic<uint64_t> nr_sent{0}, nr_no_client{0}, nr_write_error{0}, nr_queue_full{0},
        nr_consumers{0}, nr_replaced{0}, nr_refused{0};
  };

  void Run();
  void Accept();
  bool IsAllowed(int fd, std::string* who) const;
  bool TakeLine(std::string* line);
  // False: it was not written.
  bool Write(const std::string& line);
  void CloseClient();
  void DropQueued(std::atomic<uint64_t>* counter);

  SocketFile socket_;
  std::optional<gid_t> group_;
  UniqueFd client_;  // the server's thread
  UniqueFd wake_;
  std::thread thread_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> has_client_{false};
  std::mutex queue_mutex_;
  std::deque<std::string> queue_;
  Counters counters_;
  News* news_ = nullptr;
};

}  // namespace slotscope
