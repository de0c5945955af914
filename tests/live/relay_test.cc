// SPDX-License-Identifier: MIT
// The relay's programs pass the verifier of this kernel with what only some kernels have. (To attach
// them needs the module; that they work its own tests show.)
#include <bpf/libbpf.h>

#include "harness.h"
#include "relay.skel.h"

namespace slotscope {
namespace {

TEST(Relay, LoadsWhereAHypervisorTellsWhatItTook) {
  relay* skeleton = relay__open();
  ASSERT_NE(skeleton, nullptr);
  for (bpf_map* map : {skeleton->maps.ss_events, skeleton->maps.ss_perf_counters})
    bpf_map__set_max_entries(map, 8);
  for (bpf_program* program : {skeleton->progs.ss_tg_throttle_down, skeleton->progs.ss_tg_unthrottle_up})
    bpf_program__set_autoload(program, false);
  bpf_map__set_autocreate(skeleton->maps.ss_quotas, false);
  skeleton->rodata->ss_has_steal = true;
  EXPECT_EQ(relay__load(skeleton), 0);
  relay__destroy(skeleton);
}

}  // namespace
}  // namespace slotscope
