// SPDX-License-Identifier: MIT
#include "cuda/map_events.h"

#include <fmt/core.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errno_text.h"

namespace slotscope {
namespace {

constexpr uint64_t kHotplugPeriodNs = 1'000'000'000;
constexpr size_t kPageSize = 4096;
constexpr size_t kRingBytes = 128u << 10;  // a thousand records
constexpr size_t kMapBytes = kPageSize + kRingBytes;

struct Mmap2 {  // the fixed part of PERF_RECORD_MMAP2
  perf_event_header header;
  uint32_t pid, tid;
  uint64_t address, length, offset;
  uint32_t major, minor;
  uint64_t inode, generation;
  uint32_t prot, flags;
};

}  // namespace

bool ParseMapped(std::span<const std::byte> record, int32_t* tgid, std::string_view* path) {
  Mmap2 fixed;
  if (record.size() <= sizeof(fixed)) return false;
  std::memcpy(&fixed, record.data(), sizeof(fixed));
  if (fixed.header.type != PERF_RECORD_MMAP2 || fixed.pid == 0 || fixed.pid > INT32_MAX) return false;
  const auto* text = reinterpret_cast<const char*>(record.data()) + sizeof(fixed);
  *tgid = static_cast<int32_t>(fixed.pid);
  *path = {text, strnlen(text, record.size() - sizeof(fixed))};
  return true;
}

MapEvents::~MapEvents() {
  for (Ring& ring : rings_) munmap(ring.memory, kMapBytes);
}

Status MapEvents::OpenCpu(int cpu) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.mmap = 1;
  attr.mmap2 = 1;
  attr.watermark = 1;
  attr.wakeup_watermark = 1;
  UniqueFd fd(static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
  void* memory = MAP_FAILED;
  if (fd.valid()) memory = mmap(nullptr, kMapBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED)
    return {Exit::kKernel, fmt::format("cannot watch what CPU {} maps: {}", cpu, ErrnoText(errno))};
  rings_.push_back({cpu, std::move(fd), memory});
  return {};
}

Status MapEvents::Open() {
  Status status = {Exit::kKernel, "cannot read the list of online CPUs"};
  cpus_ = ReadCpuList("online");
  for (int cpu : cpus_)
    if (IsCpuOnline(cpu)) status = OpenCpu(cpu);
  return rings_.empty() ? status : Status();
}

// True if the CPUs are those that they were.
bool MapEvents::FollowHotplug() {
  const uint64_t now_ns = MonotonicNs();
  if (now_ns < next_hotplug_ns_) return true;
  next_hotplug_ns_ = now_ns + kHotplugPeriodNs;
  std::vector<int> online = ReadCpuList("online");
  if (online.empty() || online == cpus_) return true;
  cpus_ = std::move(online);
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    const bool stays = std::find(cpus_.begin(), cpus_.end(), ring->cpu) != cpus_.end();
    if (!stays) munmap(ring->memory, kMapBytes);
    ring = stays ? std::next(ring) : rings_.erase(ring);
  }
  for (int cpu : cpus_) {
    const bool open =
        std::any_of(rings_.begin(), rings_.end(), [&](const Ring& ring) { return ring.cpu == cpu; });
    if (!open && IsCpuOnline(cpu)) (void)OpenCpu(cpu);  // what it maps is then not seen as it happens
  }
  return false;
}

void MapEvents::Wait(int stop_fd, int timeout_ms) const {
  std::vector<pollfd> fds = {{stop_fd, POLLIN, 0}};
  for (const Ring& ring : rings_) fds.push_back({ring.fd.get(), POLLIN, 0});
  poll(fds.data(), fds.size(), timeout_ms);
}

bool MapEvents::Take(const OnMapped& on_mapped) {
  bool complete = true;
  for (Ring& ring : rings_) {
    auto* const page = static_cast<perf_event_mmap_page*>(ring.memory);
    const auto* const data = static_cast<const std::byte*>(ring.memory) + kPageSize;
    const uint64_t head = std::atomic_ref(page->data_head).load(std::memory_order_acquire);
    uint64_t tail = page->data_tail;
    while (tail < head) {
      perf_event_header header;  // 8-byte aligned: it does not wrap
      std::memcpy(&header, data + tail % kRingBytes, sizeof(header));
      if (header.size < sizeof(header) || tail + header.size > head) {
        complete = false;
        tail = head;
        break;
      }
      record_.resize(header.size);
      const size_t until_wrap = std::min<size_t>(header.size, kRingBytes - tail % kRingBytes);
      std::memcpy(record_.data(), data + tail % kRingBytes, until_wrap);
      std::memcpy(record_.data() + until_wrap, data, header.size - until_wrap);
      int32_t tgid;
      std::string_view path;
      complete &= header.type != PERF_RECORD_LOST;
      if (ParseMapped(record_, &tgid, &path)) on_mapped(tgid, path);
      tail += header.size;
    }
    std::atomic_ref(page->data_tail).store(tail, std::memory_order_release);
  }
  return FollowHotplug() && complete;
}

}  // namespace slotscope
