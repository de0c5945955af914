/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every process of the machine, from birth to its last thread's final switch-out, without a module.
 * The rules are those of kmod/process.c (key, own thread count, one lease per process); what differs is
 * what eBPF allows:
 *
 *  - A thread is counted once although both the birth hook and the walk (iter/task) may see it: whoever
 *    puts its task pointer into ss_threads counts it, and only who takes it out counts it off. Not its
 *    pid: an exec by another thread than the leader swaps pids, and a pid can be reborn before the old
 *    thread's last switch. Not its start time: exec overwrites it.
 *  - sched_switch is attached before the birth hook, and the walk runs last. A thread that dies between
 *    being seen and being counted is taken back by the walk itself.
 *  - Counts, leases and the end of an entry change under the allocator's lock, and only while `owner` is
 *    still the key: a deleted element is handed out again at once, perhaps under a pointer of ours.
 *  - The clock is read before bpf_spin_lock; rmid_fifo.h clamps it.
 */
#ifndef SLOTSCOPE_PROCESS_BPF_H
#define SLOTSCOPE_PROCESS_BPF_H

#include "output.bpf.h"
#include "task.bpf.h"

#include <bpf/bpf_core_read.h>

#include <slotscope/rmid_fifo.h>

#define SS_PF_KTHREAD 0x00200000 /* include/linux/sched.h */
#define SS_TASK_DEAD 0x80
#define SS_TASK_NEW 0x800
#define SS_EEXIST 17

struct ss_allocator {
	struct bpf_spin_lock lock;
	__u32 zero;
	struct ss_rmid_fifo fifo;
};

struct ss_process {
	/* owner, lease and nr_threads are written under the allocator's lock */
	__u64 owner; /* the key, until the entry is ended */
	__u64 lease; /* generation << 32 | rmid, 0: none */
	__u64 start_time_ns;
	__s32 tgid;
	__s32 ppid;
	__s32 nr_threads; /* counted births minus counted final switch-outs */
	__u32 flags; /* SS_TASK_KTHREAD, SS_PROCESS_ADOPTED */
	__u64 renames_ns; /* since when nr_renames counts */
	__u32 nr_renames;
	__u32 zero;
};

/*
 * In ss_process.flags only: found by a switch-in and not by birth or walk (the walk did not show it, or
 * the table was full then). Its threads are counted as they are switched in, so its RMID may be freed
 * while a thread that never was is still dying.
 */
#define SS_PROCESS_ADOPTED (1u << 31)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ss_allocator);
} ss_allocator SEC(".maps");

/*
 * signal_struct pointer -> process. Preallocated: a probe allocates nothing. Sized by pid_max, as
 * ss_threads.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct ss_process);
} ss_processes SEC(".maps");

/* task_struct pointer -> 1: threads that are counted. Preallocated; sized by pid_max. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, __u32);
} ss_threads SEC(".maps");

/* Written atomically, read by the collector. Nothing here is ever reset. */
unsigned long long ss_nr_untracked; /* processes born when the table was full */
unsigned long long ss_nr_unknown_dead; /* dead threads whose process was not in the table */
unsigned long long ss_nr_failed_none;
unsigned long long ss_nr_failed_limbo;
unsigned long long ss_nr_retried;
unsigned long long ss_nr_bad_free; /* a bug of ours if not 0 */
unsigned long long ss_nr_stale; /* entries whose process had gone unseen; a bug of ours if not 0 */
unsigned long long ss_nr_uncounted; /* threads that found no room in ss_threads */
unsigned long long ss_nr_untold_renames; /* beyond SS_RENAMES_MAX, and overtaken by the next */

/*
 * The table was full when somebody looked last, and nobody has left it since. To look again, the kernel
 * would search all CPUs' lists of free elements, under the run-queue lock.
 */
unsigned int ss_processes_full;
unsigned int ss_threads_full;

#define SS_COUNT(counter) __sync_fetch_and_add(&(counter), 1)

static __always_inline struct ss_allocator *ss_get_allocator(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&ss_allocator, &key);
}

static __always_inline __u64 ss_make_lease(const struct ss_allocator *allocator, __u32 rmid)
{
	SS_FIFO_OPAQUE(rmid);
	rmid &= SS_RMID_MASK;
	return (__u64)allocator->fifo.generation[rmid] << 32 | rmid;
}

