// SPDX-License-Identifier: MIT
// Who maps which file to execute from it, as it happens: PERF_RECORD_MMAP2 of all CPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

class MapEvents {
 public:
  // Gets the process and the name of the file, as the kernel knows it.
  using OnMapped = std::function<void(int32_t tgid, std::string_view path)>;

  MapEvents() = default;
  MapEvents(MapEvents&&) = default;
  ~MapEvents();

  // On the CPUs that are online. Fails if there is none on which it can.
  Status Open();
  // Until something has come, `stop_fd` can be read, or `timeout_ms` passed.
  void Wait(int stop_fd, int timeout_ms) const;
  // What has come since the last call. False: some was lost, or came on CPUs that came online later: all
  // processes have to be looked at.
  bool Take(const OnMapped& on_mapped);

 private:
  struct Ring {
    int cpu;
    UniqueFd fd;
    void* memory;
  };

  Status OpenCpu(int cpu);
  bool FollowHotplug();

  std::vector<int> cpus_;
  uint64_t next_hotplug_ns_ = 0;
  std::vector<Ring> rings_;
  std::vector<std::byte> record_;
};

// One PERF_RECORD_MMAP2, its header included; false if it is not one, or not well-formed.
bool ParseMapped(std::span<const std::byte> record, int32_t* tgid, std::string_view* path);

}  // namespace slotscope
