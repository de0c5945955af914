/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * When a cgroup's quota was used up (CFS bandwidth), in the queue of one CPU, and what of a wait there
 * was due to that.
 *
 * While a group is throttled on a CPU none of its threads runs there, and what they wait is due to
 * nobody else. Since 6.18 each thread is throttled by itself, when it is on its way to user space, until
 * the whole group may run again: then only who was switched out throttled was.
 */
#ifndef SLOTSCOPE_QUOTA_H
#define SLOTSCOPE_QUOTA_H

#include <slotscope/interval.h>

#define SS_QUOTA_KEPT 16u /* power of two: one wait may last over many periods of its quota */
/*
 * A wait is as long as the scheduler's clock says, which is not slewed as CLOCK_MONOTONIC is. So the
 * time that a thread was throttled in may seem to begin a little behind its wait, and the one in front
 * of that, after which it has hardly run, to reach into it.
 */
#define SS_QUOTA_BEHIND_NS 1000000ull
#define SS_QUOTA_INTO_NS 50000ull

struct ss_quota_time {
	__u64 from_ns; /* 0: since before we looked */
	__u64 to_ns;
};

/* Of one group on one CPU. */
struct ss_quota {
	__u64 since_ns; /* it is throttled since then; 0: it is not, or since before we looked */
	__u64 sum_ns; /* the kernel's own sum when that began, where it is looked at */
	__u32 nr; /* times that it was, and is not any more */
	__u32 zero;
	struct ss_quota_time times[SS_QUOTA_KEPT]; /* the last of them: [nr % SS_QUOTA_KEPT] is next */
};

SS_INTERVAL_INLINE const struct ss_quota_time *ss_quota_at(const struct ss_quota *quota,
							    __u32 index)
{
	__asm__ volatile("" : "+r"(index)); /* the verifier wants to see the mask */
	return &quota->times[index & (SS_QUOTA_KEPT - 1)];
}

SS_INTERVAL_INLINE void ss_quota_begin(struct ss_quota *quota, __u64 now_ns)
{
	quota->since_ns = now_ns;
}

SS_INTERVAL_INLINE void ss_quota_end(struct ss_quota *quota, __u64 now_ns)
{
	struct ss_quota_time *time = (struct ss_quota_time *)ss_quota_at(quota, quota->nr);
	__u64 from_ns = quota->since_ns;

	if (!from_ns && quota->nr)
		from_ns = ss_quota_at(quota, quota->nr - 1)->to_ns;
	time->from_ns = from_ns;
	time->to_ns = now_ns;
	quota->since_ns = 0;
	quota->nr++;
}

/* A wait that is cut into pieces, from its end to its beginning, with one throttled time in each. */
struct ss_quota_cut {
	__u64 begin_ns; /* of the wait */
	__u64 at_ns; /* what is behind it has been told */
	__u32 by_thread; /* 1: throttled is who was at begin_ns */
	__u32 is_known; /* 1: in front of at_ns it was not throttled */
};

enum ss_quota_verdict {
	SS_QUOTA_NEXT, /* go on with the next one */
	SS_QUOTA_PIECE, /* tell the piece, and go on */
	SS_QUOTA_DONE, /* there is no more: at_ns and is_known say what is left */
};

/*
 * The time that is `back` in front of the last one, from 0 on. A piece ends at *end_ns and begins at
 * cut->at_ns, and of it *throttled was.
 */
SS_INTERVAL_INLINE enum ss_quota_verdict ss_quota_cut_step(const struct ss_quota *quota,
							    struct ss_quota_cut *cut, __u32 back,
							    __u64 *end_ns,
							    struct ss_quota_time *throttled)
{
	const __u32 index = quota->nr - 1 - back;
	struct ss_quota_time time;
	__u64 start_ns;

	cut->is_known = 1;
	if (back >= quota->nr)
		return SS_QUOTA_DONE;
	time = *ss_quota_at(quota, index);
	if (time.to_ns <= cut->begin_ns || cut->at_ns <= cut->begin_ns)
		return SS_QUOTA_DONE;
	start_ns = cut->begin_ns;
	if (back + 1 >= SS_QUOTA_KEPT) { /* whether it was throttled in front of it is not kept */
		cut->is_known = quota->nr <= SS_QUOTA_KEPT;
		if (!cut->is_known && start_ns < time.from_ns)
			start_ns = time.from_ns;
	} else if (back + 1 < quota->nr) {
		const __u64 before_ns = ss_quota_at(quota, index - 1)->to_ns;

		if (cut->by_thread && before_ns > cut->begin_ns + SS_QUOTA_INTO_NS)
			return SS_QUOTA_NEXT; /* it was throttled earlier, and only once */
		if (!cut->by_thread && start_ns < before_ns)
			start_ns = before_ns;
	}
	if (cut->by_thread) {
		if (time.from_ns > cut->begin_ns + SS_QUOTA_BEHIND_NS)
			return SS_QUOTA_DONE;
		time.from_ns = start_ns;
	}
	if (time.to_ns > cut->at_ns)
		time.to_ns = cut->at_ns;
	if (time.from_ns < start_ns)
		time.from_ns = start_ns;
	if (time.from_ns >= time.to_ns)
		return SS_QUOTA_NEXT; /* it began behind */
	*throttled = time;
	*end_ns = cut->at_ns;
	cut->at_ns = start_ns;
	return SS_QUOTA_PIECE;
}

#endif /* SLOTSCOPE_QUOTA_H */
