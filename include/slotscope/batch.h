/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A batch: what many short measures of one CPU say, said by few.
 *
 * Within one slot only sums count: rows do not tell when in the slot a process ran. So while a CPU
 * switches often, measures that lie in one slot are added up by process, and each sum is sent as a
 * measure of its own. The sums get intervals one behind the other, in place of the many that they
 * are made of; together they cover the same nanoseconds, so all rules for measures hold for them:
 *
 *   measures   |A|B|A|C|B|A|          sent   |  A  | B |C|
 *              from      to                  from       to
 *
 * What does not lie in the batch's slot, leaves a gap, or is of an unknown process ends the batch:
 * it is flushed, and that measure is sent as it is. A sum's next_tgid is who ran after its last
 * preemption, and it left the CPU as it did last.
 *
 * Waits are cut where they pass, too: the last runs of the batch say who ran, and each pair of who
 * waited and who ran has a sum (struct ss_batch_waits). A flush tells them as SS_WAIT messages.
 *
 * Batching begins by itself when a slot had many measures, and ends when it does not pay. One
 * implementation for eBPF and the host's tests: no calls, bounded loops, masked indices.
 */
#ifndef SLOTSCOPE_BATCH_H
#define SLOTSCOPE_BATCH_H

#include <slotscope/waits.h>

#define SS_BATCH_INLINE static inline __attribute__((always_inline))

/* Keeps the compiler from dropping the mask behind it, which the verifier wants to see. */
#define SS_BATCH_OPAQUE(x) __asm__ volatile("" : "+r"(x))

#define SS_BATCH_ROWS 32u /* power of two; bounds the work of a flush */
#define SS_BATCH_MASK (SS_BATCH_ROWS - 1)
/* Flags that say what is true of one measure, and not of a sum. */
#define SS_BATCH_NOT_OF_A_SUM (SS_MEASURE_TICK | SS_MEASURE_ONE_WAIT | SS_MEASURE_LEFT)
#define SS_BATCH_MANY 32u /* measures in a slot from which on batching is tried */
#define SS_BATCH_PATIENCE 100u /* slots: with few measures, until it ends; or until it is tried again */

#define SS_BATCH_RUNS 16u /* power of two: how far back a wait is followed */
#define SS_BATCH_PAIRS 64u /* power of two */
#define SS_BATCH_PROBES 4u

struct ss_batch_pair {
	__u32 ns; /* 0: it is free */
	__u16 waiter; /* rows */
	__u16 ran;
};

/* What was waited for the measure that was added last. */
struct ss_batch_waited {
	__u64 start_ns; /* of the measure */
	__u64 end_ns;
	__u64 wait_ns; /* one wait, which ended where it starts; 0: none, or it is in the row's sum */
	__u64 own_ns; /* within it, for its own threads */
	__u64 far_ns; /* by other threads, in front of it */
	__u32 cut_ns; /* of wait_ns */
	__u32 zero;
};

/* Of one batch. What finds no place is added up by row, and who ran is not known. */
struct ss_batch_waits {
	__u32 nr_runs;
	__u32 any; /* 1: there is something to tell */
	__u64 run_end_ns[SS_BATCH_RUNS];
	__u32 run_row[SS_BATCH_RUNS];
	struct ss_batch_pair pairs[SS_BATCH_PAIRS];
	__u64 far_ns[SS_BATCH_ROWS];
};

struct ss_batch {
	__u64 from_ns; /* with used: the rows' measures cover [from_ns, to_ns) */
	__u64 to_ns;
	__u64 slot_end_ns; /* of the slot that they lie in */
	__u64 counted_end_ns; /* of the slot that nr_in and nr_out are about */
	__u32 used; /* a bit per row */
	__u32 on;
	__u32 nr_in; /* measures in this slot */
	__u32 nr_out; /* and what was sent for them */
	__u32 patience; /* on: slots with few measures so far; off: slots until it may be tried again */
	__u32 in_seq; /* expected of the next measure */
	__u32 out_seq; /* of the next one that is sent */
	__u32 counted; /* a bit per row that is used: it has counters */
	__u32 row; /* of the measure that was added last */
	__u32 zero;
	struct ss_batch_waits waits;
	struct ss_long_measure rows[SS_BATCH_ROWS]; /* measure.hdr.ts_ns: their time so far */
};

