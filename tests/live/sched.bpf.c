// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes down every wake-up, every switch and every move of a thread that waits, in full, for
 * wait_truth.cc. It knows nothing of what it is the truth for.
 */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

enum sched_event_type {
	SCHED_SWITCH = 1,
	SCHED_WAKEUP = 2,
	SCHED_MIGRATE = 3,
	SCHED_BIRTH = 4,
	SCHED_STALL = 5, /* from ns to prev_delay_ns the CPU stood still between two programs of one event */
};

/* wait_truth.cc has the same. `prev` is the thread itself, but for a switch. */
struct sched_event {
	unsigned long long ns; /* 0: it was not written */
	unsigned long long prev_delay_ns; /* sched_info.run_delay */
	int prev_pid;
	int prev_tgid;
	int next_pid;
	int next_tgid;
	unsigned int cpu; /* of a switch: where; else: in whose queue it is */
	unsigned int prev_state;
	unsigned char type;
	unsigned char preempt;
	unsigned char delayed; /* it sleeps, and has not been taken out of the queue */
	unsigned char zero[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before it is loaded */
	__type(key, __u32);
	__type(value, struct sched_event);
} sched_events SEC(".maps");

#define SCHED_CPUS 512

unsigned int sched_nr_events;
/* By CPU: what a hypervisor has taken since the machine began; 0: it is not told. */
unsigned long long sched_stolen_ns[SCHED_CPUS];
unsigned long long sched_stolen_before_ns[SCHED_CPUS]; /* the same, at the first switch */
unsigned int sched_recording;

/*
 * Programs of one event run one behind the other, in the order in which they were attached: ours, those
 * whose truth this is, ours again. Between the first and the last a CPU of a guest may stand still, and
 * an interrupt may come: then it cannot be said which time of the two is the event's.
 */
#define SCHED_STALL_NS 20000
#define SCHED_REMEMBERED 8 /* of a CPU: as many as can be in one another */

struct sched_seen {
	unsigned long long ns;
	int pid;
	unsigned int type;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCHED_REMEMBERED);
	__type(key, __u32);
	__type(value, struct sched_seen);
} sched_seen SEC(".maps");

unsigned int sched_nr_seen[SCHED_CPUS];

struct sched_entity___since_6_12 {
	unsigned char sched_delayed;
} __attribute__((preserve_access_index));

static __always_inline unsigned char is_delayed(struct task_struct *p)
{
	struct sched_entity___since_6_12 *se = (void *)&p->se;

	if (bpf_core_field_exists(se->sched_delayed))
		return BPF_CORE_READ(se, sched_delayed);
	return 0;
}

struct rq___steal {
	unsigned long long prev_steal_time_rq;
} __attribute__((preserve_access_index));

static __always_inline void note_steal(struct task_struct *p)
{
	struct rq___steal *rq;
	unsigned int cpu = bpf_get_smp_processor_id();

	/* A kernel without the cpu controller has no way there, one for bare machines no such time. */
	if (cpu >= SCHED_CPUS || !bpf_core_field_exists(p->se.cfs_rq) ||
	    !bpf_core_field_exists(struct rq___steal, prev_steal_time_rq))
		return;
	rq = (void *)p->se.cfs_rq->rq;
	sched_stolen_ns[cpu] = BPF_CORE_READ(rq, prev_steal_time_rq);
	if (!sched_stolen_before_ns[cpu])
		sched_stolen_before_ns[cpu] = sched_stolen_ns[cpu];
}

static __always_inline struct sched_event *new_event(unsigned char type)
{
	struct sched_event *event;
	__u32 index;

	if (!sched_recording)
		return 0;
	index = __sync_fetch_and_add(&sched_nr_events, 1);
	event = bpf_map_lookup_elem(&sched_events, &index);
	if (event)
		event->type = type;
	return event;
}

static __always_inline void remember(unsigned char type, int pid, unsigned long long ns)
{
	unsigned int cpu = bpf_get_smp_processor_id();
	struct sched_seen *seen;
	__u32 index;

	if (cpu >= SCHED_CPUS)
		return;
	index = sched_nr_seen[cpu]++ % SCHED_REMEMBERED;
	seen = bpf_map_lookup_elem(&sched_seen, &index);
	if (!seen)
		return;
	seen->type = type;
	seen->pid = pid;
	seen->ns = ns;
}

/* `queue` is the CPU whose waiters are concerned. */
static __always_inline int look_again(unsigned char type, struct task_struct *p, unsigned int queue)
{
	unsigned int cpu = bpf_get_smp_processor_id();
	struct sched_event *event;
	struct sched_seen *seen;
	__u64 now = bpf_ktime_get_ns();
	__u32 back, index;

	if (!sched_recording || cpu >= SCHED_CPUS)
		return 0;
	for (back = 1; back <= SCHED_REMEMBERED; back++) {
		index = (sched_nr_seen[cpu] - back) % SCHED_REMEMBERED;
		seen = bpf_map_lookup_elem(&sched_seen, &index);
		if (!seen)
			return 0;
		if (seen->type != type || seen->pid != p->pid)
			continue;
		if (now - seen->ns < SCHED_STALL_NS)
			return 0;
		event = new_event(SCHED_STALL);
		if (!event)
			return 0;
		event->prev_pid = p->pid;
		event->prev_tgid = p->tgid;
		event->cpu = queue;
		event->prev_delay_ns = now;
		event->ns = seen->ns;
		return 0;
	}
	return 0;
}

static __always_inline int add_thread(unsigned char type, struct task_struct *p)
{
	struct sched_event *event = new_event(type);

	if (!event)
		return 0;
	event->prev_pid = p->pid;
	event->prev_tgid = p->tgid;
	event->prev_delay_ns = p->sched_info.run_delay;
	event->cpu = p->thread_info.cpu;
	event->delayed = is_delayed(p);
	event->ns = bpf_ktime_get_ns();
	remember(type, p->pid, event->ns);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct sched_event *event = new_event(SCHED_SWITCH);

	if (!event)
		return 0;
	note_steal(prev);
	event->prev_pid = prev->pid;
	event->prev_tgid = prev->tgid;
	event->prev_delay_ns = prev->sched_info.run_delay;
	event->next_pid = next->pid;
	event->next_tgid = next->tgid;
	event->cpu = bpf_get_smp_processor_id();
	event->prev_state = prev_state;
	event->preempt = preempt;
	event->ns = bpf_ktime_get_ns();
	remember(SCHED_SWITCH, prev->pid, event->ns);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *p)
{
	return add_thread(SCHED_WAKEUP, p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *p)
{
	return add_thread(SCHED_BIRTH, p);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *thread)
{
	/* It is shorter since 7.3. */
	return BPF_CORE_READ_BITFIELD(thread, on_rq) ? add_thread(SCHED_MIGRATE, thread) : 0;
}

/* Attached when those are whose truth this is. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch_again, bool preempt, struct task_struct *prev)
{
	return look_again(SCHED_SWITCH, prev, bpf_get_smp_processor_id());
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup_again, struct task_struct *p)
{
	return look_again(SCHED_WAKEUP, p, p->thread_info.cpu);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new_again, struct task_struct *p)
{
	return look_again(SCHED_BIRTH, p, p->thread_info.cpu);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task_again, struct task_struct *thread)
{
	return BPF_CORE_READ_BITFIELD(thread, on_rq) ?
		       look_again(SCHED_MIGRATE, thread, thread->thread_info.cpu) :
		       0;
}

char LICENSE[] SEC("license") = "GPL";
