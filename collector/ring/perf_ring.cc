// SPDX-License-Identifier: MIT
#include "ring/perf_ring.h"

#include <bpf/libbpf.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "base/errno_text.h"

namespace slotscope {
namespace {

// Enough for 20 ms of 370k switches per second at 170 bytes a record; half on large machines, where
// the sum would be felt.
constexpr size_t kRingBytes = 2u << 20;
constexpr size_t kRingBytesLargeMachine = 1u << 20;
constexpr size_t kLargeMachineCpus = 16;
constexpr size_t kPageSize = 4096;

bpf_perf_event_ret OnRecord(void* ctx, int cpu, perf_event_header* header) {
  auto* visitor = static_cast<RingVisitor*>(ctx);
  const auto* bytes = reinterpret_cast<const std::byte*>(header);
  if (header->type == PERF_RECORD_SAMPLE) {
    // PERF_SAMPLE_RAW: u32 size, then the data, padded to 8 bytes behind.
    uint32_t size = 0;
    std::span<const std::byte> message;
    if (header->size >= sizeof(*header) + sizeof(size)) {
      std::memcpy(&size, bytes + sizeof(*header), sizeof(size));
      if (size <= header->size - sizeof(*header) - sizeof(size))
        message = {bytes + sizeof(*header) + sizeof(size), size};
    }
    visitor->OnMessage(cpu, message);
  } else if (header->type == PERF_RECORD_LOST && header->size >= sizeof(*header) + 16) {
    uint64_t nr_lost;  // after the u64 id: the number of records, not of bytes
    std::memcpy(&nr_lost, bytes + sizeof(*header) + 8, sizeof(nr_lost));
    visitor->OnLost(cpu, nr_lost);
  }
  return LIBBPF_PERF_EVENT_CONT;
}

// libbpf gets one context pointer per buffer, at creation; the visitor changes per drain.
bpf_perf_event_ret Forward(void* ctx, int cpu, perf_event_header* header) {
  return OnRecord(*static_cast<RingVisitor**>(ctx), cpu, header);
}

}  // namespace

void PerfRings::Deleter::operator()(perf_buffer* buffer) const { perf_buffer__free(buffer); }

PerfRings::PerfRings(int map_fd, size_t nr_cpus)
    : map_fd_(map_fd),
      pages_((nr_cpus > kLargeMachineCpus ? kRingBytesLargeMachine : kRingBytes) / kPageSize),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      buffers_(nr_cpus) {}

PerfRings::~PerfRings() = default;

Status PerfRings::Open(int cpu) {
  Close(cpu);
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_BPF_OUTPUT;
  attr.sample_type = PERF_SAMPLE_RAW;
  attr.sample_period = 1;
  attr.watermark = 1;
  attr.wakeup_watermark = static_cast<uint32_t>(pages_ * kPageSize / 2);
  int key = cpu;
  LIBBPF_OPTS(perf_buffer_raw_opts, opts, .cpu_cnt = 1, .cpus = &cpu, .map_keys = &key);
  perf_buffer* buffer = perf_buffer__new_raw(map_fd_, pages_, &attr, Forward, &visitor_, &opts);
  if (!buffer)
    return {errno == EPERM || errno == EACCES ? Exit::kPrivilege : Exit::kKernel,
            fmt::format("cannot open the perf buffer of CPU {} ({} KiB): {}", cpu,
                        pages_ * kPageSize / 1024, ErrnoText(errno))};
  buffers_[static_cast<size_t>(cpu)].reset(buffer);
  epoll_event event = {.events = EPOLLIN, .data = {.fd = cpu}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, perf_buffer__epoll_fd(buffer), &event);
  return {};
}

void PerfRings::Close(int cpu) { buffers_[static_cast<size_t>(cpu)].reset(); }

bool PerfRings::Drain(int cpu, RingVisitor* visitor) {
  perf_buffer* buffer = buffers_[static_cast<size_t>(cpu)].get();
  if (!buffer) return false;
  visitor_ = visitor;
  int err = perf_buffer__consume_buffer(buffer, 0);
  visitor_ = nullptr;
  return err == 0;
}

void PerfRings::Wait(int timeout_ms) {
  epoll_event events[16];
  epoll_wait(epoll_.get(), events, 16, timeout_ms);
}

}  // namespace slotscope
