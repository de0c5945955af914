// SPDX-License-Identifier: MIT
// The per-CPU buffers behind the one perf event array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

struct perf_buffer;

namespace slotscope {

// Receives what one drain finds in one CPU's buffer.
struct RingVisitor {
  virtual ~RingVisitor() = default;
  virtual void OnMessage(int cpu, std::span<const std::byte> bytes) = 0;
  virtual void OnLost(int cpu, uint64_t nr_records) = 0;
};

// One libbpf perf_buffer per CPU, so that each can be opened anew after hotplug. Never one wake-up per
// event: the kernel wakes us when a buffer is half full, else the caller drains by time. One thread.
class PerfRings {
 public:
  // `map_fd` is the BPF_MAP_TYPE_PERF_EVENT_ARRAY, not owned.
  PerfRings(int map_fd, size_t nr_cpus);
  ~PerfRings();
  PerfRings(const PerfRings&) = delete;
  PerfRings& operator=(const PerfRings&) = delete;

  int map_fd() const { return map_fd_; }
  // A new, empty buffer for `cpu` (which must be online), in place of an older one.
  Status Open(int cpu);
  void Close(int cpu);
  bool is_open(int cpu) const { return buffers_[static_cast<size_t>(cpu)] != nullptr; }

  // Hands out everything that was in the buffer when the call began. False: the ring is not readable.
  bool Drain(int cpu, RingVisitor* visitor);

  // Until a buffer is half full or `timeout_ms` passed.
  void Wait(int timeout_ms);

 private:
  struct Deleter {
    void operator()(perf_buffer* buffer) const;
  };
  int map_fd_;
  size_t pages_;
  UniqueFd epoll_;
  std::vector<std::unique_ptr<perf_buffer, Deleter>> buffers_;  // by CPU; null: not open
  RingVisitor* visitor_ = nullptr;                              // during Drain()
};

}  // namespace slotscope
