// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every process of the machine, from birth to its last thread's final switch-out.
 *
 * The key is the signal_struct pointer: threads share it, exec keeps it, and it is not used again
 * before the last thread's final switch-out. A tgid is no key: it can be reborn before that.
 *
 * The thread count is our own. signal->live is 0 at several dead switches of one group, up to tens of
 * milliseconds apart, because it falls early in do_exit(); signal->nr_threads can be anything. An entry
 * goes away when count <= 0 and live == 0, which is checked at each dead switch of the group. That of
 * a process that had too many threads to count when we came goes away when a worker has found twice, ten
 * seconds apart, that all of them are over: a thread may run for long after live == 0, in exit_mm().
 *
 * Structure: buckets of eight keys, one cache line each, probed linearly over SS_PROBE_BUCKETS buckets;
 * no tombstones, since a search always looks at all of them. A search at a process switch-in takes no
 * lock: the thread that is switched in keeps its own entry alive. Everything that changes the table
 * takes ss_process_lock.
 *
 * Lock order: ss_process_lock, then the one in rmid.c. No tracepoint is emitted under either.
 */
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/ktime.h>
#include <linux/vmalloc.h>

#include "slotscope.h"
#include "trace.h"

#define SS_BUCKET_KEYS 8
#define SS_PROBE_BUCKETS 4
#define SS_PROBE_SLOTS (SS_BUCKET_KEYS * SS_PROBE_BUCKETS)
#define SS_DUMP_BATCH 256 /* messages between two pauses of a state dump */

#define SS_MAX_ZOMBIES 64 /* threads that are looked at under the lock */
#define SS_TABLE_PIECE 512 /* slots that are looked at between two pauses */
#define SS_RAN_STEP_NS 100000000ull /* ran_ns is not written more often: CPUs share it */

struct ss_process {
	u64 lease; /* generation << 32 | rmid, 0: none. Read without the lock at switch-in */
	u64 start_time_ns;
	u64 ran_ns; /* when it ran last, SS_RAN_STEP_NS too old at most. Written without the lock */
	s32 tgid;
	s32 ppid;
	u32 flags; /* SS_TASK_KTHREAD, SS_PROCESS_*. Read without the lock at switch-in */
	u32 first; /* bits of selectors that want it to be served first */
	u64 cgroup_id; /* this and uid: now and then written without the lock by who runs */
	u32 uid;
	int nr_threads; /* births seen minus final switch-outs seen */
	u64 renames_ns; /* since when nr_renames counts */
	u32 nr_renames;
	char comm[SS_COMM_LEN];
};

/* In ss_process.flags only. Its RMID is being taken back, and it gets no other one meanwhile. */
#define SS_PROCESS_SUSPENDED (1u << 31)
/* nr_threads says nothing: it had too many of them when it was found. */
#define SS_PROCESS_UNCOUNTED (1u << 30)
/* And the last time that somebody looked all of them were over. */
#define SS_PROCESS_OVER (1u << 29)

/* Who ran without an RMID lately, a sample: one per residue of uids, and of cgroups. */
#define SS_NR_WANTERS 8
struct ss_wanters {
	struct ss_wanter by_uid[SS_NR_WANTERS];
	struct ss_wanter by_cgroup[SS_NR_WANTERS];
};

static DEFINE_RAW_SPINLOCK(ss_process_lock);
/* A key is published after its entry is written (smp_store_release) and read with smp_load_acquire. */
static struct signal_struct **ss_keys;
static_assert(SS_BUCKET_KEYS * sizeof(*ss_keys) == 64, "a bucket is a cache line");
static struct ss_process *ss_entries; /* written under ss_process_lock */
static u32 ss_nr_slots; /* power of two */
static struct ss_process_stats ss_stats; /* under ss_process_lock */
static bool ss_complete; /* the walk at load is over; under ss_process_lock */
static struct ss_limits ss_limits; /* under ss_process_lock */
static u32 ss_slot_of_rmid[SS_RMID_CAPACITY]; /* whose it is; under ss_process_lock */
static u32 ss_nr_uncounted; /* SS_PROCESS_UNCOUNTED; under ss_process_lock */
static u32 ss_selectors; /* bits that are in use; under ss_process_lock */
static DEFINE_PER_CPU(struct ss_wanters, ss_wanters); /* written by its CPU, torn reads do no harm */

