// SPDX-License-Identifier: MIT
#include "ring/perf_ring.h"

#include <bpf/libbpf.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>

#include <algorithm>
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
constexpr size_t kRecordAlign = 8;
constexpr size_t kMaxRecordBytes = UINT16_MAX;  // perf_event_header.size is 16 bits wide

// perf_buffer__new_raw() wants callbacks for perf_buffer__poll() and _consume(), which we do not use.
bpf_perf_event_ret NeverCalled(void*, int, perf_event_header*) { return LIBBPF_PERF_EVENT_ERROR; }

void CopyOut(const std::byte* ring, uint64_t ring_size, uint64_t from, std::span<std::byte> to) {
  uint64_t offset = from & (ring_size - 1);
  size_t until_wrap = std::min<size_t>(to.size(), ring_size - offset);
  std::memcpy(to.data(), ring + offset, until_wrap);
  if (until_wrap < to.size()) std::memcpy(to.data() + until_wrap, ring, to.size() - until_wrap);
}

// How many bytes from `tail` on are whole records and fit into `room`.
uint64_t WholeRecords(const std::byte* ring, uint64_t ring_size, uint64_t head, uint64_t tail,
                      size_t room) {
  uint64_t at = tail;
  while (at < head) {
    perf_event_header header;  // records are 8-byte aligned: it does not wrap
    std::memcpy(&header, ring + (at & (ring_size - 1)), sizeof(header));
    if (header.size < sizeof(header) || header.size % kRecordAlign || at + header.size - tail > room)
      break;
    at += header.size;
  }
  return at - tail;
}

}  // namespace

void PerfRings::Deleter::operator()(perf_buffer* buffer) const { perf_buffer__free(buffer); }

PerfRings::PerfRings(int map_fd, size_t nr_cpus)
    : map_fd_(map_fd),
      pages_((nr_cpus > kLargeMachineCpus ? kRingBytesLargeMachine : kRingBytes) / kPageSize),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      buffers_(nr_cpus) {}

PerfRings::~PerfRings() = default;

Status PerfRings::Open(int cpu, int writer) {
  Close(cpu);
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_BPF_OUTPUT;
  attr.sample_type = PERF_SAMPLE_RAW;
  attr.sample_period = 1;
  attr.watermark = 1;
  attr.wakeup_watermark = static_cast<uint32_t>(pages_ * kPageSize / 4);
  int key = cpu;
  LIBBPF_OPTS(perf_buffer_raw_opts, opts, .cpu_cnt = 1, .cpus = &writer, .map_keys = &key);
  perf_buffer* buffer = perf_buffer__new_raw(map_fd_, pages_, &attr, NeverCalled, nullptr, &opts);
  if (!buffer)
    return {ExitOfErrno(errno), fmt::format("cannot open the perf buffer of CPU {} ({} KiB): {}", cpu,
                                            pages_ * kPageSize / 1024, ErrnoText(errno))};
  buffers_[static_cast<size_t>(cpu)].reset(buffer);
  epoll_event event = {.events = EPOLLIN, .data = {.fd = cpu}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, perf_buffer__epoll_fd(buffer), &event);
  return {};
}

void PerfRings::Close(int cpu) { buffers_[static_cast<size_t>(cpu)].reset(); }

Taken TakeRecords(const std::byte* ring, uint64_t size, uint64_t head, uint64_t* tail,
                  std::span<std::byte> to) {
  uint64_t available = head - *tail;
  uint64_t take = available;
  if (take > to.size()) {
    take = WholeRecords(ring, size, head, *tail, to.size());
    if (take == 0 && to.size() > kMaxRecordBytes) {
      // No record is that long: the ring is broken. What it holds is given up, and the merge sees why.
      CopyOut(ring, size, *tail, to.first(sizeof(perf_event_header)));
      *tail = head;
      return {sizeof(perf_event_header), false};
    }
  }
  CopyOut(ring, size, *tail, to.first(take));
  *tail += take;
  return {take, take < available};
}

Taken PerfRings::Take(int cpu, uint64_t* until, std::span<std::byte> to) {
  void* base;
  size_t size;
  if (perf_buffer__buffer(buffers_[static_cast<size_t>(cpu)].get(), 0, &base, &size)) return {};
  auto* page = static_cast<perf_event_mmap_page*>(base);
  const auto* ring = static_cast<const std::byte*>(base) + kPageSize;
  // Pairs with the kernel's barrier before it moves data_head: the records up to it are complete.
  if (*until == 0) *until = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = page->data_tail;  // written by us alone
  Taken taken = TakeRecords(ring, size, *until, &tail, to);
  // Pairs with the kernel's read of data_tail: what lies before it is ours no longer.
  __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
  return taken;
}

size_t PerfRings::ring_bytes() const { return pages_ * kPageSize; }

void PerfRings::Watch(int fd, Trigger trigger) {
  epoll_event event = {.events = EPOLLIN | (trigger == Trigger::kEdge ? EPOLLET : 0u),
                       .data = {.fd = -1}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void PerfRings::Wait(int timeout_ms) {
  epoll_event events[16];
  epoll_wait(epoll_.get(), events, 16, timeout_ms);
}

}  // namespace slotscope
