/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each CPU has done since its last measure: kmod/cpu.c in eBPF. A CPU is watched from its first
 * switch or tick after the collector has set ss_recording. Switches run with interrupts off and ticks
 * in a timer's softirq, so on one CPU they never interrupt each other.
 */
#ifndef SLOTSCOPE_CPU_BPF_H
#define SLOTSCOPE_CPU_BPF_H

#include "batch.bpf.h"
#include "counters.bpf.h"
#include "process.bpf.h"

#include <bpf/bpf_core_read.h>

struct ss_cpu {
	__u64 last_ns; /* ts_ns of the last measure */
	__u64 wait_ns; /* accumulators since then */
	__u32 switches;
	__u32 preemptions;
	__u64 run_delay; /* of the thread that runs, as last seen */
	__u64 last_due_ns; /* of the previous tick */
	__u64 tick_due_ns; /* the timer fired for this border, the tick is still to come; 0: none */
	__u64 start_time_ns; /* the process that runs */
	__s32 tgid;
	__u32 rmid;
	__u32 generation;
	__u32 flags; /* SS_MEASURE_* */
	__u32 seq;
	__u32 epoch; /* of ss_watch, when this CPU's measures began; 0: never */
	__u64 task; /* that was switched in last, and its signal_struct: to tell a missed switch */
	__u64 signal;
	__u32 zero[8]; /* no two CPUs share a cache line */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the collector: possible CPUs */
	__type(key, __u32);
	__type(value, struct ss_cpu);
} ss_cpus SEC(".maps");

#define SS_MAX_CPUS 4096 /* power of two */

/*
 * Set by the collector through the mapped .bss. A CPU is measured while ss_watch[cpu] is not 0; another
 * number than before (its buffer and counters are new, after hotplug) makes it begin anew.
 */
unsigned int ss_recording; /* 1: the processes of the machine are in the table */
unsigned int ss_watch[SS_MAX_CPUS];

static __always_inline struct ss_cpu *ss_this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&ss_cpus, &cpu);
}

static __always_inline __u32 ss_watch_epoch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	SS_FIFO_OPAQUE(cpu);
	return ss_watch[cpu & (SS_MAX_CPUS - 1)];
}

static __always_inline __u64 ss_run_delay(struct task_struct *p)
{
	if (bpf_core_field_exists(p->sched_info.run_delay))
		return p->sched_info.run_delay;
	return 0;
}

/* p runs and its process is not in the table: put it there if there is room now. */
static __always_inline struct ss_process *ss_process_adopt(void *ctx, struct task_struct *p)
{
	struct ss_rmid_event event;
	struct ss_process *process;
	struct ss_task_meta meta;
	bool created;

	process = ss_process_insert(p, SS_PROCESS_ADOPTED, &created);
	if (!process || !created)
		return process;
	if (!(process->flags & SS_TASK_KTHREAD)) {
		ss_process_lease(process, (__u64)p->signal, &event);
		if (event.hdr.type)
			ss_output(ctx, &event.hdr, sizeof(event));
	}
	ss_fill_task_meta(&meta, process, p, p->group_leader->comm, SS_TASK_EXISTING);
	ss_output(ctx, &meta.hdr, sizeof(meta));
	return process;
}

/* The process has no RMID: perhaps there is one now. */
static __always_inline void ss_process_retry_lease(void *ctx, struct task_struct *p,
						   struct ss_process *process)
{
	struct ss_allocator *allocator = ss_get_allocator();
	struct ss_rmid_event event;

	/* Unlocked on purpose: while there is none, a switch must not take the lock. */
	if (!allocator || !ss_rmid_fifo_may_alloc(&allocator->fifo, bpf_ktime_get_ns()))
		return;
	if (ss_process_lease(process, (__u64)p->signal, &event) > 0) {
		SS_COUNT(ss_nr_retried);
		ss_output(ctx, &event.hdr, sizeof(event));
	}
}

/* p is switched in, and its process is another one than before. */
static __always_inline void ss_cpu_set_process(void *ctx, struct ss_cpu *cpu, struct task_struct *p)
{
	struct ss_process *process;
	__u64 lease;

	cpu->flags = bpf_core_field_exists(p->sched_info.run_delay) ? 0 : SS_MEASURE_NO_WAIT;
	cpu->signal = (__u64)p->signal;
	cpu->start_time_ns = 0;
	cpu->tgid = p->tgid;
	cpu->rmid = 0;
	cpu->generation = 0;
	if (p->pid == 0) {
		cpu->flags |= SS_MEASURE_IDLE;
		return;
	}
	if (p->flags & SS_PF_KTHREAD)
		cpu->flags |= SS_MEASURE_KTHREAD;
	process = ss_process_find(p);
	if (!process && p->signal->live.counter) /* not one that is about to be gone */
		process = ss_process_adopt(ctx, p);
	if (process && (process->flags & SS_PROCESS_ADOPTED))
		ss_thread_count(p, process);
	if (!process || process->owner != (__u64)p->signal) {
		cpu->flags |= SS_MEASURE_UNTRACKED;
		return;
	}
	if (!process->lease && !(process->flags & SS_TASK_KTHREAD))
		ss_process_retry_lease(ctx, p, process);
	lease = process->lease;
	cpu->start_time_ns = process->start_time_ns;
	cpu->rmid = (__u32)lease;
	cpu->generation = (__u32)(lease >> 32);
}

static __always_inline void ss_cpu_set_thread(struct ss_cpu *cpu, struct task_struct *p)
{
	cpu->task = (__u64)p;
	cpu->run_delay = ss_run_delay(p);
}

