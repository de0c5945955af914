/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The RMID free list: first freed, first reused, and nothing before its limbo is over.
 *
 * One implementation with three homes: the kernel module (under a raw spinlock), the module-less eBPF
 * source (under bpf_spin_lock, hence no calls, no pointers inside, bounded loops and masked indices)
 * and the host's tests. It does no locking and reads no clock.
 *
 * Invariants, between any two calls:
 *  1. Every RMID in [1, nr_rmids) is either live (live[rmid] == 1) or exactly once in the queue.
 *     RMID 0 is reserved and is neither.
 *  2. The queue is in the order of freed_at_ns, and last_ns is not before any of them.
 *  3. generation[rmid] is the number of times that rmid was handed out; its u32 wraps.
 *
 * Time: `now_ns` is in/out. It is raised to last_ns, so FIFO order is time order even where the clock
 * had to be read before the lock was taken (eBPF may not call a helper under bpf_spin_lock). Emit the
 * value that comes back.
 */
#ifndef SLOTSCOPE_RMID_FIFO_H
#define SLOTSCOPE_RMID_FIFO_H

#include <slotscope/events.h>

/* Everything must be inlined: the 6.1 verifier refuses a call while a bpf_spin_lock is held. */
#define SS_FIFO_INLINE static inline __attribute__((always_inline))

/*
 * Keeps the compiler from proving that a mask is redundant and dropping it: the 6.1 verifier loses the
 * range of a spilled register and then needs to see the mask.
 */
#define SS_FIFO_OPAQUE(x) __asm__ volatile("" : "+r"(x))

#define SS_RMID_CAPACITY 512u /* power of two */
#define SS_RMID_MASK (SS_RMID_CAPACITY - 1)

/*
 * max(2 ms, 2 slots). Two milliseconds keep every RMID with one owner per 1 ms slot, whatever part of
 * the slot it was freed in.
 */
#define SS_RMID_LIMBO_NS 2000000ull

enum ss_rmid_error {
	SS_RMID_NONE_FREE = -1, /* all are live: retry after a free */
	SS_RMID_IN_LIMBO = -2, /* some are free, the oldest not long enough: retry after the limbo */
	SS_RMID_NOT_LIVE = -3, /* free of an RMID that nobody has, or of 0, or out of range */
	SS_RMID_OVER_SHARE = -4, /* its user or cgroup has too many already, while they are short */
};

struct ss_rmid_entry {
	__u64 freed_at_ns; /* meaningless while generation[rmid] == 0: never used, never in limbo */
	__u32 rmid;
	__u32 zero;
};

struct ss_rmid_fifo {
	__u64 last_ns; /* largest time seen */
	__u64 seq; /* successful allocations and frees */
	__u64 limbo_ns;
	__u32 head; /* index of the oldest entry */
	__u32 count; /* entries in the queue */
	__u32 nr_rmids; /* RMIDs 1 .. nr_rmids-1 are managed */
	__u32 zero;
	struct ss_rmid_entry queue[SS_RMID_CAPACITY];
	__u32 generation[SS_RMID_CAPACITY];
	__u8 live[SS_RMID_CAPACITY];
};

/* All of 1 .. nr_rmids-1 free, in order. nr_rmids above SS_RMID_CAPACITY is cut to it. */
SS_FIFO_INLINE void ss_rmid_fifo_init(struct ss_rmid_fifo *fifo, __u32 nr_rmids, __u64 limbo_ns)
{
	__u32 i;

	if (nr_rmids > SS_RMID_CAPACITY)
		nr_rmids = SS_RMID_CAPACITY;
	fifo->last_ns = 0;
	fifo->seq = 0;
	fifo->limbo_ns = limbo_ns;
	fifo->head = 0;
	fifo->count = nr_rmids ? nr_rmids - 1 : 0;
	fifo->nr_rmids = nr_rmids;
	fifo->zero = 0;
	for (i = 0; i < SS_RMID_CAPACITY; i++) {
		fifo->queue[i].freed_at_ns = 0;
		fifo->queue[i].rmid = i + 1 < nr_rmids ? i + 1 : 0;
		fifo->queue[i].zero = 0;
		fifo->generation[i] = 0;
		fifo->live[i] = 0;
	}
}

