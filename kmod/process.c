// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every process of the machine, from birth to its last thread's final switch-out.
 *
 * The key is the signal_struct pointer: threads share it, exec keeps it, and it is not used again
 * before the last thread's final switch-out. A tgid is no key: it can be reborn before that.
 *
 * The thread count is our own. signal->live is 0 at several dead switches of one group, up to tens of
 * milliseconds apart, because it falls early in do_exit(); signal->nr_threads can be anything. An entry
 * goes away when count <= 0 and live == 0, which is checked at each dead switch of the group.
 *
 * Structure: buckets of eight keys, one cache line each, probed linearly over SS_PROBE_BUCKETS buckets;
 * no tombstones, since a search always looks at all of them. A search at a process switch-in takes no
 * lock: the thread that is switched in keeps its own entry alive. Everything that changes the table
 * takes ss_process_lock.
 *
 * Lock order: ss_process_lock, then the one in rmid.c. No tracepoint is emitted under either.
 */
#include <linux/cgroup.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
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

struct ss_process {
	u64 lease; /* generation << 32 | rmid, 0: none. Read without the lock at switch-in */
	u64 start_time_ns;
	u64 cgroup_id;
	s32 tgid;
	s32 ppid;
	int nr_threads; /* births seen minus final switch-outs seen */
	u32 flags; /* SS_TASK_KTHREAD */
	char comm[SS_COMM_LEN];
};

static DEFINE_RAW_SPINLOCK(ss_process_lock);
/* A key is published after its entry is written (smp_store_release) and read with smp_load_acquire. */
static struct signal_struct **ss_keys;
static struct ss_process *ss_entries; /* written under ss_process_lock */
static u32 ss_nr_slots; /* power of two */
static struct ss_process_stats ss_stats; /* under ss_process_lock */

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

static u64 ss_cgroup_id_of(struct task_struct *p)
{
	u64 id;

	rcu_read_lock();
	id = cgroup_id(task_dfl_cgroup(p));
	rcu_read_unlock();
	return id;
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
	entry->cgroup_id = ss_cgroup_id_of(leader);
	entry->tgid = leader->tgid;
	entry->ppid = ss_parent_of(leader);
	entry->nr_threads = 0;
	entry->flags = leader->flags & PF_KTHREAD ? SS_TASK_KTHREAD : 0;
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
	meta->flags = entry->flags | cause;
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

/* A birth takes its RMID under both locks, so that nobody sees the entry half made. */
static void ss_process_lease(struct ss_process *entry, struct ss_rmid_event *event)
{
	int rmid;

	lockdep_assert_held(&ss_process_lock);
	rmid = ss_rmid_alloc(entry->tgid, entry->start_time_ns, entry->comm, event);
	if (rmid > 0)
		WRITE_ONCE(entry->lease, (u64)event->generation << 32 | (u32)rmid);
}

static void ss_process_end(int slot, struct ss_rmid_event *event)
{
	struct ss_process *entry = &ss_entries[slot];

	lockdep_assert_held(&ss_process_lock);
	if (entry->lease)
		ss_rmid_free(ss_lease_rmid(entry->lease), event);
	WRITE_ONCE(ss_keys[slot], NULL);
	ss_stats.nr_processes--;
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
		/* A new process cannot be in the table: somebody's end was missed. */
		ss_process_end(slot, &stale);
		ss_stats.nr_stale++;
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
		ss_stats.nr_unknown_dead++;
		goto out;
	}
	entry = &ss_entries[slot];
	entry->nr_threads--;
	if (entry->nr_threads > 0 || atomic_read(&prev->signal->live))
		goto out;
	if (!entry->lease) {
		ss_process_fill_meta(entry, SS_TASK_EXIT, &meta);
		memset(meta.comm, 0, sizeof(meta.comm));
	}
	ss_process_end(slot, &event);
out:
	raw_spin_unlock(&ss_process_lock);
	if (event.hdr.type)
		ss_emit_rmid_event(&event);
	if (meta.hdr.type)
		ss_emit_meta(&meta);
}

void ss_process_thread_existing(struct task_struct *p)
{
	struct ss_rmid_event event;
	int slot;

	/* stop_machine: nobody else runs, but the lock rules are the same for lockdep. */
	raw_spin_lock(&ss_process_lock);
	slot = ss_process_find(p->signal);
	if (slot < 0) {
		slot = ss_process_insert(p->group_leader);
		if (slot >= 0 && !(p->flags & PF_KTHREAD))
			ss_process_lease(&ss_entries[slot], &event);
		else if (slot < 0 && thread_group_leader(p))
			ss_stats.nr_untracked++;
	}
	if (slot >= 0)
		ss_entries[slot].nr_threads++;
	raw_spin_unlock(&ss_process_lock);
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
		if (entry->lease)
			ss_rmid_rename(ss_lease_rmid(entry->lease),
				       ss_lease_generation(entry->lease), entry->comm);
		ss_process_fill_meta(entry, cause, &meta);
	}
	raw_spin_unlock(&ss_process_lock);
	if (meta.hdr.type)
		ss_emit_meta(&meta);
	local_irq_restore(flags);
}

/* The process has no RMID: perhaps there is one now. Never waits for a lock. */
static void ss_process_retry_lease(struct ss_process *entry, const struct signal_struct *signal,
				   int slot)
{
	struct ss_rmid_event event = {};

	if (!ss_rmid_may_alloc() || !raw_spin_trylock(&ss_process_lock))
		return;
	if (ss_keys[slot] == signal && !entry->lease &&
	    ss_rmid_try_alloc(entry->tgid, entry->start_time_ns, entry->comm, &event) > 0)
		WRITE_ONCE(entry->lease, (u64)event.generation << 32 | event.rmid);
	else
		event.hdr.type = 0;
	raw_spin_unlock(&ss_process_lock);
	if (event.hdr.type)
		ss_emit_rmid_event(&event);
}

bool ss_process_switch_in(struct task_struct *p, struct ss_process_id *id)
{
	struct ss_process *entry;
	u64 lease;
	int slot;

	slot = ss_process_find(p->signal);
	if (slot < 0) {
		memset(id, 0, sizeof(*id));
		id->tgid = p->tgid;
		id->flags = p->flags & PF_KTHREAD ? SS_TASK_KTHREAD : 0;
		return false;
	}
	entry = &ss_entries[slot];
	if (!READ_ONCE(entry->lease) && !(entry->flags & SS_TASK_KTHREAD))
		ss_process_retry_lease(entry, p->signal, slot);
	lease = READ_ONCE(entry->lease);
	id->start_time_ns = entry->start_time_ns;
	id->tgid = entry->tgid;
	id->ppid = entry->ppid;
	id->rmid = ss_lease_rmid(lease);
	id->generation = ss_lease_generation(lease);
	id->flags = entry->flags;
	return true;
}

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
	seq_printf(m, "unknown_dead: %llu\n", stats.nr_unknown_dead);
	seq_printf(m, "stale: %llu\n", stats.nr_stale);
}
