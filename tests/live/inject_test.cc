// SPDX-License-Identifier: MIT
// A broken writer on the real events array: everything it writes is counted, nothing is believed.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cstring>

#include "base/clock.h"
#include "harness.h"
#include "inject.skel.h"

namespace slotscope {
namespace {

class Injector {
 public:
  explicit Injector(int events_fd) {
    skeleton_ = inject__open();
    if (!skeleton_) return;
    bpf_map__reuse_fd(skeleton_->maps.ss_events, events_fd);
    if (inject__load(skeleton_)) {
      inject__destroy(skeleton_);
      skeleton_ = nullptr;
    }
  }
  ~Injector() { inject__destroy(skeleton_); }

  bool ok() const { return skeleton_ != nullptr; }
  // True if the kernel took it.
  bool Write(const void* data, size_t size) {
    skeleton_->bss->ss_inject_size = static_cast<uint32_t>(size);
    std::memcpy(skeleton_->bss->ss_inject_data, data, size);
    LIBBPF_OPTS(bpf_test_run_opts, run);
    return bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.ss_inject), &run) == 0 &&
           run.retval == 0;
  }

 private:
  inject* skeleton_ = nullptr;
};

TEST(Inject, UnknownTypesAndShortMessagesAreCountedAndSkipped) {
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  int nr_injected = 0;
  {
    Injector injector(recorder.source().rings().map_fd());
    ASSERT_TRUE(injector.ok());
    ss_any_message message = {};
    message.hdr = {MonotonicNs(), 4711, sizeof(ss_tick), 0};  // no such type
    nr_injected += injector.Write(&message, sizeof(ss_tick));
    message.hdr = {MonotonicNs(), SS_MEASURE, sizeof(ss_hdr), 0};  // a measure without a body
    nr_injected += injector.Write(&message, sizeof(ss_hdr));
    message.hdr = {MonotonicNs(), SS_RMID_FREE, 60000, 0};  // a size beyond what came
    nr_injected += injector.Write(&message, sizeof(ss_rmid_event));
    message.hdr = {MonotonicNs(), SS_TASK_META, 0, 0};  // no size at all
    nr_injected += injector.Write(&message, sizeof(ss_task_meta));
    nr_injected += injector.Write(&message, 5);  // not even a header
    message.measure.start_ns = UINT64_MAX;       // ends before it starts
    message.hdr = {MonotonicNs(), SS_MEASURE, sizeof(ss_measure), 0};
    nr_injected += injector.Write(&message, sizeof(ss_measure));
  }
  recorder.Stop();
  EXPECT_EQ(nr_injected, 6);
  EXPECT_EQ(recorder.nr_bad(), 6u);
  EXPECT_GT(recorder.messages().size(), 0u);
}

}  // namespace
}  // namespace slotscope
