// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who has to give an RMID back while they are short.
 *
 * An RMID is worth something to who runs. When fewer than the reserve are free, those give theirs back
 * that have not run for longest. If that is not enough, because all of them run now and then, users and
 * cgroups that hold more than their share give back what is above it, again those first that have not
 * run for longest, and get none meanwhile: so a crowd of processes cannot keep RMIDs from others for
 * good. A share is what there is, divided by those who hold or want some. Processes that somebody
 * selected keep theirs, and get one from whoever has not just run.
 *
 * Twice the reserve has to be free before limits end: else who is limited would take the reserve at
 * once.
 */
#include "share.h"

/* Whose shares are looked at: users', or cgroups'. */
enum ss_share_by { SS_BY_UID, SS_BY_CGROUP, SS_NR_BY };

static __u64 ss_key(enum ss_share_by by, __u32 uid, __u64 cgroup_id)
{
	return by == SS_BY_CGROUP ? cgroup_id : uid;
}

static __u64 ss_holder_key(const struct ss_holder *one, enum ss_share_by by)
{
	return ss_key(by, one->uid, one->cgroup_id);
}

static __u64 ss_wanter_key(const struct ss_wanter *one, enum ss_share_by by)
{
	return ss_key(by, one->uid, one->cgroup_id);
}

static bool ss_is_quiet(const struct ss_holder *one, __u64 now_ns, __u64 for_ns)
{
	if (one->take || one->runs || one->first)
		return false;
	return (__s64)(now_ns - one->ran_ns) >= (__s64)for_ns;
}

/* Takes from the quietest, if it has been quiet for so long; with a key, of those that are of it. */
static bool ss_take_one(const struct ss_shortage *all, __u64 for_ns, enum ss_share_by by,
			const __u64 *key)
{
	struct ss_holder *quietest = NULL;
	__u32 i;

	for (i = 0; i < all->nr_holders; i++) {
		struct ss_holder *one = &all->holders[i];

		if (!ss_is_quiet(one, all->now_ns, for_ns))
			continue;
		if (key && ss_holder_key(one, by) != *key)
			continue;
		if (!quietest || (__s64)(one->ran_ns - quietest->ran_ns) < 0)
			quietest = one;
	}
	if (quietest)
		quietest->take = true;
	return quietest;
}

/* From whoever it is. */
static __u32 ss_take(const struct ss_shortage *all, __u32 nr_wanted, __u64 for_ns)
{
	__u32 nr_taken = 0;

	while (nr_taken < nr_wanted && ss_take_one(all, for_ns, SS_BY_UID, NULL))
		nr_taken++;
	return nr_taken;
}

/* False: it was seen before. */
static bool ss_see(struct ss_key_set *set, __u64 key)
{
	__u32 at = (__u32)((key * 0x9e3779b97f4a7c15ull) >> 32), i;

	for (i = 0; i < SS_SHARE_KEY_SET; i++, at++) {
		at %= SS_SHARE_KEY_SET;
		if (!set->used[at])
			break;
		if (set->keys[at] == key)
			return false;
	}
	at %= SS_SHARE_KEY_SET;
	set->used[at] = true;
	set->keys[at] = key;
	return true;
}

static void ss_see_nobody(struct ss_key_set *set)
{
	memset(set->used, 0, sizeof(set->used));
}

/* Users, or cgroups, that hold or want some. */
static __u32 ss_count_keys(const struct ss_shortage *all, enum ss_share_by by)
{
	__u32 nr_keys = 0, i;

	ss_see_nobody(all->keys);
	for (i = 0; i < all->nr_holders; i++)
		nr_keys += ss_see(all->keys, ss_holder_key(&all->holders[i], by));
	for (i = 0; i < all->nr_wanters; i++)
		nr_keys += ss_wants(&all->wanters[i], all->now_ns) &&
			   ss_see(all->keys, ss_wanter_key(&all->wanters[i], by));
	return nr_keys;
}

static void ss_limit(struct ss_limits *limits, enum ss_share_by by, __u64 key)
{
	if (by == SS_BY_CGROUP && limits->nr_cgroup_ids < SS_SHARE_MAX_LIMITS)
		limits->cgroup_ids[limits->nr_cgroup_ids++] = key;
	else if (by == SS_BY_UID && limits->nr_uids < SS_SHARE_MAX_LIMITS)
		limits->uids[limits->nr_uids++] = (__u32)key;
}

static __u32 ss_count_held(const struct ss_shortage *all, enum ss_share_by by, __u64 key)
{
	__u32 nr_held = 0, i;

	for (i = 0; i < all->nr_holders; i++)
		nr_held += !all->holders[i].take && ss_holder_key(&all->holders[i], by) == key;
	return nr_held;
}

/* From users, or cgroups, what they hold above their share. */
static __u32 ss_take_shares(const struct ss_shortage *all, __u32 nr_wanted, enum ss_share_by by,
			    struct ss_limits *limits)
{
	const __u32 nr_keys = ss_count_keys(all, by);
	__u32 share = 1, nr_taken = 0, nr_held, i;

	if (nr_keys < 2)
		return 0;
	if (all->nr_rmids > nr_keys)
		share = (all->nr_rmids - 1) / nr_keys;
	ss_see_nobody(all->keys);
	for (i = 0; i < all->nr_holders; i++) {
		const __u64 key = ss_holder_key(&all->holders[i], by);

		if (!ss_see(all->keys, key))
			continue; /* its turn has been */
		nr_held = ss_count_held(all, by, key);
		if (nr_held <= share)
			continue;
		ss_limit(limits, by, key);
		for (; nr_held > share && nr_taken < nr_wanted; nr_held--, nr_taken++)
			if (!ss_take_one(all, SS_SHARE_QUIET_NS, by, &key))
				break;
	}
	return nr_taken;
}

__u32 ss_share_choose(const struct ss_shortage *all, struct ss_limits *limits)
{
	const __u32 reserve = ss_share_reserve(all->nr_rmids);
	const __u32 nr_missing = all->nr_free < reserve ? reserve - all->nr_free : 0;
	__u32 nr_first = 0, nr_taken, i;
	enum ss_share_by by;

	memset(limits, 0, sizeof(*limits));
	for (i = 0; i < all->nr_holders; i++)
		all->holders[i].take = false;
	if (all->nr_free >= 2 * reserve)
		return 0;
	nr_taken = ss_take(all, nr_missing, SS_SHARE_IDLE_NS);
	for (by = SS_BY_UID; by < SS_NR_BY; by++)
		nr_taken += ss_take_shares(all, nr_missing - nr_taken, by, limits);
	for (i = 0; i < all->nr_wanters; i++)
		nr_first += all->wanters[i].first && ss_wants(&all->wanters[i], all->now_ns);
	if (nr_first <= all->nr_free)
		return nr_taken;
	/* A wish is a sample of wishes: where one that was selected finds none, there may be others. */
	if (nr_first < reserve)
		nr_first = reserve;
	limits->only_first = true;
	if (nr_first > all->nr_free + nr_taken)
		nr_taken += ss_take(all, nr_first - all->nr_free - nr_taken, SS_SHARE_QUIET_NS);
	return nr_taken;
}

bool ss_share_is_limited(const struct ss_limits *limits, __u32 uid, __u64 cgroup_id, bool first)
{
	__u32 i;

	if (first)
		return false;
	if (limits->only_first)
		return true;
	for (i = 0; i < limits->nr_uids; i++)
		if (limits->uids[i] == uid)
			return true;
	for (i = 0; i < limits->nr_cgroup_ids; i++)
		if (limits->cgroup_ids[i] == cgroup_id)
			return true;
	return false;
}
