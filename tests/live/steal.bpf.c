// SPDX-License-Identifier: GPL-2.0-only
/* What the scheduler has left out of what tasks ran, for a hypervisor ran something else (harness.cc). */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct rq___steal {
	unsigned long long prev_steal_time_rq;
} __attribute__((preserve_access_index));

unsigned long long steal_ns; /* of the CPU that runs it, since that began */
int steal_is_known;

SEC("syscall")
int steal_read(void *ctx)
{
	struct task_struct *running = bpf_get_current_task_btf();
	struct rq___steal *rq;

	/* A kernel without the cpu controller has no way there, one for bare machines no such time. */
	if (!bpf_core_field_exists(running->se.cfs_rq) ||
	    !bpf_core_field_exists(struct rq___steal, prev_steal_time_rq))
		return 0;
	rq = (void *)running->se.cfs_rq->rq;
	steal_ns = BPF_CORE_READ(rq, prev_steal_time_rq);
	steal_is_known = 1;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
