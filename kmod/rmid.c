// SPDX-License-Identifier: GPL-2.0-only
/*
 * RMIDs and their owners.
 *
 * Owns the allocator (<slotscope/rmid_fifo.h>) and, beside it, who has each RMID. Called from probes
 * under the run-queue lock and from procfs: the lock is raw and is taken with interrupts off; under
 * it there is a bounded amount of work and no tracepoint.
 */
#include <linux/sched.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/ktime.h>

#include "rdt_domain.h"
#include "slotscope.h"

#define SS_NR_LATEST 32 /* power of two */
#define SS_SNAPSHOT_PIECE 8 /* RMIDs that are copied under the lock at a time */
#define SS_SNAPSHOT_TRIES 100

struct ss_rmid_owner {
	seqcount_raw_spinlock_t seq; /* of lease: it is read without the lock */
	struct ss_rdt_owner lease;
	u64 start_time_ns;
	s32 tgid;
	char comm[SS_COMM_LEN];
};

static DEFINE_RAW_SPINLOCK(ss_rmid_lock);
/* All below: written under ss_rmid_lock. ss_fifo is peeked at without it in ss_rmid_may_alloc(). */
static struct ss_rmid_fifo ss_fifo;
static struct ss_rmid_owner ss_owner[SS_RMID_CAPACITY];
static struct ss_rmid_stats ss_stats;
/* The RMIDs of the latest transitions, by ss_fifo.seq: what a snapshot has to copy again. */
static u16 ss_latest[SS_NR_LATEST];

void ss_rmid_init(u32 nr_rmids)
{
	u32 rmid;

	for (rmid = 0; rmid < SS_RMID_CAPACITY; rmid++)
		seqcount_raw_spinlock_init(&ss_owner[rmid].seq, &ss_rmid_lock);
	ss_rmid_fifo_init(&ss_fifo, nr_rmids, SS_RMID_LIMBO_NS);
}

u32 ss_rmid_count(void)
{
	return ss_fifo.nr_rmids;
}

static void ss_rmid_fill_event(struct ss_rmid_event *event, u32 rmid, u64 now_ns)
{
	lockdep_assert_held(&ss_rmid_lock);
	memset(event, 0, sizeof(*event));
	event->hdr.ts_ns = now_ns;
	event->hdr.size = sizeof(*event);
	event->seq = ss_fifo.seq;
	event->rmid = rmid;
	event->generation = ss_fifo.generation[rmid];
	event->tgid = ss_owner[rmid].tgid;
	event->start_time_ns = ss_owner[rmid].start_time_ns;
}

static void ss_rmid_set_live(u32 rmid, bool live, u64 now_ns)
{
	struct ss_rdt_owner *lease = &ss_owner[rmid].lease;

	write_seqcount_begin(&ss_owner[rmid].seq);
	lease->generation = ss_fifo.generation[rmid];
	lease->live = live;
	lease->prev_freed_ns = live ? 0 : lease->freed_ns;
	if (live)
		lease->alloc_ns = now_ns;
	else
		lease->freed_ns = now_ns;
	write_seqcount_end(&ss_owner[rmid].seq);
	ss_latest[ss_fifo.seq % SS_NR_LATEST] = rmid;
}

static void ss_rmid_fill_failure(struct ss_rmid_event *event, s32 tgid, u64 start_time_ns, int reason,
				 u64 now_ns)
{
	ss_rmid_fill_event(event, 0, now_ns);
	event->hdr.type = SS_RMID_ALLOC_FAILED;
	event->tgid = tgid;
	event->start_time_ns = start_time_ns;
	event->reason = reason;
}

static int ss_rmid_alloc_locked(s32 tgid, u64 start_time_ns, const char *comm,
				struct ss_rmid_event *event)
{
	u64 now_ns = ktime_get_mono_fast_ns();
	struct ss_rmid_owner *owner;
	int rmid;