enum ss_batch_verdict {
	SS_BATCH_KEPT, /* nothing is to be done */
	SS_BATCH_SEND, /* send this measure */
	SS_BATCH_FLUSH, /* flush, and add it again */
	SS_BATCH_FLUSH_AND_SEND, /* flush, then send it */
};

/*
 * At the first measure that ends in another slot: did it pay, would it? Slots with few measures say
 * nothing about it, but after many of them there is nothing to batch.
 */
SS_BATCH_INLINE void ss_batch_new_slot(struct ss_batch *batch, __u64 ts_ns)
{
	if (!batch->on) {
		if (batch->patience)
			batch->patience--;
		else if (batch->nr_in >= SS_BATCH_MANY)
			batch->on = 1;
	} else if (batch->nr_in < SS_BATCH_MANY) {
		if (++batch->patience >= SS_BATCH_PATIENCE) {
			batch->on = 0;
			batch->patience = 0;
		}
	} else if (batch->nr_out > batch->nr_in / 2) {
		batch->on = 0;
		batch->patience = SS_BATCH_PATIENCE;
	} else {
		batch->patience = 0;
	}
	batch->nr_in = 0;
	batch->nr_out = 0;
	batch->counted_end_ns = ts_ns - ts_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS;
}

/* Does it continue the batch, or may it begin one? */
SS_BATCH_INLINE int ss_batch_fits(struct ss_batch *batch, const struct ss_measure *measure)
{
	__u64 start_ns = measure->start_ns, end_ns = measure->hdr.ts_ns, slot_ns;

	if (measure->flags & SS_MEASURE_UNKNOWN)
		return 0;
	if (batch->used)
		return start_ns == batch->to_ns && end_ns <= batch->slot_end_ns;
	slot_ns = start_ns - start_ns % SS_TICK_PERIOD_NS;
	/* One of no length at the border belongs to the slot before. */
	if (end_ns > slot_ns + SS_TICK_PERIOD_NS || end_ns == slot_ns)
		return 0;
	batch->from_ns = start_ns;
	batch->to_ns = start_ns;
	batch->waits.nr_runs = 0;
	batch->slot_end_ns = slot_ns + SS_TICK_PERIOD_NS;
	return 1;
}

/* 1 if it was. Without a branch: the verifier follows each, times those of all other counters. */
SS_BATCH_INLINE __u32 ss_batch_was_measured(const struct ss_counter *counter)
{
	__u64 running_ns = counter->running_ns, negative = 0 - running_ns;

	SS_BATCH_OPAQUE(negative); /* or the compiler sees "is it 0?", and branches */
	return (__u32)((running_ns | negative) >> 63);
}

/* Which of its counters were measured: a sum must not hide that one was not. */
SS_BATCH_INLINE __u32 ss_batch_measured(const struct ss_long_measure *measure, __u32 nr_more)
{
	__u32 measured = 0;

	for (__u32 i = 0; i < SS_NR_COUNTERS; i++)
		measured |= ss_batch_was_measured(&measure->measure.counters[i]) << i;
	for (__u32 i = 0; i < SS_MAX_MORE; i++)
		if (i < nr_more)
			measured |= ss_batch_was_measured(&measure->more[i]) << (SS_NR_COUNTERS + i);
	return measured;
}

SS_BATCH_INLINE int ss_batch_is_of(const struct ss_measure *row, __s32 tgid, __u64 start_time_ns,
				   __u32 rmid, __u32 generation, __u32 flags)
{
	return row->tgid == tgid && row->start_time_ns == start_time_ns && row->rmid == rmid &&
	       row->generation == generation &&
	       (row->flags & ~(SS_MEASURE_SUM | SS_MEASURE_LEFT)) ==
		       (flags & ~SS_BATCH_NOT_OF_A_SUM);
}