/* Rather no table than somebody killed for its memory: it can be hundreds of megabytes. */
static void *ss_process_alloc(size_t size)
{
	if (ss_fault_here())
		return NULL;
	return __vmalloc(array_size(ss_nr_slots, size), GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL);
}

int ss_process_init(u32 capacity)
{
	ss_nr_slots = roundup_pow_of_two(max_t(u32, capacity, SS_PROBE_SLOTS)) * 2;
	ss_keys = ss_process_alloc(sizeof(*ss_keys));
	ss_entries = ss_process_alloc(sizeof(*ss_entries));
	if (!ss_keys || !ss_entries) {
		ss_process_exit();
		return -ENOMEM;
	}
	return 0;
}

void ss_process_exit(void)
{
	vfree(ss_entries);
	vfree(ss_keys);
	ss_entries = NULL;
	ss_keys = NULL;
}

static u32 ss_slot_of(const struct signal_struct *signal, u32 step)
{
	u32 bucket = hash_ptr(signal, 32) & (ss_nr_slots / SS_BUCKET_KEYS - 1);

	return (bucket * SS_BUCKET_KEYS + step) & (ss_nr_slots - 1);
}

/* Returns the slot of `signal`, or -1. */
static int ss_process_find(const struct signal_struct *signal)
{
	u32 step;

	for (step = 0; step < SS_PROBE_SLOTS; step++) {
		u32 slot = ss_slot_of(signal, step);

		/* Pairs with the release in ss_process_insert(): a key seen means its entry is seen. */
		if (smp_load_acquire(&ss_keys[slot]) == signal)
			return slot;
	}
	return -1;
}

/* Of cgroup v2; on hosts where the cpu controller is still one of v1, its cgroup there. */
static u64 ss_cgroup_id_of(struct task_struct *p)
{
	struct cgroup *cgroup;
	u64 id;

	rcu_read_lock();
	cgroup = task_dfl_cgroup(p);
#ifdef CONFIG_CGROUP_SCHED
	if (!cgroup_subsys_on_dfl(cpu_cgrp_subsys))
		cgroup = task_css_check(p, cpu_cgrp_id, true)->cgroup;
#endif
	id = cgroup_id(cgroup);
	rcu_read_unlock();
	return id;
}

/* As the initial user namespace numbers it: with one of its own, a user is still the same one. */
static u32 ss_uid_of(struct task_struct *p)
{
	u32 uid;

	rcu_read_lock();
	uid = from_kuid(&init_user_ns, task_uid(p));
	rcu_read_unlock();
	return uid;
}

static s32 ss_parent_of(struct task_struct *p)
{
	s32 ppid;

	rcu_read_lock();
	ppid = rcu_dereference(p->real_parent)->tgid;
	rcu_read_unlock();
	return ppid;
}

static u32 ss_lease_rmid(u64 lease)
{
	return (u32)lease;
}

static u32 ss_lease_generation(u64 lease)
{
	return (u32)(lease >> 32);
}

/* Children are served first where their parents are. */
static u32 ss_parents_selectors(struct task_struct *leader)
{
	int slot;

	lockdep_assert_held(&ss_process_lock);
	rcu_read_lock();
	slot = ss_process_find(rcu_dereference(leader->real_parent)->signal);
	rcu_read_unlock();
	return slot < 0 ? 0 : ss_entries[slot].first;
}

