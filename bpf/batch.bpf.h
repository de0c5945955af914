/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The way of a measure into the buffer: alone, or in a batch (see slotscope/batch.h) while this CPU
 * switches often. Measures of one CPU never interrupt each other.
 */
#ifndef SLOTSCOPE_BATCH_BPF_H
#define SLOTSCOPE_BATCH_BPF_H

#include "counters.bpf.h"
#include "output.bpf.h"
#include "steal.bpf.h"

#include <bpf/bpf_core_read.h>

struct ss_batch_walk;
static __always_inline void ss_batch_walk_all(struct ss_batch_walk *walk);
#define SS_BATCH_WALK(walk) ss_batch_walk_all(walk)
#include <slotscope/batch.h>
#include <slotscope/quota.h>

static long ss_batch_walk_one(__u32 back, struct ss_batch_walk *walk)
{
	return ss_batch_walk_step(walk, back);
}

/* Without bpf_loop() who of the batch ran is not followed: it is far for all. */
static __always_inline void ss_batch_walk_all(struct ss_batch_walk *walk)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop))
		bpf_loop(SS_BATCH_RUNS, ss_batch_walk_one, walk, 0);
}

/* Set by the collector. 0: measures say how much has been waited, and no more is known. */
const volatile unsigned int ss_waits = 1;

/* Of one CPU. The stack has no room for the next measure. */
struct ss_sender {
	struct ss_batch batch;
	struct ss_long_measure next;
	__u64 stolen_ns; /* of this CPU, as last seen; 0: it has not been */
	struct ss_batch_waited waited; /* own_ns and far_ns: of the measure that comes next */
	/* See quota.bpf.h: a wait, how far it has been told, and what of it is told next. */
	struct ss_wait throttled;
	struct ss_quota_cut cut;
	struct ss_wait piece;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ss_sender);
} ss_senders SEC(".maps");

static __always_inline struct ss_sender *ss_this_sender(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&ss_senders, &key);
}

/* Zero, as long as each measure of this recording is. */
static __always_inline struct ss_long_measure *ss_new_measure(struct ss_sender *sender)
{
	struct ss_long_measure *next = &sender->next;

	__builtin_memset(&next->measure, 0, sizeof(next->measure));
	if (ss_nr_more)
		__builtin_memset(next->more, 0, sizeof(next->more));
	return next;
}

static __always_inline void ss_output_measure(void *ctx, struct ss_long_measure *measure)
{
	const __u32 size = sizeof(measure->measure) + ss_nr_more * sizeof(measure->more[0]);

	if (size > sizeof(*measure))
		return;
	measure->measure.hdr.size = size;
	ss_output(ctx, &measure->measure.hdr, size);
}

struct ss_flush {
	void *ctx;
	struct ss_batch *batch;
	__u64 at_ns;
};

static long ss_batch_flush_wait(__u32 i, struct ss_flush *flush)
{
	struct ss_wait msg = {};

	if (!ss_batch_take_wait(flush->batch, i, &msg))
		return 0;
	ss_wait_fill(&msg, bpf_get_smp_processor_id(), msg.end_ns, msg.end_ns, msg.wait_ns, 0);
	ss_output(flush->ctx, &msg.hdr, sizeof(msg));
	return 0;
}

static long ss_batch_flush_row(__u32 i, struct ss_flush *flush)
{
	struct ss_batch *batch = flush->batch;
	__u32 row = i & SS_BATCH_MASK;

	if (ss_batch_take(batch, row, i / SS_BATCH_ROWS, &flush->at_ns)) {
		SS_BATCH_OPAQUE(row);
		ss_output_measure(flush->ctx, &batch->rows[row & SS_BATCH_MASK]);
	}
	return 0;
}

/*
 * At most SS_BATCH_ROWS messages. Kernels before 5.17 have no bpf_loop() (added in e6f2dd0f8067); a
 * loop of ours the verifier follows to its end, which takes five times as long to load.
 */
static __always_inline void ss_batch_flush(void *ctx, struct ss_batch *batch)
{
	struct ss_flush flush = {ctx, batch, batch->from_ns};

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop)) {
		if (batch->waits.any)
			bpf_loop(SS_BATCH_PAIRS + SS_BATCH_ROWS, ss_batch_flush_wait, &flush, 0);
		batch->waits.any = 0;
		bpf_loop(2 * SS_BATCH_ROWS, ss_batch_flush_row, &flush, 0);
		return;
	}
	if (batch->waits.any) {
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < SS_BATCH_PAIRS + SS_BATCH_ROWS; i++)
			ss_batch_flush_wait(i, &flush);
	}
	batch->waits.any = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 2 * SS_BATCH_ROWS; i++)
		ss_batch_flush_row(i, &flush);
}

/* A function of its own, which is verified once. */
__noinline int ss_batch_next(struct ss_sender *sender, int again)
{
	if (!sender)
		return SS_BATCH_SEND;
	return ss_batch_add(&sender->batch, &sender->next, ss_nr_more, again);
}

