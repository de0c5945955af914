// SPDX-License-Identifier: MIT
#include "gpu/stream.h"

#include <algorithm>
#include <cstddef>

namespace slotscope {

bool GpuStream::Launch(uint64_t start_ns, uint64_t threads, KernelSpan* span) {
  auto later = [](uint64_t ns, const Pending& pending) { return ns < pending.start_ns; };
  pending_.insert(std::upper_bound(pending_.begin(), pending_.end(), start_ns, later),
                  {start_ns, threads});
  Touch(start_ns);
  if (pending_.size() < kMaxPendingLaunches) return false;
  is_forced_ = true;
  forced_ns_ = pending_.back().start_ns;
  Close(pending_.size(), forced_ns_ + 1, span);
  span->end = KernelsEnd::kForced;
  return true;
}

bool GpuStream::Cut(uint64_t at_ns, KernelSpan* span) {
  if (pending_.empty()) return false;
  is_forced_ = true;
  forced_ns_ = std::max(at_ns, pending_.back().start_ns);
  Close(pending_.size(), at_ns, span);
  span->end = KernelsEnd::kUnknown;
  return true;
}

bool GpuStream::Wait(uint64_t from_ns, uint64_t end_ns, KernelSpan* span) {
  Touch(end_ns);
  if (is_forced_ && forced_ns_ < from_ns) is_forced_ = false;
  auto later = [](uint64_t ns, const Pending& pending) { return ns <= pending.start_ns; };
  auto first_left = std::upper_bound(pending_.begin(), pending_.end(), from_ns, later);
  return Close(static_cast<size_t>(first_left - pending_.begin()), end_ns, span);
}

bool GpuStream::Close(size_t nr, uint64_t end_ns, KernelSpan* span) {
  if (nr == 0) return false;
  uint64_t nr_kernels = 0;
  unsigned __int128 threads = 0;
  for (size_t i = 0; i < nr; i++) {
    nr_kernels += pending_[i].threads > 0;
    threads += pending_[i].threads;
  }
  *span = {};
  span->device = device_;
  span->stream = handle_;
  span->start_ns = pending_.front().start_ns;
  span->end_ns = std::max(end_ns, pending_[nr - 1].start_ns);
  span->nr_launches = nr;
  span->avg_threads = nr_kernels ? static_cast<uint64_t>(threads / nr_kernels) : 0;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(nr));
  return true;
}

}  // namespace slotscope