/* REQUIRES: `leader` is in no slot yet. Returns its slot, or -1 if there is no room. */
static int ss_process_insert(struct task_struct *leader)
{
	struct ss_process *entry;
	u32 step, slot;

	lockdep_assert_held(&ss_process_lock);
	for (step = 0; step < SS_PROBE_SLOTS; step++) {
		slot = ss_slot_of(leader->signal, step);
		if (!ss_keys[slot])
			break;
	}
	if (step == SS_PROBE_SLOTS)
		return -1;
	entry = &ss_entries[slot];
	WRITE_ONCE(entry->lease, 0);
	entry->start_time_ns = leader->start_time;
	entry->ran_ns = ktime_get_mono_fast_ns();
	entry->cgroup_id = ss_cgroup_id_of(leader);
	entry->uid = ss_uid_of(leader);
	entry->first = ss_selectors ? ss_parents_selectors(leader) : 0;
	entry->tgid = leader->tgid;
	entry->ppid = ss_parent_of(leader);
	entry->nr_threads = 0;
	entry->nr_renames = 0;
	WRITE_ONCE(entry->flags, leader->flags & PF_KTHREAD ? SS_TASK_KTHREAD : 0);
	strscpy_pad(entry->comm, leader->comm, sizeof(entry->comm));
	ss_stats.nr_processes++;
	/* Pairs with the acquire in ss_process_find(). */
	smp_store_release(&ss_keys[slot], leader->signal);
	return slot;
}

static void ss_process_fill_meta(const struct ss_process *entry, u32 cause, struct ss_task_meta *meta)
{
	memset(meta, 0, sizeof(*meta));
	meta->hdr.type = SS_TASK_META;
	meta->hdr.size = sizeof(*meta);
	meta->start_time_ns = entry->start_time_ns;
	meta->cgroup_id = entry->cgroup_id;
	meta->tgid = entry->tgid;
	meta->ppid = entry->ppid;
	meta->rmid = ss_lease_rmid(entry->lease);
	meta->generation = ss_lease_generation(entry->lease);
	meta->flags = (entry->flags & SS_TASK_KTHREAD) | cause;
	memcpy(meta->comm, entry->comm, sizeof(meta->comm));
	meta->hdr.ts_ns = ktime_get_mono_fast_ns();
}

static void ss_emit_meta(struct ss_task_meta *meta)
{
	meta->hdr.cpu = raw_smp_processor_id();
	trace_ss_task_meta(meta);
}

static void ss_emit_rmid_event(struct ss_rmid_event *event)
{
	event->hdr.cpu = raw_smp_processor_id();
	switch (event->hdr.type) {
	case SS_RMID_ALLOC:
		trace_ss_rmid_alloc(event);
		break;
	case SS_RMID_FREE:
		trace_ss_rmid_free(event);
		break;
	case SS_RMID_ALLOC_FAILED:
		trace_ss_rmid_alloc_failed(event);
		break;
	case SS_RMID_EXISTING:
		trace_ss_rmid_existing(event);
		break;
	}
}

static void ss_process_set_lease(struct ss_process *entry, u64 lease)
{
	lockdep_assert_held(&ss_process_lock);
	ss_slot_of_rmid[ss_lease_rmid(lease)] = entry - ss_entries;
	WRITE_ONCE(entry->lease, lease);
}

static bool ss_process_is_limited(const struct ss_process *entry)
{
	lockdep_assert_held(&ss_process_lock);
	return ss_share_is_limited(&ss_limits, entry->uid, entry->cgroup_id, entry->first);
}

/* A birth takes its RMID under both locks, so that nobody sees the entry half made. */
static void ss_process_lease(struct ss_process *entry, struct ss_rmid_event *event)
{
	lockdep_assert_held(&ss_process_lock);
	if (ss_process_is_limited(entry))
		ss_rmid_refuse(entry->tgid, entry->start_time_ns, event);
	else if (ss_rmid_alloc(entry->tgid, entry->start_time_ns, entry->comm, event) > 0)
		ss_process_set_lease(entry, (u64)event->generation << 32 | event->rmid);
}

static void ss_process_end(int slot, struct ss_rmid_event *event)
{
	struct ss_process *entry = &ss_entries[slot];

	lockdep_assert_held(&ss_process_lock);
	ss_nr_uncounted -= !!(entry->flags & SS_PROCESS_UNCOUNTED);
	if (entry->lease)
		ss_rmid_free(ss_lease_rmid(entry->lease), SS_RMID_ENDED, event);
	WRITE_ONCE(ss_keys[slot], NULL);
	ss_stats.nr_processes--;
}