SS_BATCH_INLINE void ss_batch_add_pair(struct ss_batch *batch, __u32 waiter, __u32 ran, __u64 ns)
{
	const __u32 place = waiter * 7 + ran;
	__u32 row = waiter;

	batch->waits.any = 1;
	for (__u32 i = 0; i < SS_BATCH_PROBES; i++) {
		struct ss_batch_pair *pair;
		__u32 at = place ^ i;

		SS_BATCH_OPAQUE(at);
		at &= SS_BATCH_PAIRS - 1;
		pair = &batch->waits.pairs[at];
		if (!pair->ns) {
			pair->waiter = waiter;
			pair->ran = ran;
		}
		if (pair->waiter == waiter && pair->ran == ran) {
			pair->ns += ns;
			return;
		}
	}
	SS_BATCH_OPAQUE(row);
	batch->waits.far_ns[row & SS_BATCH_MASK] += ns;
}

/* Back over the batch's last runs, from the end of a wait to its beginning. */
struct ss_batch_walk {
	struct ss_batch *batch;
	__u64 at_ns; /* who ran is known down to here */
	__u64 begin_ns; /* of the wait, or of the batch */
	__u32 row; /* who waited */
	__u32 last; /* who ran behind at_ns */
};

/* The run that is `back` in front of the end, from 0 on. 1: that was the last one. */
SS_BATCH_INLINE int ss_batch_walk_step(struct ss_batch_walk *walk, __u32 back)
{
	struct ss_batch_waits *waits = &walk->batch->waits;
	__u32 index = waits->nr_runs - 1 - back, before = index - 1, ran;
	__u64 start_ns = walk->batch->from_ns;

	if (walk->at_ns <= walk->begin_ns || back >= waits->nr_runs)
		return 1;
	if (back + 1 < waits->nr_runs) {
		if (back + 1 >= SS_BATCH_RUNS)
			return 1; /* where it began is not kept */
		SS_BATCH_OPAQUE(before);
		start_ns = waits->run_end_ns[before & (SS_BATCH_RUNS - 1)];
	}
	SS_BATCH_OPAQUE(index);
	ran = waits->run_row[index & (SS_BATCH_RUNS - 1)];
	if (start_ns < walk->begin_ns)
		start_ns = walk->begin_ns;
	if (start_ns < walk->at_ns)
		ss_batch_add_pair(walk->batch, walk->row, ran, walk->at_ns - start_ns);
	walk->at_ns = start_ns;
	walk->last = ran;
	return 0;
}

/* Who includes this may have another way to take the steps. */
#ifndef SS_BATCH_WALK
#define SS_BATCH_WALK(walk)                                           \
	do {                                                          \
		for (__u32 back = 0; back < SS_BATCH_RUNS; back++)    \
			if (ss_batch_walk_step(walk, back))           \
				break;                                \
	} while (0)
#endif

/*
 * A wait of the process of `row` that ended at end_ns, where the batch ended until now. Returns what
 * of it passed in front of the batch. cut_ns: as in ss_measure.
 */
SS_BATCH_INLINE __u64 ss_batch_place_wait(struct ss_batch *batch, __u32 row, __u64 end_ns, __u64 wait_ns,
					  __u64 cut_ns)
{
	const __u64 told_begin_ns = end_ns - wait_ns;
	struct ss_batch_walk walk = {
		.batch = batch,
		.at_ns = end_ns,
		.begin_ns = told_begin_ns + cut_ns,
		.row = row,
		.last = row,
	};
	__u64 before_ns = 0;

	if (walk.begin_ns < batch->from_ns) {
		before_ns = batch->from_ns - told_begin_ns;
		walk.begin_ns = batch->from_ns;
		cut_ns = 0; /* it is of what passed before */
	}
	SS_BATCH_WALK(&walk);
	if (walk.at_ns > walk.begin_ns) {
		SS_BATCH_OPAQUE(row);
		batch->waits.far_ns[row & SS_BATCH_MASK] += walk.at_ns - walk.begin_ns + cut_ns;
		batch->waits.any = 1;
	} else if (cut_ns) {
		ss_batch_add_pair(batch, row, walk.last, cut_ns);
	}
	return before_ns;
}

