// SPDX-License-Identifier: MIT
#include "base/cpu_list.h"
#include "harness.h"

namespace slotscope {
namespace {

// To detach takes seconds with PREEMPT_RT: the reader may find meanwhile that a CPU has gone. Where
// ticks are perf events, their links have been ended by then.
TEST(Hotplug, ACpuMayGoAwayAfterTheEnd) {
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  recorder.WaitUntilDrained();
  recorder.Stop();
  for (const int cpu : ReadCpuList("online")) recorder.source().OfflineCpu(cpu);
}

}  // namespace
}  // namespace slotscope