/* And says so; of one without an RMID by `meta`. */
static void ss_process_end_told(int slot, struct ss_rmid_event *event, struct ss_task_meta *meta)
{
	const struct ss_process *entry = &ss_entries[slot];

	if (!entry->lease) {
		ss_process_fill_meta(entry, SS_TASK_EXIT, meta);
		memset(meta->comm, 0, sizeof(meta->comm));
	}
	ss_process_end(slot, event);
}

void ss_process_thread_born(struct task_struct *p)
{
	struct ss_rmid_event event = {}, stale = {};
	struct ss_task_meta meta = {};
	int slot;

	lockdep_assert_irqs_disabled();
	raw_spin_lock(&ss_process_lock);
	slot = ss_process_find(p->signal);
	if (slot >= 0 && thread_group_leader(p)) {
		/* A new process cannot be in the table: somebody's end was missed, or is not seen. */
		ss_stats.nr_stale += !(ss_entries[slot].flags & SS_PROCESS_UNCOUNTED);
		ss_process_end(slot, &stale);
		slot = -1;
	}
	if (slot >= 0) {
		ss_entries[slot].nr_threads++;
	} else if (thread_group_leader(p)) {
		slot = ss_process_insert(p);
		if (slot < 0)
			ss_stats.nr_untracked++;
		if (slot >= 0) {
			ss_entries[slot].nr_threads = 1;
			if (!(p->flags & PF_KTHREAD))
				ss_process_lease(&ss_entries[slot], &event);
			ss_process_fill_meta(&ss_entries[slot], SS_TASK_BIRTH, &meta);
		}
	}
	raw_spin_unlock(&ss_process_lock);

	if (stale.hdr.type)
		ss_emit_rmid_event(&stale);
	if (event.hdr.type)
		ss_emit_rmid_event(&event);
	if (meta.hdr.type)
		ss_emit_meta(&meta);
}

void ss_process_thread_dead(struct task_struct *prev)
{
	struct ss_rmid_event event = {};
	struct ss_task_meta meta = {};
	struct ss_process *entry;
	int slot;

	lockdep_assert_irqs_disabled();
	/* prev still holds its signal_struct: it is put after this switch. prev->sighand may be NULL. */
	raw_spin_lock(&ss_process_lock);
	slot = ss_process_find(prev->signal);
	if (slot < 0) {
		ss_stats.nr_unknown_dead += ss_complete;
		goto out;
	}
	entry = &ss_entries[slot];
	if (entry->flags & SS_PROCESS_UNCOUNTED)
		goto out;
	entry->nr_threads--;
	if (entry->nr_threads > 0 || atomic_read(&prev->signal->live))
		goto out;
	ss_process_end_told(slot, &event, &meta);
out:
	raw_spin_unlock(&ss_process_lock);
	if (event.hdr.type)
		ss_emit_rmid_event(&event);
	if (meta.hdr.type)
		ss_emit_meta(&meta);
}

/* Returns its slot, or -1: there is no room. */
static int ss_process_find_or_insert(struct task_struct *p)
{
	struct ss_rmid_event event;
	int slot;

	lockdep_assert_held(&ss_process_lock);
	slot = ss_process_find(p->signal);
	if (slot >= 0)
		return slot;
	slot = ss_process_insert(p->group_leader);
	if (slot >= 0 && !(p->flags & PF_KTHREAD))
		ss_process_lease(&ss_entries[slot], &event);
	return slot;
}

bool ss_process_thread_existing(struct task_struct *p)
{
	int slot;

	/* stop_machine: nobody else runs, but the lock rules are the same for lockdep. */
	raw_spin_lock(&ss_process_lock);
	slot = ss_process_find_or_insert(p);
	if (slot >= 0)
		ss_entries[slot].nr_threads++;
	raw_spin_unlock(&ss_process_lock);
	return slot >= 0;
}

