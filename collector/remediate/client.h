// SPDX-License-Identifier: MIT
// Consumes the remediation protocol of another producer, and hands what it says to the reader.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/news.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "remediate/parser.h"
#include "ring/item_queue.h"

namespace slotscope {

class RemediateClient {
 public:
  static constexpr int kReconnectMs = 1000;
  // Who says more than that is read no faster: its socket fills, and it is its to drop.
  static constexpr uint64_t kMaxLinesPerMs = 100;

  RemediateClient() = default;
  RemediateClient(const RemediateClient&) = delete;
  ~RemediateClient() { Stop(); }

  // Connects, and again whenever the connection ends. *items and *news outlive the client.
  Status Start(const std::string& path, ItemQueue* items, News* news);
  void Stop();

 private:
  void Run();
  UniqueFd Connect();
  // Until the connection ends.
  void Consume(int fd);
  void OnLine(std::string_view line, const ClockPair& now);
  void PutCounts();
  // False: it is to stop.
  bool Sleep(int ms) const;

  std::string path_;
  ItemQueue* items_ = nullptr;
  News* news_ = nullptr;
  UniqueFd wake_;
  std::thread thread_;
  std::atomic<bool> stop_requested_{false};
  LineCutter cutter_;
  RemoteCounts counts_, put_counts_;
  uint64_t put_ns_ = 0;
  uint64_t latest_ns_ = 0;  // of the messages of this connection: time does not go back
};

}  // namespace slotscope