	lockdep_assert_held(&ss_rmid_lock);
	rmid = ss_rmid_fifo_alloc(&ss_fifo, &now_ns);
	if (rmid < 0) {
		ss_rmid_fill_failure(event, tgid, start_time_ns, rmid, now_ns);
		return rmid;
	}
	owner = &ss_owner[rmid];
	owner->tgid = tgid;
	owner->start_time_ns = start_time_ns;
	ss_rmid_set_live(rmid, true, now_ns);
	strscpy(owner->comm, comm, sizeof(owner->comm));
	ss_stats.nr_alloc++;
	ss_rmid_fill_event(event, rmid, now_ns);
	event->hdr.type = SS_RMID_ALLOC;
	return rmid;
}

int ss_rmid_alloc(s32 tgid, u64 start_time_ns, const char *comm, struct ss_rmid_event *event)
{
	unsigned long flags;
	int rmid;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	rmid = ss_rmid_alloc_locked(tgid, start_time_ns, comm, event);
	if (rmid == SS_RMID_NONE_FREE)
		ss_stats.nr_failed_none++;
	else if (rmid == SS_RMID_IN_LIMBO)
		ss_stats.nr_failed_limbo++;
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
	return rmid;
}

/*
 * Unlocked on purpose: while there is none, a switch must not touch the lock's cache line; and while all
 * are in use it need not read the clock.
 */
bool ss_rmid_may_alloc(void)
{
	return READ_ONCE(ss_fifo.count) && ss_rmid_fifo_may_alloc(&ss_fifo, ktime_get_mono_fast_ns());
}

int ss_rmid_try_alloc(s32 tgid, u64 start_time_ns, const char *comm, struct ss_rmid_event *event)
{
	unsigned long flags;
	int rmid;

	if (!raw_spin_trylock_irqsave(&ss_rmid_lock, flags))
		return 0;
	rmid = ss_rmid_alloc_locked(tgid, start_time_ns, comm, event);
	if (rmid > 0)
		ss_stats.nr_retried++;
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
	return rmid > 0 ? rmid : 0;
}

void ss_rmid_refuse(s32 tgid, u64 start_time_ns, struct ss_rmid_event *event)
{
	unsigned long flags;
	u64 now_ns;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	now_ns = ktime_get_mono_fast_ns();
	ss_rmid_fifo_clamp(&ss_fifo, &now_ns);
	ss_rmid_fill_failure(event, tgid, start_time_ns, SS_RMID_OVER_SHARE, now_ns);
	ss_stats.nr_failed_share++;
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
}

u32 ss_rmid_count_free(void)
{
	return READ_ONCE(ss_fifo.count);
}

void ss_rmid_free(u32 rmid, enum ss_rmid_end why, struct ss_rmid_event *event)
{
	unsigned long flags;
	u64 now_ns;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	now_ns = ktime_get_mono_fast_ns();
	if (ss_rmid_fifo_free(&ss_fifo, rmid, &now_ns)) {
		ss_stats.nr_bad_free++;
		memset(event, 0, sizeof(*event));
	} else {
		ss_stats.nr_free++;
		ss_rmid_fill_event(event, rmid, now_ns);
		event->hdr.type = SS_RMID_FREE;
		event->reason = why;
		ss_stats.nr_taken_back += why == SS_RMID_TAKEN_BACK;
		ss_rmid_set_live(rmid, false, now_ns);
	}
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
}

/* Without the lock: in their ticks, at the same time, all CPUs ask for each RMID that they read. */
void ss_rmid_get_owner(u32 rmid, struct ss_rdt_owner *owner)
{
	const struct ss_rmid_owner *last = &ss_owner[rmid % SS_RMID_CAPACITY];
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&last->seq);
		*owner = last->lease;
	} while (read_seqcount_retry(&last->seq, seq));
}

void ss_rmid_rename(u32 rmid, u32 generation, const char *comm)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	if (rmid < SS_RMID_CAPACITY && ss_fifo.live[rmid] && ss_fifo.generation[rmid] == generation)
		strscpy(ss_owner[rmid].comm, comm, sizeof(ss_owner[rmid].comm));
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
}