bool ss_process_existing(struct task_struct *leader)
{
	struct ss_process *entry;
	int slot;

	raw_spin_lock(&ss_process_lock);
	slot = ss_process_find_or_insert(leader);
	if (slot >= 0) {
		entry = &ss_entries[slot];
		WRITE_ONCE(entry->flags, entry->flags | SS_PROCESS_UNCOUNTED);
		ss_nr_uncounted++;
	}
	raw_spin_unlock(&ss_process_lock);
	return slot >= 0;
}

/*
 * None of its threads will run for longer than the end of do_exit() takes. Of one that was reaped the
 * signal_struct may be another process's by now, and is not looked at. While a tracer keeps more zombies
 * than SS_MAX_ZOMBIES it is not over.
 */
static bool ss_process_is_over(int slot)
{
	struct task_struct *leader, *p;
	bool over = true;
	u32 nr = 0;

	lockdep_assert_held(&ss_process_lock);
	rcu_read_lock();
	leader = pid_task(find_pid_ns(ss_entries[slot].tgid, &init_pid_ns), PIDTYPE_TGID);
	if (leader && leader->signal == ss_keys[slot]) {
		over = !atomic_read(&leader->signal->live);
		for_each_thread(leader, p) {
			over = over && READ_ONCE(p->exit_state) && ++nr < SS_MAX_ZOMBIES;
			if (!over)
				break;
		}
	}
	rcu_read_unlock();
	return over;
}

void ss_process_end_uncounted(void)
{
	unsigned long flags;
	u32 slot;

	for (slot = 0; slot < ss_nr_slots && READ_ONCE(ss_nr_uncounted); slot++) {
		struct ss_process *entry = &ss_entries[slot];
		struct ss_rmid_event event = {};
		struct ss_task_meta meta = {};

		cond_resched();
		if (!READ_ONCE(ss_keys[slot]) || !(READ_ONCE(entry->flags) & SS_PROCESS_UNCOUNTED))
			continue;
		raw_spin_lock_irqsave(&ss_process_lock, flags);
		if (!ss_keys[slot] || !(entry->flags & SS_PROCESS_UNCOUNTED)) {
			/* Somebody else's by now. */
		} else if (!ss_process_is_over(slot)) {
			WRITE_ONCE(entry->flags, entry->flags & ~SS_PROCESS_OVER);
		} else if (entry->flags & SS_PROCESS_OVER) {
			ss_process_end_told(slot, &event, &meta);
		} else {
			WRITE_ONCE(entry->flags, entry->flags | SS_PROCESS_OVER);
		}
		raw_spin_unlock(&ss_process_lock);
		if (event.hdr.type)
			ss_emit_rmid_event(&event);
		if (meta.hdr.type)
			ss_emit_meta(&meta);
		local_irq_restore(flags);
	}
}

bool ss_process_is_known(struct task_struct *p)
{
	return ss_process_find(p->signal) >= 0;
}

void ss_process_set_complete(u32 nr_untracked)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	ss_complete = true;
	ss_stats.nr_untracked += nr_untracked;
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
}

static bool ss_process_may_tell_rename(struct ss_process *entry)
{
	const u64 now_ns = ktime_get_mono_fast_ns();

	lockdep_assert_held(&ss_process_lock);
	if (now_ns - entry->renames_ns > SS_RENAMES_PERIOD_NS) {
		entry->renames_ns = now_ns;
		entry->nr_renames = 0;
	}
	return entry->nr_renames++ < SS_RENAMES_MAX;
}

/* Interrupts are off. Only who runs has its name held: its CPU sends it at the next tick or switch. */
static u32 ss_process_hold_name(struct task_struct *p)
{
	return p->signal == current->signal ? ss_cpu_hold_name() : 1;
}

void ss_process_renamed(struct task_struct *p, const char *comm, u32 cause)
{
	struct ss_task_meta meta = {};
	struct ss_process *entry;
	unsigned long flags;
	int slot;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	slot = ss_process_find(p->signal);
	if (slot >= 0) {
		entry = &ss_entries[slot];
		strscpy_pad(entry->comm, comm, sizeof(entry->comm));
		entry->cgroup_id = ss_cgroup_id_of(p);
		entry->uid = ss_uid_of(p);
		if (entry->lease)
			ss_rmid_rename(ss_lease_rmid(entry->lease),
				       ss_lease_generation(entry->lease), entry->comm);
		if (cause != SS_TASK_RENAME || ss_process_may_tell_rename(entry))
			ss_process_fill_meta(entry, cause, &meta);
		else
			ss_stats.nr_untold_renames += ss_process_hold_name(p);
	}
	raw_spin_unlock(&ss_process_lock);
	if (meta.hdr.type)
		ss_emit_meta(&meta);
	local_irq_restore(flags);
}

