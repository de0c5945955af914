// SPDX-License-Identifier: MIT
// Which programs of bpf/text.bpf.h are loaded: those whose tracepoint the kernel has. What a missing one
// would tell is not known then.
#pragma once

#include <bpf/libbpf.h>

#include "ring/kernel_types.h"

namespace slotscope {

// Of either source's skeleton, before it is loaded.
template <typename Skeleton>
void ChooseTexts(const KernelTypes& types, bool arguments, Skeleton* skeleton) {
  skeleton->rodata->ss_has_arguments = arguments;
  const auto choose = [&](bpf_program* program, const char* tracepoint) {
    bpf_program__set_autoload(program, types.HasTracepoint(tracepoint));
  };
  choose(skeleton->progs.ss_tell_exec, "sched_process_exec");
  choose(skeleton->progs.ss_tell_cgroup_mkdir, "cgroup_mkdir");
  choose(skeleton->progs.ss_tell_cgroup_rename, "cgroup_rename");
  choose(skeleton->progs.ss_tell_cgroup_rmdir, "cgroup_rmdir");
  choose(skeleton->progs.ss_tell_cgroup_move, "cgroup_attach_task");
}

}  // namespace slotscope