/*
 * Of each measure that was kept, before the next one. Returns what of its wait passed in front of the
 * batch: it ended at from_ns, and needs a message of its own.
 */
SS_BATCH_INLINE __u64 ss_batch_take_waits(struct ss_batch *batch, const struct ss_batch_waited *waited)
{
	__u32 index = batch->waits.nr_runs, row = batch->row;
	__u64 before_ns = 0;

	if (waited->wait_ns)
		before_ns = ss_batch_place_wait(batch, row, waited->start_ns, waited->wait_ns,
						waited->cut_ns);
	if (waited->own_ns)
		ss_batch_add_pair(batch, row, row, waited->own_ns);
	if (waited->far_ns) {
		SS_BATCH_OPAQUE(row);
		batch->waits.far_ns[row & SS_BATCH_MASK] += waited->far_ns;
		batch->waits.any = 1;
	}
	SS_BATCH_OPAQUE(index);
	index &= SS_BATCH_RUNS - 1;
	batch->waits.run_end_ns[index] = waited->end_ns;
	batch->waits.run_row[index] = row;
	batch->waits.nr_runs++;
	return before_ns;
}

/*
 * A flush calls it for each index below SS_BATCH_PAIRS + SS_BATCH_ROWS: 1 if there is something to tell,
 * which is in *msg but for its header. Before the rows are taken.
 */
SS_BATCH_INLINE int ss_batch_take_wait(struct ss_batch *batch, __u32 index, struct ss_wait *msg)
{
	const struct ss_measure *ran;
	__u32 row = index - SS_BATCH_PAIRS;
	struct ss_batch_pair *pair;

	msg->start_ns = batch->from_ns;
	msg->end_ns = batch->to_ns;
	if (index < SS_BATCH_PAIRS) {
		SS_BATCH_OPAQUE(index);
		pair = &batch->waits.pairs[index & (SS_BATCH_PAIRS - 1)];
		if (!pair->ns)
			return 0;
		msg->wait_ns = pair->ns;
		pair->ns = 0;
		row = pair->waiter;
		index = pair->ran;
		SS_BATCH_OPAQUE(index);
		ran = &batch->rows[index & SS_BATCH_MASK].measure;
		msg->flags = ran->flags & SS_MEASURE_IDLE ? SS_WAIT_IDLE : SS_WAIT_FOR;
		if (row == pair->ran)
			msg->flags = SS_WAIT_OWN;
		msg->ran_tgid = ran->tgid;
		msg->ran_start_time_ns = ran->start_time_ns;
		SS_BATCH_OPAQUE(row);
		row &= SS_BATCH_MASK;
	} else {
		SS_BATCH_OPAQUE(row);
		row &= SS_BATCH_MASK;
		if (!batch->waits.far_ns[row])
			return 0;
		msg->wait_ns = batch->waits.far_ns[row];
		batch->waits.far_ns[row] = 0;
		msg->flags = SS_WAIT_FAR;
	}
	SS_BATCH_OPAQUE(row);
	ss_wait_set_measure(msg, &batch->rows[row & SS_BATCH_MASK].measure);
	return msg->end_ns > msg->start_ns;
}

/* Times and counts of a measure, or of an interval that was not made one. */
SS_BATCH_INLINE void ss_batch_add_counts(struct ss_measure *row, __u64 length_ns, __u64 wait_ns,
					 __u32 switches, __u32 preemptions, __u32 migrations,
					 __s32 next_tgid)
{
	row->hdr.ts_ns += length_ns;
	row->wait_ns += wait_ns;
	row->switches += switches;
	row->preemptions += preemptions;
	row->migrations += migrations;
	if (preemptions)
		row->next_tgid = next_tgid;
}