/* The relay tells where it is; a dump, and its share of the RMIDs, go by ours. */
void ss_process_moved(struct task_struct *p)
{
	unsigned long flags;
	int slot;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	slot = ss_process_find(p->signal);
	if (slot >= 0)
		WRITE_ONCE(ss_entries[slot].cgroup_id, ss_cgroup_id_of(p));
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
}

void ss_process_tell_name(struct task_struct *p)
{
	struct ss_task_meta meta = {};
	int slot;

	lockdep_assert_irqs_disabled();
	raw_spin_lock(&ss_process_lock);
	slot = ss_process_find(p->signal);
	if (slot >= 0)
		ss_process_fill_meta(&ss_entries[slot], SS_TASK_RENAME, &meta);
	raw_spin_unlock(&ss_process_lock);
	if (meta.hdr.type)
		ss_emit_meta(&meta);
}

static bool ss_process_touch(struct ss_process *entry, u64 now_ns)
{
	if ((s64)(now_ns - READ_ONCE(entry->ran_ns)) <= (s64)SS_RAN_STEP_NS)
		return false;
	WRITE_ONCE(entry->ran_ns, now_ns);
	return true;
}

/* Nothing says so when a process becomes another user's. */
static void ss_process_refresh(struct ss_process *entry, struct task_struct *p)
{
	WRITE_ONCE(entry->uid, ss_uid_of(p));
	WRITE_ONCE(entry->cgroup_id, ss_cgroup_id_of(p));
}

/* The process has no RMID: perhaps there is one now. Never waits for a lock. */
static void ss_process_retry_lease(struct ss_process *entry, struct task_struct *p, int slot)
{
	struct ss_rmid_event event = {};

	if (!ss_rmid_may_alloc() || !raw_spin_trylock(&ss_process_lock))
		return;
	if (ss_keys[slot] == p->signal && !entry->lease && !(entry->flags & SS_PROCESS_SUSPENDED)) {
		ss_process_refresh(entry, p);
		if (!ss_process_is_limited(entry) &&
		    ss_rmid_try_alloc(entry->tgid, entry->start_time_ns, entry->comm, &event) > 0)
			ss_process_set_lease(entry, (u64)event.generation << 32 | event.rmid);
		else
			event.hdr.type = 0;
	}
	raw_spin_unlock(&ss_process_lock);
	if (event.hdr.type)
		ss_emit_rmid_event(&event);
}

/* It runs without an RMID. */
static void ss_process_note_wanter(const struct ss_process *entry, u64 now_ns)
{
	const struct ss_wanter wanter = { now_ns, entry->cgroup_id, entry->uid, !!entry->first };
	struct ss_wanters *wanters = this_cpu_ptr(&ss_wanters);

	wanters->by_uid[wanter.uid % SS_NR_WANTERS] = wanter;
	wanters->by_cgroup[wanter.cgroup_id % SS_NR_WANTERS] = wanter;
}

bool ss_process_identify(struct task_struct *p, struct ss_process_id *id)
{
	const struct ss_process *entry;
	const int slot = ss_process_find(p->signal);
	u64 lease;

	if (slot < 0)
		return false;
	entry = &ss_entries[slot];
	lease = READ_ONCE(entry->lease);
	id->start_time_ns = entry->start_time_ns;
	id->tgid = entry->tgid;
	id->ppid = entry->ppid;
	id->rmid = ss_lease_rmid(lease);
	id->generation = ss_lease_generation(lease);
	id->flags = entry->flags & SS_TASK_KTHREAD;
	id->slot = slot;
	return true;
}

