// SPDX-License-Identifier: MIT
// The per-CPU buffers behind the one perf event array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

struct perf_buffer;

namespace slotscope {

// What one look into a buffer brought.
struct Taken {
  size_t size = 0;    // bytes of whole perf records
  bool more = false;  // there was no room for the rest
};

// One libbpf perf_buffer per CPU, so that each can be opened anew after hotplug. Never one wake-up per
// event: the kernel wakes us when a buffer is a quarter full, else the caller drains by time. One
// thread.
class PerfRings {
 public:
  // `map_fd` is the BPF_MAP_TYPE_PERF_EVENT_ARRAY, not owned.
  PerfRings(int map_fd, size_t nr_cpus);
  ~PerfRings();
  PerfRings(const PerfRings&) = delete;
  PerfRings& operator=(const PerfRings&) = delete;

  int map_fd() const { return map_fd_; }
  // A new, empty buffer for `cpu` (which must be online), in place of an older one.
  Status Open(int cpu) { return Open(cpu, cpu); }
  // The same for a machine that is played on fewer CPUs than it has: `writer` writes what is of `cpu`.
  Status Open(int cpu, int writer);
  void Close(int cpu);
  bool is_open(int cpu) const { return buffers_[static_cast<size_t>(cpu)] != nullptr; }

  // Copies out the records that are there, as they are, and gives their room back to the kernel. *until
  // 0: up to the last one that is there now, and *until says which that is; else up to there. REQUIRES:
  // is_open(cpu).
  Taken Take(int cpu, uint64_t* until, std::span<std::byte> to);

  size_t ring_bytes() const;
  // Until a buffer is a quarter full, a watched descriptor has something, or `timeout_ms` passed.
  void Wait(int timeout_ms);
  // `fd` ends waits, too: as long as it can be read, or once each time that it can again.
  enum class Trigger { kLevel, kEdge };
  void Watch(int fd, Trigger trigger);

 private:
  struct Deleter {
    void operator()(perf_buffer* buffer) const;
  };
  int map_fd_;
  size_t pages_;
  UniqueFd epoll_;
  std::vector<std::unique_ptr<perf_buffer, Deleter>> buffers_;  // by CPU; null: not open
};

// The ring as the kernel maps it, apart from PerfRings so that it can be tested without a kernel: `size`
// bytes at `ring`, a power of two, filled from *tail to head (both count bytes and never wrap).
// Copies whole records to `to` and advances *tail past them.
Taken TakeRecords(const std::byte* ring, uint64_t size, uint64_t head, uint64_t* tail,
                  std::span<std::byte> to);

}  // namespace slotscope
