/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The way of a measure into the buffer: alone, or in a batch (see slotscope/batch.h) while this CPU
 * switches often. Measures of one CPU never interrupt each other.
 */
#ifndef SLOTSCOPE_BATCH_BPF_H
#define SLOTSCOPE_BATCH_BPF_H

#include "counters.bpf.h"
#include "output.bpf.h"

#include <bpf/bpf_core_read.h>

#include <slotscope/batch.h>

/* Of one CPU. The stack has no room for the next measure. */
struct ss_sender {
	struct ss_batch batch;
	struct ss_long_measure next;
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
		bpf_loop(2 * SS_BATCH_ROWS, ss_batch_flush_row, &flush, 0);
		return;
	}
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

/* Sends sender->next. */
static __always_inline void ss_send_measure(void *ctx, struct ss_sender *sender)
{
	int verdict = ss_batch_next(sender, 0);

	if (verdict == SS_BATCH_KEPT)
		return;
	if (verdict != SS_BATCH_SEND)
		ss_batch_flush(ctx, &sender->batch);
	if (verdict == SS_BATCH_FLUSH && ss_batch_next(sender, 1) == SS_BATCH_KEPT)
		return;
	ss_batch_number(&sender->batch, &sender->next.measure);
	ss_output_measure(ctx, &sender->next);
}

#endif /* SLOTSCOPE_BATCH_BPF_H */