bool ss_process_switch_in(struct task_struct *p, struct ss_process_id *id, u64 now_ns)
{
	struct ss_process *entry;
	u64 lease;

	if (!ss_process_identify(p, id)) {
		memset(id, 0, sizeof(*id));
		id->tgid = p->tgid;
		id->flags = p->flags & PF_KTHREAD ? SS_TASK_KTHREAD : 0;
		id->slot = SS_NO_SLOT;
		return false;
	}
	entry = &ss_entries[id->slot];
	if (ss_process_touch(entry, now_ns))
		ss_process_refresh(entry, p);
	if (unlikely(!id->rmid) && !(entry->flags & SS_TASK_KTHREAD)) {
		ss_process_retry_lease(entry, p, id->slot);
		lease = READ_ONCE(entry->lease);
		if (!lease)
			ss_process_note_wanter(entry, now_ns);
		id->rmid = ss_lease_rmid(lease);
		id->generation = ss_lease_generation(lease);
	}
	return true;
}

void ss_process_ran(u32 slot, u64 now_ns)
{
	if (slot != SS_NO_SLOT)
		ss_process_touch(&ss_entries[slot], now_ns);
}

/* ---- Taking RMIDs back (pressure.c). Process context, pieces of bounded length under the lock. */

u32 ss_process_holders(struct ss_holder holders[SS_RMID_CAPACITY])
{
	u32 rmid, nr = 0;

	for (rmid = 1; rmid < ss_rmid_count(); rmid++) {
		struct ss_holder *holder = &holders[nr];
		const struct ss_process *entry;
		unsigned long flags;

		raw_spin_lock_irqsave(&ss_process_lock, flags);
		entry = &ss_entries[ss_slot_of_rmid[rmid]];
		if (ss_keys[ss_slot_of_rmid[rmid]] && ss_lease_rmid(entry->lease) == rmid) {
			holder->lease = entry->lease;
			holder->ran_ns = READ_ONCE(entry->ran_ns);
			holder->cgroup_id = entry->cgroup_id;
			holder->uid = entry->uid;
			holder->first = entry->first;
			holder->slot = ss_slot_of_rmid[rmid];
			nr++;
		}
		raw_spin_unlock_irqrestore(&ss_process_lock, flags);
	}
	return nr;
}

u32 ss_process_wanters(struct ss_wanter *wanters, u32 max)
{
	/* Old ones would leave no room for those of later CPUs. */
	const u64 now_ns = ktime_get_mono_fast_ns();
	unsigned int cpu;
	u32 i, nr = 0;

	for_each_possible_cpu(cpu) {
		const struct ss_wanters *from = per_cpu_ptr(&ss_wanters, cpu);

		for (i = 0; i < SS_NR_WANTERS && nr + 2 <= max; i++) {
			wanters[nr] = from->by_uid[i];
			nr += ss_wants(&wanters[nr], now_ns);
			wanters[nr] = from->by_cgroup[i];
			nr += ss_wants(&wanters[nr], now_ns);
		}
	}
	return nr;
}

void ss_process_set_limits(const struct ss_limits *limits)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	ss_limits = *limits;
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
}

bool ss_process_suspend_lease(const struct ss_holder *holder)
{
	struct ss_process *entry = &ss_entries[holder->slot];
	unsigned long flags;
	bool is_his;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	/* A lease is never given twice, so it names the process, too. */
	is_his = ss_keys[holder->slot] && entry->lease == holder->lease;
	if (is_his) {
		WRITE_ONCE(entry->flags, entry->flags | SS_PROCESS_SUSPENDED);
		WRITE_ONCE(entry->lease, 0);
	}
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
	return is_his;
}

void ss_process_end_suspension(const struct ss_holder *holder, bool runs)
{
	struct ss_process *entry = &ss_entries[holder->slot];
	struct ss_rmid_event event = {};
	unsigned long flags;
	bool lives;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	/* If it has ended meanwhile, its successor in that slot is not suspended. */
	lives = ss_keys[holder->slot] && entry->flags & SS_PROCESS_SUSPENDED;
	if (lives)
		WRITE_ONCE(entry->flags, entry->flags & ~SS_PROCESS_SUSPENDED);
	if (lives && runs)
		ss_process_set_lease(entry, holder->lease);
	else
		ss_rmid_free(ss_lease_rmid(holder->lease), SS_RMID_TAKEN_BACK, &event);
	raw_spin_unlock(&ss_process_lock);
	if (event.hdr.type)
		ss_emit_rmid_event(&event);
	local_irq_restore(flags);
}