SS_BATCH_INLINE void ss_batch_set_left(struct ss_measure *row, __u32 flags)
{
	row->flags = (row->flags & ~SS_MEASURE_LEFT) | (flags & SS_MEASURE_LEFT);
}

SS_BATCH_INLINE void ss_batch_add_counter(struct ss_counter *sum, const struct ss_counter *counter)
{
	sum->delta += counter->delta;
	sum->enabled_ns += counter->enabled_ns;
	sum->running_ns += counter->running_ns;
}

SS_BATCH_INLINE void ss_batch_add_to_row(struct ss_long_measure *to,
					 const struct ss_long_measure *from, __u32 nr_more)
{
	const struct ss_measure *measure = &from->measure;
	struct ss_measure *row = &to->measure;

	ss_batch_add_counts(row, measure->hdr.ts_ns - measure->start_ns,
			    measure->flags & SS_MEASURE_ONE_WAIT ? 0 : measure->wait_ns,
			    measure->switches, measure->preemptions, measure->migrations,
			    measure->next_tgid);
	row->stolen_ns += measure->stolen_ns;
	ss_batch_set_left(row, measure->flags);
	for (__u32 i = 0; i < SS_NR_COUNTERS; i++)
		ss_batch_add_counter(&row->counters[i], &measure->counters[i]);
	for (__u32 i = 0; i < SS_MAX_MORE; i++)
		if (i < nr_more)
			ss_batch_add_counter(&to->more[i], &from->more[i]);
}

/* Counters that nobody asked for are not copied. */
SS_BATCH_INLINE void ss_batch_set_row(struct ss_long_measure *row, const struct ss_long_measure *from,
				      __u32 nr_more)
{
	row->measure = from->measure;
	for (__u32 i = 0; i < SS_MAX_MORE; i++)
		if (i < nr_more)
			row->more[i] = from->more[i];
	row->measure.hdr.ts_ns = from->measure.hdr.ts_ns - from->measure.start_ns;
	row->measure.cut_ns = 0;
	if (from->measure.flags & SS_MEASURE_ONE_WAIT)
		row->measure.wait_ns = 0; /* see ss_batch_take_waits() */
	row->measure.flags &= ~SS_BATCH_NOT_OF_A_SUM | SS_MEASURE_LEFT;
}

/* One of the two places that a process may have: taken, or 0 if another one has it. */
SS_BATCH_INLINE int ss_batch_try_row(struct ss_batch *batch, __u32 index,
				     const struct ss_long_measure *measure, __u32 nr_more)
{
	__u32 measured = ss_batch_measured(measure, nr_more);
	struct ss_long_measure *row;

	SS_BATCH_OPAQUE(index);
	index &= SS_BATCH_MASK;
	row = &batch->rows[index];
	if (!(batch->used & (1u << index))) {
		ss_batch_set_row(row, measure, nr_more);
		batch->used |= 1u << index;
		batch->counted &= ~(1u << index);
		batch->counted |= (__u32)!!measured << index;
	} else if (ss_batch_is_of(&row->measure, measure->measure.tgid, measure->measure.start_time_ns,
				  measure->measure.rmid, measure->measure.generation,
				  measure->measure.flags) &&
		   ss_batch_measured(row, nr_more) == measured) {
		ss_batch_add_to_row(row, measure, nr_more);
	} else {
		return 0;
	}
	batch->to_ns = measure->measure.hdr.ts_ns;
	batch->row = index;
	return 1;
}

SS_BATCH_INLINE __u32 ss_batch_place(__s32 tgid)
{
	return (__u32)tgid * 2654435761u >> 27;
}

