// SPDX-License-Identifier: MIT
// The heartbeat of whoever acts on what the CUDA probes see: a BPF map under a name, into which it
// writes the time (see SS_CUDA_WATCHDOG_STALE_NS). Here it is named, and the time without it is counted.
#pragma once

#include <cstdint>
#include <string>

#include "base/news.h"
#include "base/status.h"

namespace slotscope {

// Where those who beat look for it.
inline constexpr const char* kWatchdogPath = "/sys/fs/bpf/ingero_watchdog";

class Watchdog {
 public:
  Watchdog() = default;
  Watchdog(const Watchdog&) = delete;
  ~Watchdog() { Unpin(); }

  // Gives the map its name, for root only. What a killed recorder left there is replaced; anything else
  // is not (Exit::kOutput). `map_fd` is borrowed.
  Status Pin(int map_fd, const std::string& path, News* news);
  void Unpin();

  // Every few milliseconds, by one thread. Boot time.
  void Poll(uint64_t boot_ns);
  // So far; the same thread.
  uint64_t bypassed_ns() const { return bypassed_ns_; }

 private:
  int map_fd_ = -1;
  std::string path_;  // empty: not pinned
  News* news_ = nullptr;
  uint64_t polled_ns_ = 0;
  uint64_t bypassed_ns_ = 0;
  uint64_t bypassed_before_ns_ = 0;  // this time
  bool is_bypassed_ = false;
};

}  // namespace slotscope
