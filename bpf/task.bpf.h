/* SPDX-License-Identifier: GPL-2.0-only */
/* A task, to be read. */
#ifndef SLOTSCOPE_TASK_BPF_H
#define SLOTSCOPE_TASK_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include <slotscope/interval.h>

/*
 * Of kernels since 6.2. For each pointer that is read through a trusted one the verifier (6.8 to 6.18)
 * looks through all types of the kernel up to four times; that was most of a recorder's start. What is
 * only read is as good through one that is not trusted, and costs the same.
 */
extern void *bpf_rdonly_cast(const void *object, __u32 type_id) __weak __ksym;

static __always_inline struct task_struct *ss_task_to_read(struct task_struct *p)
{
	if (bpf_rdonly_cast)
		return bpf_rdonly_cast(p, bpf_core_type_id_kernel(struct task_struct));
	return p;
}

/* How a thread that is switched out leaves its CPU, as in a measure's flags. */
static __always_inline __u32 ss_left_of(bool preempt, const struct task_struct *prev,
					unsigned int prev_state)
{
	int in_iowait = 0;

	if (prev_state & 2) /* TASK_UNINTERRUPTIBLE */
		in_iowait = BPF_CORE_READ_BITFIELD(prev, in_iowait);
	return ss_measure_left(preempt, prev_state, in_iowait);
}

#endif /* SLOTSCOPE_TASK_BPF_H */