SS_FIFO_INLINE void ss_rmid_fifo_clamp(struct ss_rmid_fifo *fifo, __u64 *now_ns)
{
	if (*now_ns < fifo->last_ns)
		*now_ns = fifo->last_ns;
	fifo->last_ns = *now_ns;
}

/* Takes the oldest free RMID. Returns it (> 0), or SS_RMID_NONE_FREE, or SS_RMID_IN_LIMBO. */
SS_FIFO_INLINE int ss_rmid_fifo_alloc(struct ss_rmid_fifo *fifo, __u64 *now_ns)
{
	struct ss_rmid_entry *oldest;
	__u32 rmid;

	ss_rmid_fifo_clamp(fifo, now_ns);
	if (!fifo->count)
		return SS_RMID_NONE_FREE;
	oldest = &fifo->queue[fifo->head & SS_RMID_MASK];
	rmid = oldest->rmid;
	SS_FIFO_OPAQUE(rmid);
	rmid &= SS_RMID_MASK;
	if (fifo->generation[rmid] && *now_ns - oldest->freed_at_ns < fifo->limbo_ns)
		return SS_RMID_IN_LIMBO;
	fifo->head = (fifo->head + 1) & SS_RMID_MASK;
	fifo->count--;
	fifo->live[rmid] = 1;
	fifo->generation[rmid]++;
	fifo->seq++;
	return (int)rmid;
}

/* Gives rmid back; its limbo starts at *now_ns. Returns 0 or SS_RMID_NOT_LIVE. */
SS_FIFO_INLINE int ss_rmid_fifo_free(struct ss_rmid_fifo *fifo, __u32 rmid, __u64 *now_ns)
{
	struct ss_rmid_entry *newest;

	ss_rmid_fifo_clamp(fifo, now_ns);
	if (rmid == 0 || rmid >= SS_RMID_CAPACITY)
		return SS_RMID_NOT_LIVE;
	SS_FIFO_OPAQUE(rmid);
	rmid &= SS_RMID_MASK;
	if (!fifo->live[rmid])
		return SS_RMID_NOT_LIVE;
	newest = &fifo->queue[(fifo->head + fifo->count) & SS_RMID_MASK];
	newest->rmid = rmid;
	newest->freed_at_ns = *now_ns;
	fifo->count++;
	fifo->live[rmid] = 0;
	fifo->seq++;
	return 0;
}

/*
 * May an allocation succeed now? A hint that needs no lock: its reads may be torn apart by a
 * concurrent change, and then it is wrong once. Never trust it instead of ss_rmid_fifo_alloc().
 */
SS_FIFO_INLINE int ss_rmid_fifo_may_alloc(const struct ss_rmid_fifo *fifo, __u64 now_ns)
{
	const volatile struct ss_rmid_fifo *peek = fifo;
	__u32 head = peek->head;
	__u32 rmid;

	if (!peek->count)
		return 0;
	SS_FIFO_OPAQUE(head);
	head &= SS_RMID_MASK;
	rmid = peek->queue[head].rmid;
	SS_FIFO_OPAQUE(rmid);
	rmid &= SS_RMID_MASK;
	return !peek->generation[rmid] ||
	       (__s64)(now_ns - peek->queue[head].freed_at_ns) >= (__s64)peek->limbo_ns;
}

SS_STATIC_ASSERT(sizeof(struct ss_rmid_entry) == 16, "ss_rmid_entry");
SS_STATIC_ASSERT(sizeof(struct ss_rmid_fifo) == 40 + 512 * (16 + 4 + 1), "ss_rmid_fifo");

#endif /* SLOTSCOPE_RMID_FIFO_H */