static __always_inline void ss_fill_rmid_event(struct ss_rmid_event *event, __u16 type, __u64 ts_ns,
					       __u64 seq, const struct ss_process *process, __u64 lease,
					       __s32 reason)
{
	__builtin_memset(event, 0, sizeof(*event));
	ss_fill_hdr(&event->hdr, type, sizeof(*event), ts_ns);
	event->start_time_ns = process->start_time_ns;
	event->seq = seq;
	event->tgid = process->tgid;
	event->rmid = (__u32)lease;
	event->generation = (__u32)(lease >> 32);
	event->reason = reason;
}

/*
 * Gives `process` an RMID if it has none and is still `owner`'s. Returns the allocator's answer, and
 * fills *event with what there is to emit (type 0: nothing).
 */
static __always_inline int ss_process_lease(struct ss_process *process, __u64 owner,
					    struct ss_rmid_event *event)
{
	struct ss_allocator *allocator = ss_get_allocator();
	__u64 now_ns, seq, lease = 0;
	int rmid = 0;

	event->hdr.type = 0;
	if (!allocator)
		return SS_RMID_NONE_FREE;
	now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&allocator->lock);
	if (process->owner == owner && !process->lease) {
		rmid = ss_rmid_fifo_alloc(&allocator->fifo, &now_ns);
		if (rmid > 0) {
			lease = ss_make_lease(allocator, rmid);
			process->lease = lease;
		}
	}
	seq = allocator->fifo.seq;
	bpf_spin_unlock(&allocator->lock);
	if (rmid > 0)
		ss_fill_rmid_event(event, SS_RMID_ALLOC, now_ns, seq, process, lease, 0);
	else if (rmid < 0)
		ss_fill_rmid_event(event, SS_RMID_ALLOC_FAILED, now_ns, seq, process, 0, rmid);
	return rmid;
}

/*
 * Ends the entry if it is still `key`'s and `force`d or without counted threads, after counting off
 * `nr_off` of them. Emits rmid_free, or a task_meta that says so if there is no RMID to free.
 */
static __always_inline void ss_process_put(void *ctx, struct ss_process *process, __u64 key,
					   __s32 nr_off, bool last_live, bool force)
{
	struct ss_allocator *allocator = ss_get_allocator();
	__u64 now_ns, seq, lease = 0;
	struct ss_rmid_event event;
	struct ss_task_meta meta;
	bool ended = false;
	int err = 0;

	if (!allocator)
		return;
	now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&allocator->lock);
	if (process->owner == key) {
		process->nr_threads -= nr_off;
		if (force || (last_live && process->nr_threads <= 0)) {
			ended = true;
			process->owner = 0;
			lease = process->lease;
			process->lease = 0;
			if (lease)
				err = ss_rmid_fifo_free(&allocator->fifo, (__u32)lease, &now_ns);
		}
	}
	seq = allocator->fifo.seq;
	bpf_spin_unlock(&allocator->lock);
	if (!ended)
		return;
	if (err) {
		SS_COUNT(ss_nr_bad_free);
	} else if (lease) {
		ss_fill_rmid_event(&event, SS_RMID_FREE, now_ns, seq, process, lease, 0);
		ss_output(ctx, &event.hdr, sizeof(event));
	} else {
		__builtin_memset(&meta, 0, sizeof(meta));
		ss_fill_hdr(&meta.hdr, SS_TASK_META, sizeof(meta), now_ns);
		meta.start_time_ns = process->start_time_ns;
		meta.tgid = process->tgid;
		meta.ppid = process->ppid;
		meta.flags = (process->flags & SS_TASK_KTHREAD) | SS_TASK_EXIT;
		ss_output(ctx, &meta.hdr, sizeof(meta));
	}
	bpf_map_delete_elem(&ss_processes, &key);
	ss_processes_full = 0;
}

/*
 * Of cgroup v2; on hosts where the cpu controller is still one of v1, its cgroup there. The hierarchy of
 * v2 has the id 0.
 */
static __always_inline __u64 ss_cgroup_id_of(struct task_struct *p)
{
	struct css_set *cgroups = p->cgroups;
	struct cgroup_subsys_state *cpu = NULL;
	__u64 id = 0;

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		bpf_probe_read_kernel(&cpu, sizeof(cpu),
				      &cgroups->subsys[bpf_core_enum_value(enum cgroup_subsys_id,
									   cpu_cgrp_id)]);
	if (cpu && BPF_CORE_READ(cpu, cgroup, root, hierarchy_id) != 0)
		id = BPF_CORE_READ(cpu, cgroup, kn, id);
	return id ?: cgroups->dfl_cgrp->kn->id;
}