SS_BATCH_INLINE int ss_batch_try_interval(struct ss_batch *batch, __u32 index,
					  const struct ss_interval *interval, __u64 now_ns,
					  __s32 next_tgid, __u32 left)
{
	struct ss_measure *row;

	SS_BATCH_OPAQUE(index);
	index &= SS_BATCH_MASK;
	row = &batch->rows[index].measure;
	if (!((batch->used & ~batch->counted) & (1u << index)) ||
	    !ss_batch_is_of(row, interval->tgid, interval->start_time_ns, interval->rmid,
			    interval->generation, interval->flags | SS_INTERVAL_HAS))
		return 0;
	ss_batch_add_counts(row, now_ns - interval->last_ns,
			    interval->wait_flags & SS_MEASURE_ONE_WAIT ? 0 : interval->wait_ns,
			    interval->switches, interval->preemptions, interval->migrations,
			    next_tgid);
	ss_batch_set_left(row, left);
	batch->row = index;
	batch->to_ns = now_ns;
	batch->nr_in++;
	batch->in_seq++;
	return 1;
}

/*
 * The short way of most switches of a storm: adds what a measure of this interval without counters
 * would say to the row of its process, and makes none. 0 if a measure has to be made, which then begins
 * or ends the batch, or the row. `left`: SS_MEASURE_LEFT of its flags.
 */
SS_BATCH_INLINE int ss_batch_add_interval(struct ss_batch *batch, const struct ss_interval *interval,
					  __u64 now_ns, __s32 next_tgid, __u32 left)
{
	const __u32 place = ss_batch_place(interval->tgid);

	if (!batch->used || interval->last_ns != batch->to_ns || now_ns > batch->slot_end_ns ||
	    interval->seq != batch->in_seq)
		return 0;
	return ss_batch_try_interval(batch, place, interval, now_ns, next_tgid, left) ||
	       ss_batch_try_interval(batch, place ^ 1, interval, now_ns, next_tgid, left);
}

/*
 * The measures of a CPU, in their order; all of them have nr_more counters behind them. `again`: after
 * the flush that it asked for.
 */
SS_BATCH_INLINE int ss_batch_add(struct ss_batch *batch, const struct ss_long_measure *from,
				 __u32 nr_more, int again)
{
	const struct ss_measure *measure = &from->measure;
	__u32 place;

	if (!again) {
		if (measure->hdr.ts_ns > batch->counted_end_ns)
			ss_batch_new_slot(batch, measure->hdr.ts_ns);
		batch->nr_in++;
		/* A measure that never came leaves its gap in what is sent. */
		batch->out_seq += measure->seq - batch->in_seq;
		batch->in_seq = measure->seq + 1;
	}
	if ((!batch->on && !batch->used) || !ss_batch_fits(batch, measure))
		return batch->used ? SS_BATCH_FLUSH_AND_SEND : SS_BATCH_SEND;
	place = ss_batch_place(measure->tgid);
	if (ss_batch_try_row(batch, place, from, nr_more) ||
	    ss_batch_try_row(batch, place ^ 1, from, nr_more))
		return SS_BATCH_KEPT;
	return SS_BATCH_FLUSH;
}

/* Numbers a measure that is about to be sent. */
SS_BATCH_INLINE void ss_batch_number(struct ss_batch *batch, struct ss_measure *measure)
{
	measure->seq = batch->out_seq++;
	batch->nr_out++;
}

/*
 * A flush calls this for each row in turn, `pass` 0 and then 1, with *at_ns set to from_ns before: 1 if
 * the row is complete now and is to be sent. Those of no length come last, when the slot has
 * begun for sure.
 */
SS_BATCH_INLINE int ss_batch_take(struct ss_batch *batch, __u32 index, int pass, __u64 *at_ns)
{
	struct ss_measure *row;

	SS_BATCH_OPAQUE(index);
	index &= SS_BATCH_MASK;
	row = &batch->rows[index].measure;
	if (!(batch->used & (1u << index)) || (row->hdr.ts_ns == 0) != pass)
		return 0;
	row->start_ns = *at_ns;
	*at_ns += row->hdr.ts_ns;
	row->hdr.ts_ns = *at_ns;
	row->flags |= SS_MEASURE_SUM;
	batch->used &= ~(1u << index);
	ss_batch_number(batch, row);
	return 1;
}

#endif /* SLOTSCOPE_BATCH_H */
