// SPDX-License-Identifier: GPL-2.0-only
/*
 * The relay: each tracepoint of the module carries a pointer to one finished message. Copy it, add the
 * perf counters to a measure, send it; measures in a batch while there are many. Raw tracepoints need no
 * BTF of the module, and their reference keeps it loaded.
 *
 * The header says how long the message is. What an older module does not send is zero in ours, and what
 * a newer one sends beyond it is left out.
 */
#include "batch.bpf.h"
#include "counters.bpf.h"
#include "output.bpf.h"
#include "quota.bpf.h"
#include "text.bpf.h"

/* REQUIRES: *msg is zero. Returns if it is a message of that size now. */
static __always_inline bool ss_copy(struct bpf_raw_tracepoint_args *ctx, struct ss_hdr *msg, __u32 size,
				    __u16 type)
{
	__u32 sent = 0;

	if (!bpf_probe_read_kernel(msg, sizeof(*msg), (void *)ctx->args[0]))
		sent = msg->size;
	if (sent > size)
		sent = size;
	if (sent < sizeof(*msg) || bpf_probe_read_kernel(msg, sent, (void *)ctx->args[0])) {
		ss_count_output_error(type);
		return false;
	}
	msg->size = size;
	return true;
}

static __always_inline struct task_struct *ss_running(void)
{
	return ss_task_to_read(bpf_get_current_task_btf());
}

static __always_inline void ss_relay(struct bpf_raw_tracepoint_args *ctx, struct ss_hdr *msg, __u32 size,
				     __u16 type)
{
	__builtin_memset(msg, 0, size);
	if (!ss_copy(ctx, msg, size, type))
		return;
	if (type == SS_CPU_STATE) { /* it may go away: what it has done comes first */
		struct ss_sender *sender = ss_this_sender();

		if (sender) {
			ss_batch_flush(ctx, &sender->batch);
			sender->stolen_ns = ss_stolen_now(ss_running());
		}
	}
	ss_output(ctx, msg, size);
}

/* What stands behind a message of that size; 0: an older module does not say it. */
static __always_inline __u64 ss_copy_group(struct bpf_raw_tracepoint_args *ctx, __u32 size)
{
	struct ss_hdr hdr = {};
	__u64 group = 0;

	if (ss_has_quota && !bpf_probe_read_kernel(&hdr, sizeof(hdr), (void *)ctx->args[0]) &&
	    hdr.size >= size + sizeof(group))
		bpf_probe_read_kernel(&group, sizeof(group), (void *)(ctx->args[0] + size));
	return group;
}

/* Some of what a measure's process waited was due to its quota: it is told, and the measure has none. */
static __always_inline void ss_relay_throttled(struct bpf_raw_tracepoint_args *ctx,
					       struct ss_sender *sender)
{
	struct ss_measure *measure = &sender->next.measure;

	if (!ss_has_quota || !(measure->flags & SS_MEASURE_ONE_WAIT) ||
	    *ss_unthrottled(measure->hdr.cpu) <= measure->start_ns - measure->wait_ns)
		return;
	__builtin_memset(&sender->throttled, 0, sizeof(sender->throttled));
	ss_wait_fill(&sender->throttled, measure->hdr.cpu, measure->hdr.ts_ns, measure->start_ns,
		     measure->wait_ns, 0);
	sender->throttled.cut_ns = measure->cut_ns;
	ss_wait_set_measure(&sender->throttled, measure);
	if (!ss_tell_throttled(ctx, sender, ss_copy_group(ctx, sizeof(*measure))))
		return;
	measure->wait_ns = 0;
	measure->cut_ns = 0;
	measure->flags &= ~SS_MEASURE_ONE_WAIT;
}

SEC("raw_tp/ss_measure")
int ss_measure_relay(struct bpf_raw_tracepoint_args *ctx)
{
	struct ss_sender *sender = ss_this_sender();
	struct ss_long_measure *msg;

	if (!sender)
		return 0;
	msg = ss_new_measure(sender);
	if (ss_copy(ctx, &msg->measure.hdr, sizeof(msg->measure), SS_MEASURE)) {
		ss_relay_throttled(ctx, sender);
		ss_read_counters(msg);
		ss_take_stolen(sender, ss_stolen_now(ss_running()));
		ss_send_measure(ctx, sender);
	}
	return 0;
}

#define SS_RELAY(tracepoint, message, type)                                                     \
	SEC("raw_tp/" #tracepoint)                                                              \
	int tracepoint##_relay(struct bpf_raw_tracepoint_args *ctx)                             \
	{                                                                                       \
		struct message msg;                                                             \
                                                                                                \
		ss_relay(ctx, &msg.hdr, sizeof(msg), type);                                     \
		return 0;                                                                       \
	}

SS_RELAY(ss_task_meta, ss_task_meta, SS_TASK_META)
SS_RELAY(ss_rmid_alloc, ss_rmid_event, SS_RMID_ALLOC)
SS_RELAY(ss_rmid_free, ss_rmid_event, SS_RMID_FREE)
SS_RELAY(ss_rmid_alloc_failed, ss_rmid_event, SS_RMID_ALLOC_FAILED)
SS_RELAY(ss_rmid_existing, ss_rmid_event, SS_RMID_EXISTING)
SS_RELAY(ss_rdt_sample, ss_rdt_sample, SS_RDT_SAMPLE)
SS_RELAY(ss_cpu_state, ss_cpu_state, SS_CPU_STATE)

/* The module sends it before the measure of its process, or by itself. */
SEC("raw_tp/ss_wait")
int ss_wait_relay(struct bpf_raw_tracepoint_args *ctx)
{
	struct ss_sender *sender = ss_this_sender();
	struct ss_wait msg = {};

	if (sender && ss_copy(ctx, &msg.hdr, sizeof(msg), SS_WAIT) &&
	    !ss_tell_if_throttled(ctx, sender, &msg, ss_copy_group(ctx, sizeof(msg))))
		ss_send_wait(ctx, sender, &msg);
	return 0;
}

/* Most have nothing to say. */
SEC("raw_tp/ss_tick")
int ss_tick_relay(struct bpf_raw_tracepoint_args *ctx)
{
	struct ss_tick msg = {};

	if (ss_copy(ctx, &msg.hdr, sizeof(msg), SS_TICK) && msg.missed)
		ss_output(ctx, &msg.hdr, sizeof(msg));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