/* In limbo, or free? */
static void ss_rmid_set_free_state(u64 now_ns, struct ss_rmid_line *line)
{
	if (line->state == SS_RMID_LIVE_STATE)
		return;
	if (line->generation && now_ns - line->since_ns < ss_fifo.limbo_ns)
		line->state = SS_RMID_LIMBO_STATE;
	else
		line->state = SS_RMID_FREE_STATE;
}

static void ss_rmid_copy_locked(u32 rmid, struct ss_rmid_line *line)
{
	const struct ss_rmid_owner *owner = &ss_owner[rmid];

	lockdep_assert_held(&ss_rmid_lock);
	line->rmid = rmid;
	line->generation = ss_fifo.generation[rmid];
	line->tgid = owner->tgid;
	line->start_time_ns = owner->start_time_ns;
	line->since_ns = owner->lease.live ? owner->lease.alloc_ns : owner->lease.freed_ns;
	memcpy(line->comm, owner->comm, sizeof(line->comm));
	line->state = ss_fifo.live[rmid] ? SS_RMID_LIVE_STATE : SS_RMID_FREE_STATE;
}

bool ss_rmid_copy(u32 rmid, struct ss_rmid_line *line, struct ss_rmid_event *event)
{
	unsigned long flags;
	u64 now_ns;

	if (rmid == 0 || rmid >= ss_fifo.nr_rmids)
		return false;
	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	now_ns = ktime_get_mono_fast_ns();
	ss_rmid_fifo_clamp(&ss_fifo, &now_ns);
	ss_rmid_copy_locked(rmid, line);
	ss_rmid_fill_event(event, rmid, now_ns);
	event->hdr.type = SS_RMID_EXISTING;
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
	return true;
}

/* With interrupts off no longer than this; a function of its own so that a tracer can say how long. */
static noinline void ss_rmid_copy_piece(u32 from, struct ss_rmid_line lines[SS_RMID_CAPACITY])
{
	unsigned long flags;
	u32 rmid;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	for (rmid = from; rmid < ss_fifo.nr_rmids && rmid < from + SS_SNAPSHOT_PIECE; rmid++)
		ss_rmid_copy_locked(rmid, &lines[rmid]);
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
}

/*
 * Copies all lines piece by piece, and then again what has changed meanwhile, so that they are of one
 * moment: the end of the last piece. Returns false if that is more than ss_latest remembers.
 */
static bool ss_rmid_try_snapshot(struct ss_rmid_line lines[SS_RMID_CAPACITY])
{
	unsigned long flags;
	u64 now_ns, begin_seq;
	u32 from, rmid;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	begin_seq = ss_fifo.seq;
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
	for (from = 1; from < ss_fifo.nr_rmids; from += SS_SNAPSHOT_PIECE)
		ss_rmid_copy_piece(from, lines);
	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	if (ss_fifo.seq - begin_seq > SS_NR_LATEST) {
		raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
		return false;
	}
	now_ns = ktime_get_mono_fast_ns();
	ss_rmid_fifo_clamp(&ss_fifo, &now_ns);
	while (begin_seq != ss_fifo.seq) {
		rmid = ss_latest[++begin_seq % SS_NR_LATEST];
		ss_rmid_copy_locked(rmid, &lines[rmid]);
	}
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
	for (rmid = 1; rmid < ss_fifo.nr_rmids; rmid++)
		ss_rmid_set_free_state(now_ns, &lines[rmid]);
	return true;
}

int ss_rmid_snapshot(struct ss_rmid_line lines[SS_RMID_CAPACITY])
{
	int tries;

	for (tries = 0; tries < SS_SNAPSHOT_TRIES; tries++) {
		if (ss_rmid_try_snapshot(lines))
			return 0;
		cond_resched();
	}
	return -EAGAIN;
}

void ss_rmid_get_stats(struct ss_rmid_stats *stats)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_rmid_lock, flags);
	*stats = ss_stats;
	raw_spin_unlock_irqrestore(&ss_rmid_lock, flags);
}
