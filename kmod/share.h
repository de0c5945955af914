/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who has to give an RMID back while they are short. Pure C, so that host tests compile the same file;
 * who holds what is gathered, and taken, by others.
 */
#ifndef SLOTSCOPE_SHARE_H
#define SLOTSCOPE_SHARE_H

#include "portable.h"

#include <slotscope/events.h>
#include <slotscope/rmid_fifo.h>

#define SS_SHARE_IDLE_NS 1000000000ull /* who has not run for so long may lose its RMID */
#define SS_SHARE_QUIET_NS 10000000ull /* nobody sooner after it ran: its bytes are read by then */
#define SS_SHARE_WANTED_NS 1000000000ull /* a wish is as old as that, or over */
#define SS_SHARE_MAX_LIMITS 16

/* A process with an RMID. */
struct ss_holder {
	__u64 ran_ns; /* when it ran last, to a tenth of a second */
	__u64 cgroup_id;
	__u32 uid;
	__u32 slot; /* for whoever gathers: which process it is */
	__u64 lease;
	bool runs; /* on some CPU, now */
	bool first; /* selected by somebody: to be served first */
	bool take; /* result: it has to give it back */
};

/* A process that ran without an RMID. */
struct ss_wanter {
	__u64 wanted_ns; /* 0: none */
	__u64 cgroup_id;
	__u32 uid;
	__u32 first;
};

static inline bool ss_wants(const struct ss_wanter *one, __u64 now_ns)
{
	return one->wanted_ns && (__s64)(now_ns - one->wanted_ns) < (__s64)SS_SHARE_WANTED_NS;
}

/* Who gets none for now. */
struct ss_limits {
	__u64 cgroup_ids[SS_SHARE_MAX_LIMITS];
	__u32 uids[SS_SHARE_MAX_LIMITS];
	__u32 nr_cgroup_ids;
	__u32 nr_uids;
	bool only_first;
};

/* Users, or cgroups, that were seen: with room, as it is a hash table. */
#define SS_SHARE_MAX_KEYS 1536 /* of holders and wanters */
#define SS_SHARE_KEY_SET 2048

struct ss_key_set {
	__u64 keys[SS_SHARE_KEY_SET];
	bool used[SS_SHARE_KEY_SET];
};

/* RMIDs that are kept free for whoever comes: fewer are a shortage. */
static inline __u32 ss_share_reserve(__u32 nr_rmids)
{
	return nr_rmids / 16 > 2 ? nr_rmids / 16 : 2;
}

/* A machine that is short of RMIDs. Of SS_SHARE_MAX_KEYS holders and wanters at most. */
struct ss_shortage {
	struct ss_holder *holders;
	const struct ss_wanter *wanters;
	struct ss_key_set *keys; /* for ss_share_choose() itself */
	__u32 nr_holders;
	__u32 nr_wanters;
	__u32 nr_rmids; /* RMID 0 included */
	__u32 nr_free; /* in limbo or not */
	__u64 now_ns;
};

/* Sets `take` of holders, and *limits. Returns how many have to give theirs back. */
__u32 ss_share_choose(const struct ss_shortage *all, struct ss_limits *limits);
bool ss_share_is_limited(const struct ss_limits *limits, __u32 uid, __u64 cgroup_id, bool first);

#endif /* SLOTSCOPE_SHARE_H */
