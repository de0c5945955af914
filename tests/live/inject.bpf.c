// SPDX-License-Identifier: GPL-2.0-only
/* Writes what it is given into the events array, as a broken writer would. Run by BPF_PROG_TEST_RUN. */
#include "output.bpf.h"

#define SS_INJECT_MAX 256

unsigned int ss_inject_size; /* bytes to write, 1 to SS_INJECT_MAX */
unsigned char ss_inject_data[SS_INJECT_MAX];

SEC("raw_tp/sys_enter")
int ss_inject(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 size = ss_inject_size;

	if (size < 1 || size > SS_INJECT_MAX)
		return 1;
	return bpf_perf_event_output(ctx, &ss_events, BPF_F_CURRENT_CPU, ss_inject_data, size) ? 2 : 0;
}

char LICENSE[] SEC("license") = "GPL";
