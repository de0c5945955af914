/* SPDX-License-Identifier: GPL-2.0-only */
/* What has been told of each thread's waiting, see <slotscope/waits.h>. */
#ifndef SLOTSCOPE_WAITS_BPF_H
#define SLOTSCOPE_WAITS_BPF_H

#include "batch.bpf.h"
#include "task.bpf.h"

#include <bpf/bpf_core_read.h>

#include <slotscope/waits.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SS_LAST_RUNS);
	__type(key, __u32);
	__type(value, struct ss_last_run);
} ss_last_runs SEC(".maps");

/* NULL: of the idle task, and where no waits are told, nothing is remembered. */
static __always_inline struct ss_last_run *ss_last_run_of(const struct task_struct *p)
{
	__u32 key = (__u32)p->pid % SS_LAST_RUNS;

	return ss_waits && p->pid ? bpf_map_lookup_elem(&ss_last_runs, &key) : NULL;
}

static __always_inline __u64 ss_this_thread(const struct task_struct *p)
{
	return ss_thread_of(p->pid, p->start_time);
}

static __always_inline __u64 ss_run_delay(const struct task_struct *p)
{
	if (bpf_core_field_exists(p->sched_info.run_delay))
		return p->sched_info.run_delay;
	return 0;
}

/* The run queue that p is in, or was in last; -1: not known. */
static __always_inline __u32 ss_queue_of(const struct task_struct *p)
{
	if (bpf_core_field_exists(p->thread_info.cpu))
		return p->thread_info.cpu;
	return ~0u;
}

/* Since 7.3 (seen there, not in 7.0) on_rq is a byte. */
struct task_struct___small {
	unsigned char on_rq;
} __attribute__((preserve_access_index));

static __always_inline bool ss_is_queued(const struct task_struct *p)
{
	if (bpf_core_field_size(p->on_rq) == sizeof(unsigned char))
		return ((const struct task_struct___small *)p)->on_rq;
	return p->on_rq;
}

/* Since 6.12: the programs are built with the types of older kernels, too. */
struct sched_entity___delayed {
	unsigned char sched_delayed;
} __attribute__((preserve_access_index));

static __always_inline bool ss_sleeps_in_queue(const struct task_struct *p)
{
	if (bpf_core_field_exists(struct sched_entity___delayed, sched_delayed))
		return ((const struct sched_entity___delayed *)&p->se)->sched_delayed;
	return false;
}

#endif /* SLOTSCOPE_WAITS_BPF_H */
