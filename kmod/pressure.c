// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes RMIDs back while they are short: share.c says from whom. A worker, never a probe, and most of
 * the time it only looks at a number.
 *
 * Who runs at that moment must not lose its RMID to somebody else. So an RMID is first taken out of the
 * process table, where a switch-in would find it; when a grace period is over, all switches that may
 * have found it before are over, too, and the CPUs say whether somebody still runs with it. If so, its
 * process gets it back; meanwhile its other threads ran without. If not, it is freed, and nobody can
 * have it but by the allocator, after its limbo.
 */
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "slotscope.h"

#define SS_LOOK_PERIOD (HZ / 2)
#define SS_SHORT_PERIOD (HZ / 20) /* while there are few */
#define SS_MAX_WANTERS (SS_SHARE_MAX_KEYS - SS_RMID_CAPACITY)

/* All of the worker. */
static struct ss_pressure {
	struct ss_holder holders[SS_RMID_CAPACITY];
	struct ss_wanter wanters[SS_MAX_WANTERS];
	struct ss_key_set keys;
	struct ss_limits limits;
	u64 nr_passes; /* in which somebody had to give one back */
	u64 nr_kept; /* RMIDs that their process got back, because it ran */
} *ss_pressure;

static void ss_pressure_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(ss_pressure_work, ss_pressure_look);

static bool ss_runs_anywhere(u64 lease)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (ss_cpu_lease(cpu) == lease)
			return true;
	return false;
}

/* What CPUs run is asked of each once: it is in their caches, and they write to it. */
static void ss_mark_running(struct ss_holder *holders, u32 nr_holders)
{
	unsigned int cpu;
	u32 i;

	for (i = 0; i < nr_holders; i++)
		holders[i].runs = false;
	for_each_possible_cpu(cpu) {
		const u64 lease = ss_cpu_lease(cpu);

		for (i = 0; i < nr_holders; i++)
			holders[i].runs |= holders[i].lease == lease;
	}
}

static void ss_take_back(struct ss_holder *holders, u32 nr_holders)
{
	u32 i;

	for (i = 0; i < nr_holders; i++)
		holders[i].take = holders[i].take && ss_process_suspend_lease(&holders[i]);
	/* Switches run with interrupts off: none that began before goes on after this. */
	synchronize_rcu();
	for (i = 0; i < nr_holders; i++) {
		if (!holders[i].take || !ss_runs_anywhere(holders[i].lease))
			continue;
		ss_process_end_suspension(&holders[i], true);
		holders[i].take = false;
		ss_pressure->nr_kept++;
	}
	/* And none that was about to program another RMID in its place. */
	synchronize_rcu();
	for (i = 0; i < nr_holders; i++)
		if (holders[i].take)
			ss_process_end_suspension(&holders[i], false);
	ss_pressure->nr_passes++;
}

static void ss_relieve(struct ss_pressure *now)
{
	struct ss_shortage all = {
		.holders = now->holders,
		.wanters = now->wanters,
		.keys = &now->keys,
		.nr_holders = ss_process_holders(now->holders),
		.nr_wanters = ss_process_wanters(now->wanters, SS_MAX_WANTERS),
		.nr_rmids = ss_rmid_count(),
		.nr_free = ss_rmid_count_free(),
		.now_ns = ktime_get_mono_fast_ns(),
	};
	u32 nr_taken;

	ss_mark_running(now->holders, all.nr_holders);
	nr_taken = ss_share_choose(&all, &now->limits);
	ss_process_set_limits(&now->limits);
	if (nr_taken)
		ss_take_back(now->holders, all.nr_holders);
}

static void ss_pressure_look(struct work_struct *work)
{
	struct ss_pressure *now = ss_pressure;
	const bool is_short = ss_rmid_count_free() < 2 * ss_share_reserve(ss_rmid_count());

	if (is_short || now->limits.nr_uids || now->limits.nr_cgroup_ids || now->limits.only_first)
		ss_relieve(now);
	schedule_delayed_work(&ss_pressure_work, is_short ? SS_SHORT_PERIOD : SS_LOOK_PERIOD);
}

int ss_pressure_init(void)
{
	ss_pressure = ss_fault_here() ? NULL : vzalloc(sizeof(*ss_pressure));
	if (!ss_pressure)
		return -ENOMEM;
	schedule_delayed_work(&ss_pressure_work, SS_LOOK_PERIOD);
	return 0;
}

void ss_pressure_exit(void)
{
	cancel_delayed_work_sync(&ss_pressure_work);
	vfree(ss_pressure);
}

void ss_pressure_show(struct seq_file *m)
{
	seq_printf(m, "rmid_reserve: %u\n", ss_share_reserve(ss_rmid_count()));
	seq_printf(m, "rmid_shortages: %llu\n", READ_ONCE(ss_pressure->nr_passes));
	seq_printf(m, "rmid_kept_by_running: %llu\n", READ_ONCE(ss_pressure->nr_kept));
}