/* The same. 1: some of the wait passed in front of the batch, which waited.wait_ns is then. */
__noinline int ss_batch_next_waits(struct ss_sender *sender)
{
	__u64 before_ns;

	if (!sender)
		return 0;
	before_ns = ss_batch_take_waits(&sender->batch, &sender->waited);
	sender->waited.wait_ns = before_ns;
	sender->waited.own_ns = 0;
	sender->waited.far_ns = 0;
	return before_ns != 0;
}

/*
 * A measure of [start_ns, end_ns) was added to the batch, with wait_ns and cut_ns (flags: SS_MEASURE_*).
 */
static __always_inline void ss_batch_was_kept(void *ctx, struct ss_sender *sender, __u64 start_ns,
					      __u64 end_ns, __u64 wait_ns, __u32 cut_ns, __u32 flags)
{
	const struct ss_measure *row;
	struct ss_wait msg = {};
	__u32 index;

	if (!ss_waits)
		return;
	sender->waited.start_ns = start_ns;
	sender->waited.end_ns = end_ns;
	sender->waited.wait_ns = flags & SS_MEASURE_ONE_WAIT ? wait_ns : 0;
	sender->waited.cut_ns = cut_ns;
	if (!ss_batch_next_waits(sender))
		return;
	index = sender->batch.row;
	SS_BATCH_OPAQUE(index);
	row = &sender->batch.rows[index & SS_BATCH_MASK].measure;
	ss_wait_fill(&msg, bpf_get_smp_processor_id(), end_ns, sender->batch.from_ns,
		     sender->waited.wait_ns, 0);
	msg.cut_ns = cut_ns;
	ss_wait_set_measure(&msg, row);
	ss_output(ctx, &msg.hdr, sizeof(msg));
}

/* It could not be kept: what was waited for it beside its own wait. */
static __always_inline void ss_send_waited(void *ctx, struct ss_sender *sender)
{
	struct ss_measure *measure = &sender->next.measure;
	struct ss_wait msg = {};

	if (sender->waited.own_ns && measure->hdr.ts_ns > measure->start_ns) {
		ss_wait_fill(&msg, bpf_get_smp_processor_id(), measure->hdr.ts_ns,
			     measure->hdr.ts_ns, sender->waited.own_ns, SS_WAIT_OWN);
		msg.start_ns = measure->start_ns;
		ss_wait_set_measure(&msg, measure);
		ss_output(ctx, &msg.hdr, sizeof(msg));
		sender->waited.own_ns = 0;
	}
	if (sender->waited.own_ns || sender->waited.far_ns) {
		measure->wait_ns += sender->waited.own_ns + sender->waited.far_ns;
		measure->cut_ns = 0;
		measure->flags &= ~SS_MEASURE_ONE_WAIT;
	}
	sender->waited.own_ns = 0;
	sender->waited.far_ns = 0;
}

/*
 * What the hypervisor has taken since it was asked last, of what it has by now (ss_stolen_now()).
 * REQUIRES: the rest of sender->next is there.
 */
static __always_inline void ss_take_stolen(struct ss_sender *sender, __u64 now_ns)
{
	struct ss_measure *measure = &sender->next.measure;
	const __u64 length_ns = measure->hdr.ts_ns - measure->start_ns;
	__u64 stolen_ns = sender->stolen_ns ? now_ns - sender->stolen_ns : 0;

	sender->stolen_ns = now_ns;
	if (stolen_ns > length_ns)
		stolen_ns = length_ns;
	measure->stolen_ns = stolen_ns > 0xffffffff ? 0xffffffff : stolen_ns;
}

/* Sends sender->next. */
static __always_inline void ss_send_measure(void *ctx, struct ss_sender *sender)
{
	const struct ss_measure *measure = &sender->next.measure;
	int verdict = ss_batch_next(sender, 0);

	if (verdict == SS_BATCH_FLUSH || verdict == SS_BATCH_FLUSH_AND_SEND)
		ss_batch_flush(ctx, &sender->batch);
	if (verdict == SS_BATCH_FLUSH)
		verdict = ss_batch_next(sender, 1);
	if (verdict == SS_BATCH_KEPT) {
		ss_batch_was_kept(ctx, sender, measure->start_ns, measure->hdr.ts_ns, measure->wait_ns,
				  measure->cut_ns, measure->flags);
		return;
	}
	ss_send_waited(ctx, sender);
	ss_batch_number(&sender->batch, &sender->next.measure);
	ss_output_measure(ctx, &sender->next);
}

/* In a storm it goes with its process's next measure: there is no room to tell of each. */
static __always_inline void ss_send_wait(void *ctx, struct ss_sender *sender, struct ss_wait *msg)
{
	if (!sender->batch.on || (msg->flags & (SS_WAIT_MOVED | SS_WAIT_HIDDEN | SS_WAIT_PHANTOM)))
		ss_output(ctx, &msg->hdr, sizeof(*msg));
	else if (msg->flags & SS_WAIT_OWN)
		sender->waited.own_ns += msg->wait_ns;
	else
		sender->waited.far_ns += msg->wait_ns;
}

#endif /* SLOTSCOPE_BATCH_BPF_H */
