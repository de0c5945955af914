// SPDX-License-Identifier: MIT
// How a kernel shows when a cgroup's quota is used up (bpf/quota.bpf.h), for both live sources.
#pragma once

#include <memory>

#include "ring/kernel_types.h"

struct bpf_link;
struct bpf_program;

namespace slotscope {

enum class QuotaView {
  kNone,    // waits that were due to a quota are not told apart
  kFields,  // by what stands in its run queues: threads are throttled by themselves (6.18 and later)
  kHooks,   // by programs on the scheduler's own functions; a kernel may lack or refuse that
};

struct QuotaWay {
  QuotaView view = QuotaView::kNone;
  bool has_per_cpu_queues = false;  // a group's run queues are per-CPU data, not an array
};

class QuotaHooks {
 public:
  // Of this kernel. `fields`: whether the caller can do with them.
  static QuotaWay Best(const KernelTypes& types, bool fields);
  // Two programs that are not loaded yet: are they to be?
  static void Choose(QuotaView view, bpf_program* throttle, bpf_program* unthrottle);
  // When they are. Returns false, and attaches none, if one cannot be attached.
  bool Attach(const bpf_program* throttle, const bpf_program* unthrottle);
  void Detach();

 private:
  struct Deleter {
    void operator()(bpf_link* link) const;
  };
  std::unique_ptr<bpf_link, Deleter> throttle_, unthrottle_;
};

}  // namespace slotscope
