/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quotas (CFS bandwidth): when a group was throttled on a CPU, and waits that were due to that, see
 * <slotscope/quota.h>. The scheduler calls two functions for each group below one that is throttled, or
 * may run again, with the run queue locked; our programs on them write the table. A wait looks at it
 * only if some group of its CPU's has begun to run again since it began.
 */
#ifndef SLOTSCOPE_QUOTA_BPF_H
#define SLOTSCOPE_QUOTA_BPF_H

#include "batch.bpf.h"
#include "cost.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <slotscope/quota.h>

struct ss_quota_key {
	__u64 group; /* address of its task_group; it leaves the kernel in no message */
	__u32 cpu;
	__u32 zero;
};

/* Whoever is thrown out of it was throttled longest ago. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct ss_quota_key);
	__type(value, struct ss_quota);
} ss_quotas SEC(".maps");

/* Set by the collector: 1 if it is seen when a quota is used up. */
const volatile unsigned int ss_has_quota;
/* And 1 if that is by what stands in the run queues, as a kernel may not let us look at functions. */
const volatile unsigned int ss_quota_by_fields;
/* [cpu] when some group there was last throttled until */
unsigned long long ss_unthrottled_ns[SS_MAX_CPUS];
static const struct ss_quota ss_no_quota;

struct task_struct___throttled {
	bool throttled; /* since 6.18: each thread is by itself */
} __attribute__((preserve_access_index));

static __always_inline bool ss_throttles_threads(void)
{
	return bpf_core_field_exists(struct task_struct___throttled, throttled);
}

/* SS_WAIT_THROTTLED or 0, of a thread that does not run. */
static __always_inline __u32 ss_is_throttled(const struct task_struct *p)
{
	if (ss_has_quota && ss_throttles_threads())
		return ((const struct task_struct___throttled *)p)->throttled ? SS_WAIT_THROTTLED : 0;
	return 0;
}

/* The group whose quota the thread has; 0: none. Real-time tasks have one of another kind. */
static __always_inline __u64 ss_group_of(const struct task_struct *p)
{
	if (!ss_has_quota || p->prio < 100)
		return 0;
	return (__u64)p->sched_task_group;
}

static __always_inline __u64 *ss_unthrottled(__u32 cpu)
{
	SS_BATCH_OPAQUE(cpu);
	return &ss_unthrottled_ns[cpu & (SS_MAX_CPUS - 1)];
}

/* Set by the collector: 1 if a group's queues are per-CPU data (7.3), 0: an array of them (6.18). */
const volatile unsigned int ss_queues_are_per_cpu;
/*
 * Of x86. Found by its type: for a symbol without one libbpf reads all of /proc/kallsyms, which takes
 * it longer than to load most programs.
 */
extern const unsigned long this_cpu_off __weak __ksym;

/* What is to be added to the address of per-CPU data. */
static __always_inline unsigned long ss_per_cpu_offset(__u32 cpu)
{
	const unsigned long *offset = &this_cpu_off ? bpf_per_cpu_ptr(&this_cpu_off, cpu) : NULL;

	return offset ? *offset : 0;
}

/* The group's queue there. Returns how many of it and the groups above it are throttled. */
static __always_inline int ss_quota_key_of(struct task_group *group, void *rq,
					   struct ss_quota_key *key)
{
	unsigned long queues = 0;
	struct cfs_rq *queue = NULL;

	key->group = (__u64)group;
	key->cpu = BPF_CORE_READ((struct rq *)rq, cpu);
	key->zero = 0;
	bpf_core_read(&queues, sizeof(queues), &group->cfs_rq);
	if (ss_queues_are_per_cpu) {
		queue = (struct cfs_rq *)(queues + ss_per_cpu_offset(key->cpu));
	} else {
		bpf_probe_read_kernel(&queue, sizeof(queue), (struct cfs_rq **)queues + key->cpu);
	}
	return BPF_CORE_READ(queue, throttle_count);
}

static __always_inline struct ss_quota *ss_quota_of(const struct ss_quota_key *key)
{
	struct ss_quota *quota = bpf_map_lookup_elem(&ss_quotas, key);

	if (quota)
		return quota;
	bpf_map_update_elem(&ss_quotas, key, &ss_no_quota, BPF_NOEXIST);
	return bpf_map_lookup_elem(&ss_quotas, key);
}

