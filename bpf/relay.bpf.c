// SPDX-License-Identifier: GPL-2.0-only
/*
 * The relay: each tracepoint of the module carries a pointer to one finished message. Copy it, add the
 * perf counters to a measure, send it. Raw tracepoints need no BTF of the module, and their reference
 * keeps it loaded.
 */
#include "counters.bpf.h"
#include "output.bpf.h"

#define SS_RELAY(name, message)                                                                          \
	SEC("raw_tp/" #name)                                                                             \
	int name(struct bpf_raw_tracepoint_args *ctx)                                                    \
	{                                                                                                \
		struct message msg;                                                                      \
                                                                                                         \
		if (bpf_probe_read_kernel(&msg, sizeof(msg), (void *)ctx->args[0]))                      \
			return 0;                                                                        \
		ss_output(ctx, &msg.hdr, sizeof(msg));                                                   \
		return 0;                                                                                \
	}

SEC("raw_tp/ss_measure")
int ss_measure_relay(struct bpf_raw_tracepoint_args *ctx)
{
	struct ss_measure msg;

	if (bpf_probe_read_kernel(&msg, sizeof(msg), (void *)ctx->args[0])) {
		ss_count_output_error(SS_MEASURE);
		return 0;
	}
	ss_read_counters(&msg);
	ss_output(ctx, &msg.hdr, sizeof(msg));
	return 0;
}

SS_RELAY(ss_task_meta, ss_task_meta)
SS_RELAY(ss_rmid_alloc, ss_rmid_event)
SS_RELAY(ss_rmid_free, ss_rmid_event)
SS_RELAY(ss_rmid_alloc_failed, ss_rmid_event)
SS_RELAY(ss_rmid_existing, ss_rmid_event)
SS_RELAY(ss_tick, ss_tick)
SS_RELAY(ss_cpu_state, ss_cpu_state)

char LICENSE[] SEC("license") = "GPL";
