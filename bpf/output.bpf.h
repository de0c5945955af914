/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one way out: a perf event array. What could not be written is counted by CPU and type; the
 * kernel itself counts what a full buffer refused (PERF_RECORD_LOST).
 */
#ifndef SLOTSCOPE_OUTPUT_BPF_H
#define SLOTSCOPE_OUTPUT_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#include <slotscope/events.h>

#define SS_MAX_CPUS 4096 /* of the eBPF source; power of two */

/* One slot per possible CPU; the collector puts each CPU's buffer into it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} ss_events SEC(".maps");

/* [type] -> messages of that type that this CPU could not write */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SS_NR_TYPES);
	__type(key, __u32);
	__type(value, __u64);
} ss_output_errors SEC(".maps");

static __always_inline void ss_count_output_error(__u32 type)
{
	__u64 *count = bpf_map_lookup_elem(&ss_output_errors, &type);

	if (count)
		__sync_fetch_and_add(count, 1); /* programs of uprobes may be preempted in it */
}

/* The verifier must know what size is at most. Returns 0 if it is written. */
static __always_inline long ss_output(void *ctx, struct ss_hdr *msg, __u64 size)
{
	long err = bpf_perf_event_output(ctx, &ss_events, BPF_F_CURRENT_CPU, msg, size);

	/* What a full buffer refuses (ENOSPC) is in the kernel's own count already. */
	if (err && err != -28)
		ss_count_output_error(msg->type);
	return err;
}

static __always_inline void ss_fill_hdr(struct ss_hdr *hdr, __u16 type, __u16 size, __u64 ts_ns)
{
	hdr->ts_ns = ts_ns;
	hdr->type = type;
	hdr->size = size;
	hdr->cpu = bpf_get_smp_processor_id();
}

#endif /* SLOTSCOPE_OUTPUT_BPF_H */