SEC("fentry/tg_throttle_down")
int BPF_PROG(ss_tg_throttle_down, struct task_group *group, void *rq)
{
	const __u64 begun_ns = ss_cost_begin();
	struct ss_quota_key key;
	struct ss_quota *quota;

	if (ss_quota_key_of(group, rq, &key) == 0) {
		quota = ss_quota_of(&key);
		if (quota)
			ss_quota_begin(quota, bpf_ktime_get_ns());
	}
	ss_cost_end(begun_ns);
	return 0;
}

SEC("fentry/tg_unthrottle_up")
int BPF_PROG(ss_tg_unthrottle_up, struct task_group *group, void *rq)
{
	const __u64 begun_ns = ss_cost_begin();
	const __u64 now_ns = bpf_ktime_get_ns();
	struct ss_quota_key key;
	struct ss_quota *quota;

	if (ss_quota_key_of(group, rq, &key) == 1) {
		quota = ss_quota_of(&key);
		if (quota)
			ss_quota_end(quota, now_ns);
		*ss_unthrottled(key.cpu) = now_ns;
	}
	ss_cost_end(begun_ns);
	return 0;
}

/*
 * Without the hooks, where threads are throttled by themselves. A queue keeps since when it has been
 * (throttled_clock_self), and the sum of the times that are over. Before it can be throttled once more
 * one of its threads runs, so each time is found when one is switched out throttled, and when the first
 * one is switched in again. By the run queue's clock.
 */
struct cfs_rq___throttled {
	u64 throttled_clock_self;
	u64 throttled_clock_self_time;
} __attribute__((preserve_access_index));

/* [cpu] groups there that are throttled, as far as we know */
unsigned int ss_nr_throttled[SS_MAX_CPUS];

static __always_inline unsigned int *ss_throttled_on(__u32 cpu)
{
	SS_BATCH_OPAQUE(cpu);
	return &ss_nr_throttled[cpu & (SS_MAX_CPUS - 1)];
}

/* The group may run again on this CPU, where it has been throttled for so long. */
static __always_inline void ss_quota_over(struct ss_quota *quota, __u32 cpu, __u64 took_ns)
{
	const __u64 end_ns = quota->since_ns + took_ns;

	ss_quota_end(quota, end_ns);
	*ss_unthrottled(cpu) = end_ns;
	--*ss_throttled_on(cpu);
}

/* prev is switched out, throttled. */
static __always_inline void ss_quota_prev(struct task_struct *prev, __u64 now_ns)
{
	const __u32 cpu = bpf_get_smp_processor_id();
	const struct ss_quota_key key = {.group = ss_group_of(prev), .cpu = cpu};
	struct cfs_rq *queue = prev->se.cfs_rq;
	__u64 clock_ns, since_ns, sum_ns;
	struct ss_quota *quota;

	if (!key.group)
		return;
	quota = ss_quota_of(&key);
	if (!quota)
		return;
	sum_ns = BPF_CORE_READ((struct cfs_rq___throttled *)queue, throttled_clock_self_time);
	if (quota->since_ns && sum_ns == quota->sum_ns)
		return; /* another one of its threads was first */
	if (quota->since_ns) /* that it was over was in a switch that was hidden from us */
		ss_quota_over(quota, cpu, sum_ns - quota->sum_ns);
	since_ns = BPF_CORE_READ((struct cfs_rq___throttled *)queue, throttled_clock_self);
	clock_ns = BPF_CORE_READ(queue, rq, clock);
	if (!since_ns || clock_ns < since_ns)
		return;
	quota->sum_ns = sum_ns;
	ss_quota_begin(quota, now_ns - (clock_ns - since_ns));
	++*ss_throttled_on(cpu);
}

/* next is switched in: its group may run again. */
static __always_inline void ss_quota_next(struct task_struct *next)
{
	const __u32 cpu = bpf_get_smp_processor_id();
	const struct ss_quota_key key = {.group = ss_group_of(next), .cpu = cpu};
	struct cfs_rq *queue = next->se.cfs_rq;
	struct ss_quota *quota;
	__u64 sum_ns;

	if (!key.group)
		return;
	quota = bpf_map_lookup_elem(&ss_quotas, &key);
	if (!quota || !quota->since_ns)
		return;
	sum_ns = BPF_CORE_READ((struct cfs_rq___throttled *)queue, throttled_clock_self_time);
	if (sum_ns > quota->sum_ns) /* else it is throttled still, and this thread is not yet */
		ss_quota_over(quota, cpu, sum_ns - quota->sum_ns);
}