/* Did we miss no switch: is `running` of the process that was switched in last? */
static __always_inline bool ss_cpu_runs(const struct ss_cpu *cpu, struct task_struct *running)
{
	return cpu->signal == (__u64)running->signal;
}

static __always_inline void ss_cpu_take_wait(struct ss_cpu *cpu, struct task_struct *running)
{
	__u64 run_delay = ss_run_delay(running);

	if (cpu->task == (__u64)running && run_delay > cpu->run_delay)
		cpu->wait_ns += run_delay - cpu->run_delay;
	ss_cpu_set_thread(cpu, running);
}

/* The time since the last measure is nobody's, and so are the counts. */
static __always_inline void ss_cpu_set_unknown(struct ss_cpu *cpu)
{
	cpu->flags = SS_MEASURE_UNKNOWN;
	cpu->start_time_ns = 0;
	cpu->tgid = 0;
	cpu->rmid = 0;
	cpu->generation = 0;
	cpu->wait_ns = 0;
	cpu->switches = 0;
	cpu->preemptions = 0;
}

static __always_inline void ss_cpu_measure(void *ctx, struct ss_cpu *cpu, __s32 next_tgid, __u32 cause)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct ss_measure msg = {};

	/* The clock may step back by nanoseconds when the timekeeper is updated. */
	if (now_ns < cpu->last_ns)
		now_ns = cpu->last_ns;
	ss_fill_hdr(&msg.hdr, SS_MEASURE, sizeof(msg), now_ns);
	msg.start_ns = cpu->last_ns;
	msg.start_time_ns = cpu->start_time_ns;
	msg.wait_ns = cpu->wait_ns;
	msg.tgid = cpu->tgid;
	msg.next_tgid = next_tgid;
	msg.seq = cpu->seq;
	msg.rmid = cpu->rmid;
	msg.generation = cpu->generation;
	msg.flags = cpu->flags | cause;
	msg.switches = cpu->switches;
	msg.preemptions = cpu->preemptions;
	ss_read_counters(&msg);
	cpu->seq++;
	cpu->last_ns = now_ns;
	cpu->wait_ns = 0;
	cpu->switches = 0;
	cpu->preemptions = 0;
	ss_send_measure(ctx, &msg);
}

/* The first event on this CPU: measures start here, with `running`. */
static __always_inline void ss_cpu_watch(void *ctx, struct ss_cpu *cpu, __u32 epoch,
					 struct task_struct *running)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct ss_cpu_state msg = {};
	struct ss_measure baseline = {};
	struct ss_batch *batch = ss_this_batch();

	if (batch)
		batch->used = 0; /* of a time before this CPU's buffer */
	cpu->epoch = epoch;
	cpu->last_ns = now_ns;
	cpu->wait_ns = 0;
	cpu->switches = 0;
	cpu->preemptions = 0;
	cpu->last_due_ns = 0;
	ss_cpu_set_thread(cpu, running);
	ss_cpu_set_process(ctx, cpu, running);
	ss_read_counters(&baseline); /* not sent: sets the counters' first values */
	ss_fill_hdr(&msg.hdr, SS_CPU_STATE, sizeof(msg), now_ns);
	msg.online = 1;
	ss_output(ctx, &msg.hdr, sizeof(msg));
}

static __always_inline void ss_cpu_switch(void *ctx, bool preempt, struct task_struct *prev,
					  struct task_struct *next, unsigned int prev_state)
{
	struct ss_cpu *cpu = ss_this_cpu();
	__u32 epoch = ss_watch_epoch();
	bool missed;

	if (!cpu || !epoch || !ss_recording)
		return;
	if (cpu->epoch != epoch) {
		ss_cpu_watch(ctx, cpu, epoch, next);
		return;
	}
	missed = !ss_cpu_runs(cpu, prev);
	if (missed) {
		ss_cpu_set_unknown(cpu);
	} else {
		ss_cpu_take_wait(cpu, prev);
		cpu->switches++;
		/* As the kernel's nivcsw (but for signals); the idle task is never preempted. */
		if ((preempt || !prev_state) && prev->pid)
			cpu->preemptions++;
	}
	ss_cpu_set_thread(cpu, next);
	if (missed || prev->signal != next->signal) {
		ss_cpu_measure(ctx, cpu, next->tgid, 0);
		ss_cpu_set_process(ctx, cpu, next);
	}
}

/*
 * Does nothing on a CPU that is not watched yet: only a switch, or the timer's own program, may begin to
 * watch it. A perf_event program may not even name the allocator's map (its lock is refused there).
 */
static __always_inline void ss_cpu_tick(void *ctx, struct ss_cpu *cpu, struct task_struct *running,
					__u64 due_ns)
{
	__u32 epoch = ss_watch_epoch();
	struct ss_tick msg = {};

	if (!epoch || !ss_recording || cpu->epoch != epoch)
		return;
	if (ss_cpu_runs(cpu, running))
		ss_cpu_take_wait(cpu, running);
	else
		ss_cpu_set_unknown(cpu);
	ss_cpu_measure(ctx, cpu, cpu->tgid, SS_MEASURE_TICK);

	ss_fill_hdr(&msg.hdr, SS_TICK, sizeof(msg), cpu->last_ns);
	msg.due_ns = due_ns;
	if (cpu->last_due_ns && due_ns > cpu->last_due_ns + SS_TICK_PERIOD_NS)
		msg.missed = (due_ns - cpu->last_due_ns + SS_TICK_PERIOD_NS / 2) / SS_TICK_PERIOD_NS - 1;
	cpu->last_due_ns = due_ns;
	ss_output(ctx, &msg.hdr, sizeof(msg));
}

#endif /* SLOTSCOPE_CPU_BPF_H */
