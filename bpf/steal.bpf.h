/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The time in which a hypervisor ran something else on this CPU. The scheduler asks for it when it
 * updates its clock, as at each switch, and takes it out of what tasks ran. (A kernel that is not built
 * to does so at its tick only: too late to say in which millisecond, or whose turn, it was.)
 */
#ifndef SLOTSCOPE_STEAL_BPF_H
#define SLOTSCOPE_STEAL_BPF_H

#include "task.bpf.h"

/* Set by the collector: this kernel tells it. */
const volatile bool ss_has_steal = false;

struct rq___with_steal {
	__u64 prev_steal_time_rq;
} __attribute__((preserve_access_index));

/* Of this CPU, so far. `running` runs on it, or did until now. */
static __always_inline __u64 ss_stolen_now(struct task_struct *running)
{
	struct rq___with_steal *rq = 0;

	if (!ss_has_steal || !bpf_core_field_exists(rq->prev_steal_time_rq))
		return 0;
	rq = (void *)running->se.cfs_rq->rq;
	return rq->prev_steal_time_rq;
}

#endif /* SLOTSCOPE_STEAL_BPF_H */