static __always_inline void ss_quota_switch(struct task_struct *prev, struct task_struct *next,
					    __u64 now_ns)
{
	if (!ss_has_quota || !ss_quota_by_fields)
		return;
	if (ss_is_throttled(prev))
		ss_quota_prev(prev, now_ns);
	if (*ss_throttled_on(bpf_get_smp_processor_id()))
		ss_quota_next(next);
}

struct ss_quota_telling {
	void *ctx;
	struct ss_sender *sender;
	const struct ss_quota *quota;
};

static __always_inline void ss_quota_tell_piece(struct ss_quota_telling *telling, __u64 end_ns,
						const struct ss_quota_time *throttled, __u32 flags)
{
	struct ss_sender *sender = telling->sender;
	struct ss_wait *msg = &sender->piece;

	*msg = sender->throttled;
	msg->end_ns = end_ns;
	msg->wait_ns = end_ns - sender->cut.at_ns;
	if (sender->cut.at_ns > sender->cut.begin_ns)
		msg->cut_ns = 0;
	msg->flags |= flags;
	if (throttled) {
		msg->start_ns = throttled->from_ns;
		msg->throttled_until_ns = throttled->to_ns;
	}
	ss_output(telling->ctx, &msg->hdr, sizeof(*msg));
}

static long ss_quota_tell_next(__u32 back, struct ss_quota_telling *telling)
{
	struct ss_quota_time throttled;
	enum ss_quota_verdict verdict;
	__u64 end_ns;

	verdict = ss_quota_cut_step(telling->quota, &telling->sender->cut, back, &end_ns, &throttled);
	if (verdict == SS_QUOTA_PIECE)
		ss_quota_tell_piece(telling, end_ns, &throttled, SS_WAIT_QUOTA);
	return verdict == SS_QUOTA_DONE;
}

/*
 * sender->throttled is a wait in the queue of its queue_cpu, of a thread of that group. Returns true if
 * its group was throttled for some of it, and it has been told; else it is left to be told as any other.
 */
static __always_inline bool ss_tell_throttled(void *ctx, struct ss_sender *sender, __u64 group)
{
	struct ss_wait *msg = &sender->throttled;
	const bool was_throttled = msg->flags & SS_WAIT_THROTTLED;
	const struct ss_quota_key key = {.group = group, .cpu = msg->queue_cpu};
	struct ss_quota_telling telling = {.ctx = ctx, .sender = sender};
	struct ss_quota_cut *cut = &sender->cut;

	msg->flags &= ~SS_WAIT_THROTTLED;
	if (!ss_has_quota || !group || (ss_throttles_threads() && !was_throttled))
		return false;
	cut->begin_ns = msg->end_ns - msg->wait_ns;
	if (*ss_unthrottled(msg->queue_cpu) <= cut->begin_ns)
		return false;
	telling.quota = bpf_map_lookup_elem(&ss_quotas, &key);
	if (!telling.quota)
		return false;
	cut->at_ns = msg->end_ns;
	cut->by_thread = was_throttled;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop)) {
		bpf_loop(SS_QUOTA_KEPT, ss_quota_tell_next, &telling, 0);
	} else {
#pragma clang loop unroll(disable)
		for (__u32 back = 0; back < SS_QUOTA_KEPT; back++)
			if (ss_quota_tell_next(back, &telling))
				break;
	}
	if (cut->is_known && cut->at_ns == msg->end_ns)
		return false;
	if (cut->at_ns > cut->begin_ns) {
		const __u64 end_ns = cut->at_ns;

		cut->at_ns = cut->begin_ns;
		ss_quota_tell_piece(&telling, end_ns, NULL, cut->is_known ? 0 : SS_WAIT_HIDDEN);
	}
	return true;
}

/* The same of *msg, but for one of which it is not known when it passed. */
static __always_inline bool ss_tell_if_throttled(void *ctx, struct ss_sender *sender,
						 struct ss_wait *msg, __u64 group)
{
	bool is_told = false;

	if (ss_has_quota && !(msg->flags & (SS_WAIT_PHANTOM | SS_WAIT_HIDDEN | SS_WAIT_OWN))) {
		sender->throttled = *msg;
		is_told = ss_tell_throttled(ctx, sender, group);
	}
	msg->flags &= ~SS_WAIT_THROTTLED;
	return is_told;
}

#endif /* SLOTSCOPE_QUOTA_BPF_H */