/* ---- Processes that are to be served first. */

/* Sets and clears bits of `first` of all processes, or of one. Returns of how many. */
static u32 ss_process_mark(s32 tgid, u32 set, u32 clear)
{
	unsigned long flags;
	u32 from, slot, nr = 0;

	for (from = 0; from < ss_nr_slots; from += SS_TABLE_PIECE) {
		raw_spin_lock_irqsave(&ss_process_lock, flags);
		for (slot = from; slot < min(from + SS_TABLE_PIECE, ss_nr_slots); slot++) {
			if (!ss_keys[slot] || (tgid && ss_entries[slot].tgid != tgid))
				continue;
			ss_entries[slot].first = (ss_entries[slot].first | set) & ~clear;
			nr++;
		}
		raw_spin_unlock_irqrestore(&ss_process_lock, flags);
		cond_resched();
	}
	return nr;
}

int ss_process_select(s32 tgid, u32 selector)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	ss_selectors |= 1u << selector;
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
	return ss_process_mark(tgid, 1u << selector, 0) ? 0 : -ESRCH;
}

/* Children are born with their parents' bits until the first line, and found by the second. */
void ss_process_deselect(u32 selector)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	ss_selectors &= ~(1u << selector);
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
	ss_process_mark(0, 0, 1u << selector);
}

/* ---- The state dump. */

/*
 * task_meta of every process, then rmid_existing of every live RMID. Each is copied with its timestamp
 * under the lock that guards it and emitted with interrupts off. Pauses, so that the perf buffer of
 * this CPU (megabytes) cannot overflow from a dump alone.
 */
int ss_process_dump(void)
{
	u32 slot, rmid, nr_emitted = 0;
	unsigned long flags;

	for (slot = 0; slot < ss_nr_slots; slot++) {
		struct ss_task_meta meta;
		bool live;

		if (!READ_ONCE(ss_keys[slot])) {
			cond_resched();
			continue;
		}
		raw_spin_lock_irqsave(&ss_process_lock, flags);
		live = ss_keys[slot];
		if (live)
			ss_process_fill_meta(&ss_entries[slot], SS_TASK_EXISTING, &meta);
		raw_spin_unlock(&ss_process_lock);
		if (live)
			ss_emit_meta(&meta);
		local_irq_restore(flags);
		if (live && ++nr_emitted % SS_DUMP_BATCH == 0) {
			if (fatal_signal_pending(current))
				return -EINTR;
			usleep_range(1000, 2000);
		}
	}
	for (rmid = 1; rmid < ss_rmid_count(); rmid++) {
		struct ss_rmid_line line;
		struct ss_rmid_event event;

		local_irq_save(flags);
		if (ss_rmid_copy(rmid, &line, &event) && line.state == SS_RMID_LIVE_STATE)
			ss_emit_rmid_event(&event);
		local_irq_restore(flags);
	}
	return 0;
}

void ss_process_get_stats(struct ss_process_stats *stats)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ss_process_lock, flags);
	*stats = ss_stats;
	raw_spin_unlock_irqrestore(&ss_process_lock, flags);
}

void ss_process_show(struct seq_file *m)
{
	struct ss_process_stats stats;

	ss_process_get_stats(&stats);
	seq_printf(m, "processes: %llu\n", stats.nr_processes);
	seq_printf(m, "process_slots: %u\n", ss_nr_slots);
	seq_printf(m, "untracked: %llu\n", stats.nr_untracked);
	seq_printf(m, "untold_renames: %llu\n", stats.nr_untold_renames);
	seq_printf(m, "unknown_dead: %llu\n", stats.nr_unknown_dead);
	seq_printf(m, "stale: %llu\n", stats.nr_stale);
}