static __always_inline void ss_fill_task_meta(struct ss_task_meta *meta,
					      const struct ss_process *process,
					      struct task_struct *leader, const char *comm, __u32 cause)
{
	__u64 lease = process->lease;

	__builtin_memset(meta, 0, sizeof(*meta));
	ss_fill_hdr(&meta->hdr, SS_TASK_META, sizeof(*meta), bpf_ktime_get_ns());
	meta->start_time_ns = process->start_time_ns;
	meta->cgroup_id = ss_cgroup_id_of(leader);
	meta->tgid = process->tgid;
	meta->ppid = process->ppid;
	meta->rmid = (__u32)lease;
	meta->generation = (__u32)(lease >> 32);
	meta->flags = (process->flags & SS_TASK_KTHREAD) | cause;
	bpf_probe_read_kernel_str(meta->comm, sizeof(meta->comm), comm);
}

/* CPUs that race for it let some more through. */
static __always_inline bool ss_process_may_tell_rename(struct ss_process *process)
{
	__u64 now_ns = bpf_ktime_get_ns();

	if (now_ns - process->renames_ns > SS_RENAMES_PERIOD_NS) {
		process->renames_ns = now_ns;
		process->nr_renames = 0;
	}
	return process->nr_renames++ < SS_RENAMES_MAX;
}

static __always_inline struct ss_process *ss_process_find(struct task_struct *p)
{
	__u64 key = (__u64)p->signal;

	return bpf_map_lookup_elem(&ss_processes, &key);
}

/*
 * Makes the entry of p's process if it is not there. *created: by us, and it has no RMID yet. Null if
 * there is no room.
 */
static __always_inline struct ss_process *ss_process_insert(struct task_struct *p, __u32 flags,
							    bool *created)
{
	struct task_struct *leader = p->group_leader;
	__u64 key = (__u64)p->signal;
	struct ss_process fresh = {};
	long err; /* EEXIST: another CPU was faster */

	*created = false;
	if (ss_processes_full)
		return NULL;
	fresh.owner = key;
	fresh.start_time_ns = leader->start_time;
	fresh.tgid = p->tgid;
	fresh.ppid = leader->real_parent->tgid;
	fresh.flags = flags | (p->flags & SS_PF_KTHREAD ? SS_TASK_KTHREAD : 0);
	err = bpf_map_update_elem(&ss_processes, &key, &fresh, BPF_NOEXIST);
	*created = !err;
	if (err && err != -SS_EEXIST)
		ss_processes_full = 1;
	return bpf_map_lookup_elem(&ss_processes, &key);
}

/* Counts p unless it is counted already, or its process has ended meanwhile. */
static __always_inline void ss_thread_count(struct task_struct *p, struct ss_process *process)
{
	struct ss_allocator *allocator = ss_get_allocator();
	__u64 task = (__u64)p, key = (__u64)p->signal;
	bool counted = false;
	__u32 one = 1;
	long err;

	if (!allocator)
		return;
	if (ss_threads_full) {
		SS_COUNT(ss_nr_uncounted);
		return;
	}
	err = bpf_map_update_elem(&ss_threads, &task, &one, BPF_NOEXIST);
	if (err) {
		if (err != -SS_EEXIST) {
			ss_threads_full = 1;
			SS_COUNT(ss_nr_uncounted);
		}
		return;
	}
	bpf_spin_lock(&allocator->lock);
	if (process->owner == key) {
		process->nr_threads++;
		counted = true;
	}
	bpf_spin_unlock(&allocator->lock);
	if (!counted)
		bpf_map_delete_elem(&ss_threads, &task);
}

/* p was switched out for the last time, or will be: counts it off, and ends its process with it. */
static __always_inline void ss_thread_uncount(void *ctx, struct task_struct *p,
					      struct ss_process *process)
{
	__u64 task = (__u64)p;
	bool counted = !bpf_map_delete_elem(&ss_threads, &task);

	if (counted)
		ss_threads_full = 0;
	ss_process_put(ctx, process, (__u64)p->signal, counted, !p->signal->live.counter, false);
}

#endif /* SLOTSCOPE_PROCESS_BPF_H */
