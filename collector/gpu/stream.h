// SPDX-License-Identifier: MIT
// A CUDA stream: what was launched into it and has not been waited for.
//
// A call that waits says that everything before it is done; when, between the launch and the end of the
// wait, cannot be seen. So a span of kernels is from the first launch to the end of the wait: an upper
// bound.
//
//   launch  launch    launch
//     |-------|---------|---- wait -----|
//     [            a kernel span        )
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "slots/gpu_span.h"

namespace slotscope {

class GpuStream {
 public:
  // CUDA itself lets some 1000 wait; with more the next launch waits, too.
  static constexpr size_t kMaxPendingLaunches = 1000;

  GpuStream(uint64_t handle, int32_t device, bool blocking, std::pmr::memory_resource* pool)
      : handle_(handle), device_(device), blocking_(blocking), pending_(pool) {}

  uint64_t handle() const { return handle_; }
  int32_t device() const { return device_; }
  // The default stream waits for it, and it for the default stream.
  bool blocking() const { return blocking_; }
  // Work goes into a graph, and is not done.
  bool capturing() const { return capturing_; }
  void SetCapturing(bool on) { capturing_ = on; }
  bool destroyed() const { return destroyed_; }
  void Destroy() { destroyed_ = true; }

  // True if something was launched that nobody has waited for.
  bool busy() const { return !pending_.empty() || is_forced_; }
  // When the first of what is in the next span was launched; UINT64_MAX: there is nothing.
  uint64_t pending_since_ns() const { return pending_.empty() ? UINT64_MAX : pending_.front().start_ns; }
  // The same one, with nothing in it.
  GpuStream Idle() const {
    GpuStream idle(handle_, device_, blocking_, pending_.get_allocator().resource());
    idle.Touch(last_ns_);
    return idle;
  }
  uint64_t last_ns() const { return last_ns_; }
  void Touch(uint64_t ts_ns) { last_ns_ = ts_ns > last_ns_ ? ts_ns : last_ns_; }
  // `threads`: 0 for a graph. True if the span in *span was ended for want of room; the stream stays
  // busy.
  bool Launch(uint64_t start_ns, uint64_t threads, KernelSpan* span);
  // What happens from at_ns on was not seen. True if a span in *span has ended; the stream stays busy,
  // as nobody is known to have waited.
  bool Cut(uint64_t at_ns, KernelSpan* span);
  // A wait that began at `from_ns` ended at `end_ns`: what was launched before it began is done. True if
  // a span in *span has ended.
  bool Wait(uint64_t from_ns, uint64_t end_ns, KernelSpan* span);
  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state) {
    state(handle_, device_, blocking_, capturing_, destroyed_, is_forced_, forced_ns_, last_ns_,
          pending_);
    state.Require(pending_.size() <= kMaxPendingLaunches);
  }

 private:
  struct Pending {
    uint64_t start_ns;
    uint64_t threads;

    template <typename Archive>
    void State(Archive& state) {
      state(start_ns, threads);
    }
  };
  bool Close(size_t nr, uint64_t end_ns, KernelSpan* span);

  uint64_t handle_;
  int32_t device_;
  bool blocking_;
  bool capturing_ = false;
  bool destroyed_ = false;
  bool is_forced_ = false;  // launches that were forced out have not been waited for
  uint64_t forced_ns_ = 0;  // with is_forced_: the last of them
  uint64_t last_ns_ = 0;
  std::pmr::vector<Pending> pending_;  // by start_ns
};

}  // namespace slotscope
