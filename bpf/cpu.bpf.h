/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each CPU has done since its last measure: kmod/cpu.c in eBPF, by the same rule
 * (slotscope/interval.h). A CPU is watched from its first
 * switch or tick after the collector has set ss_recording. Switches run with interrupts off and ticks
 * in a timer's softirq, so on one CPU they never interrupt each other.
 */
#ifndef SLOTSCOPE_CPU_BPF_H
#define SLOTSCOPE_CPU_BPF_H

#include "batch.bpf.h"
#include "counters.bpf.h"
#include "process.bpf.h"
#include "quota.bpf.h"
#include "waits.bpf.h"

#include <bpf/bpf_core_read.h>

#include <slotscope/interval.h>

struct ss_cpu {
	struct ss_interval interval;
	__u64 tick_due_ns; /* the timer fired for this border, the tick is still to come; 0: none */
	__u64 task; /* that was switched in last, and its signal_struct: to tell a missed switch */
	__u64 signal;
	__u32 epoch; /* of ss_watch, when this CPU's measures began; 0: never */
	__u32 idles; /* 1: its last measure is a tick's, and nothing has run since */
} __attribute__((aligned(64))); /* no two CPUs share a cache line */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the collector: possible CPUs */
	__type(key, __u32);
	__type(value, struct ss_cpu);
} ss_cpus SEC(".maps");

/*
 * Set by the collector through the mapped .bss. A CPU is measured while ss_watch[cpu] is not 0; another
 * number than before (its buffer and counters are new, after hotplug) makes it begin anew.
 */
unsigned int ss_recording; /* 1: the processes of the machine are in the table */
unsigned int ss_watch[SS_MAX_CPUS];
/* How long a measure of an idle CPU may be: less than a slot waits for what is late. */
unsigned long long ss_max_idle_ns;

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
	__u32 flags = bpf_core_field_exists(p->sched_info.run_delay) ? 0 : SS_MEASURE_NO_WAIT;

	cpu->signal = (__u64)p->signal;
	if (p->pid == 0)
		flags |= SS_MEASURE_IDLE;
	else if (p->flags & SS_PF_KTHREAD)
		flags |= SS_MEASURE_KTHREAD;
	ss_interval_set_nobody(&cpu->interval, flags);
	cpu->interval.tgid = p->tgid;
	if (p->pid == 0)
		return;
	process = ss_process_find(p);
	if (!process && p->signal->live.counter) /* not one that is about to be gone */
		process = ss_process_adopt(ctx, p);
	if (process && (process->flags & SS_PROCESS_ADOPTED))
		ss_thread_count(p, process);
	if (!process || process->owner != (__u64)p->signal) {
		cpu->interval.flags |= SS_MEASURE_UNTRACKED;
		return;
	}
	if (!process->lease && !(process->flags & SS_TASK_KTHREAD))
		ss_process_retry_lease(ctx, p, process);
	lease = process->lease;
	cpu->interval.start_time_ns = process->start_time_ns;
	cpu->interval.rmid = (__u32)lease;
	cpu->interval.generation = (__u32)(lease >> 32);
}

/* p is switched in at in_ns. */
static __always_inline void ss_cpu_set_thread(struct ss_cpu *cpu, struct task_struct *p, __u64 in_ns)
{
	cpu->task = (__u64)p;
	ss_interval_begin_run(&cpu->interval, ss_last_run_of(p), ss_this_thread(p), ss_run_delay(p),
			      bpf_get_smp_processor_id(), in_ns);
}

/* Did we miss no switch: is `running` of the process that was switched in last? */
static __always_inline bool ss_cpu_runs(const struct ss_cpu *cpu, struct task_struct *running)
{
	return cpu->signal == (__u64)running->signal;
}

/* A wait of a process that does not run, or was not seen to. */
static __always_inline void ss_set_wait_process(struct ss_wait *msg, const struct ss_process *process)
{
	ss_wait_set_process(msg, process->tgid, process->start_time_ns, (__u32)process->lease,
			    !!(process->flags & SS_TASK_KTHREAD));
}

/* A wait that ended when `running` was switched in. Returns true if it was throttled, and is told. */
static __always_inline bool ss_cpu_tell_throttled(void *ctx, struct ss_sender *sender,
						  struct ss_interval *interval,
						  struct task_struct *running, __u64 now_ns,
						  __u64 wait_ns)
{
	const __u32 cpu = bpf_get_smp_processor_id(), odd = interval->wait_odd;

	if (!ss_has_quota)
		return false;
	if (!(odd & ~SS_WAIT_THROTTLED) && *ss_unthrottled(cpu) > interval->in_ns - wait_ns) {
		__builtin_memset(&sender->throttled, 0, sizeof(sender->throttled));
		ss_interval_fill_wait_until(interval, &sender->throttled, cpu, now_ns, interval->in_ns,
					    wait_ns);
		if (ss_tell_throttled(ctx, sender, ss_group_of(running)))
			return true;
	}
	interval->wait_odd &= ~SS_WAIT_THROTTLED;
	return false;
}

/* `running` is of the process that was switched in last. */
static __always_inline void ss_cpu_take_wait(void *ctx, struct ss_cpu *cpu, struct task_struct *running,
					     __u64 now_ns)
{
	struct ss_interval *interval = &cpu->interval;
	struct ss_sender *sender = ss_this_sender();
	struct ss_wait msg = {};
	__u64 wait_ns;

	if (cpu->task != (__u64)running) {
		ss_cpu_set_thread(cpu, running, now_ns);
		interval->wait_odd |= SS_WAIT_HIDDEN;
	}
	wait_ns = ss_interval_take_wait(interval, ss_run_delay(running));
	if (!ss_waits) {
		interval->wait_ns += wait_ns;
		return;
	}
	if (!wait_ns || !sender)
		return;
	if (ss_cpu_tell_throttled(ctx, sender, interval, running, now_ns, wait_ns))
		return;
	wait_ns = ss_interval_add_wait(interval, wait_ns);
	if (!wait_ns)
		return;
	ss_interval_fill_wait(interval, &msg, bpf_get_smp_processor_id(), now_ns, wait_ns);
	ss_send_wait(ctx, sender, &msg);
}

/* p ran, and was not seen to be switched in: what it had waited. */
static __always_inline void ss_cpu_take_hidden_wait(void *ctx, struct task_struct *p, __u64 now_ns)
{
	struct ss_last_run *last = ss_last_run_of(p);
	const __u64 run_delay = ss_run_delay(p);
	struct ss_sender *sender = ss_this_sender();
	struct ss_wait msg = {};
	struct ss_process *process;
	struct ss_last_run run;

	if (!last || !sender || !ss_last_run_get(last, ss_this_thread(p), &run) ||
	    run.run_delay >= run_delay)
		return;
	process = ss_process_find(p);
	if (!process)
		return;
	ss_wait_fill(&msg, bpf_get_smp_processor_id(), now_ns, now_ns, run_delay - run.run_delay,
		     SS_WAIT_HIDDEN);
	ss_set_wait_process(&msg, process);
	ss_send_wait(ctx, sender, &msg);
}

/* p is switched out at out_ns; 0: see ss_last_run_end(). */
static __always_inline void ss_cpu_end_run(struct task_struct *p, __u64 out_ns)
{
	struct ss_last_run *last = ss_last_run_of(p);

	if (last)
		ss_last_run_end(last, ss_this_thread(p), ss_run_delay(p), bpf_get_smp_processor_id(),
				out_ns, ss_is_throttled(p));
}

unsigned int ss_nr_seeds;

/*
 * A thread that was there before, and that nobody has seen run yet: what it has waited until now is not
 * told, what it waits from now on is, also if it is moved before it runs. Its queue is not locked, so a
 * probe may write meanwhile; then run_delay has grown, and what was written last is what stays.
 */
static __always_inline void ss_cpu_seed_run(struct task_struct *p)
{
	struct ss_last_run *last = ss_last_run_of(p);
	__u64 run_delay;
	int i;

	if (!last || ss_recording)
		return;
	for (i = 0; i < 3; i++) { /* again: it has just been switched in, or moved */
		run_delay = ss_run_delay(p);
		ss_last_run_end(last, ss_this_thread(p), run_delay, 0, 0,
				ss_sleeps_in_queue(p) ? SS_WAIT_PHANTOM : 0);
		__sync_fetch_and_add(&ss_nr_seeds, 1); /* a fence: written before it is read again */
		if (run_delay == *(volatile __u64 *)&p->sched_info.run_delay)
			break;
	}
}

/* The time since the last measure is nobody's, and so are the counts. */
static __always_inline void ss_cpu_set_unknown(struct ss_cpu *cpu)
{
	ss_interval_set_nobody(&cpu->interval, SS_MEASURE_UNKNOWN);
	ss_interval_clear_counts(&cpu->interval);
}

static __always_inline void ss_cpu_measure(void *ctx, struct ss_interval *interval,
					   struct task_struct *running, __u64 now_ns, __s32 next_tgid,
					   __u32 cause)
{
	struct ss_sender *sender = ss_this_sender();
	const __u64 stolen_ns = ss_stolen_now(running);
	struct ss_long_measure *msg;
	struct ss_wait own = {};

	if (!sender)
		return;
	if (interval->self_ns) { /* waits beside the one that the measure tells of */
		ss_interval_fill_own_waits(interval, &own, bpf_get_smp_processor_id(), now_ns);
		ss_send_wait(ctx, sender, &own);
	}
	if (!(cause & SS_MEASURE_TICK) && !ss_counters_wanted() &&
	    stolen_ns == sender->stolen_ns &&
	    ss_batch_add_interval(&sender->batch, interval, now_ns, next_tgid, cause)) {
		ss_batch_was_kept(ctx, sender, interval->last_ns, now_ns, interval->wait_ns,
				  interval->cut_ns, interval->wait_flags);
		ss_interval_next(interval, now_ns);
		return;
	}
	msg = ss_new_measure(sender);
	ss_interval_fill(interval, &msg->measure, bpf_get_smp_processor_id(), now_ns, next_tgid, cause);
	ss_read_counters(msg);
	ss_take_stolen(sender, stolen_ns);
	ss_interval_next(interval, now_ns);
	ss_send_measure(ctx, sender);
}

/* Only who runs has its name held: its CPU sends it at the next tick or switch. */
static __always_inline void ss_cpu_hold_name(struct task_struct *p)
{
	struct ss_cpu *cpu = ss_this_cpu();
	struct task_struct *running = ss_task_to_read(bpf_get_current_task_btf());
	__u32 nr_untold = 1;

	if (cpu && p->signal == running->signal)
		nr_untold = ss_interval_hold_name(&cpu->interval);
	__sync_fetch_and_add(&ss_nr_untold_renames, nr_untold);
}

/* Before the measure, so that the name stands in the row of the slot that it was given in. */
static __always_inline void ss_cpu_tell_name(void *ctx, struct ss_cpu *cpu,
					     struct task_struct *running)
{
	struct ss_process *process;
	struct ss_task_meta meta;

	if (!cpu->interval.name_held)
		return;
	cpu->interval.name_held = 0;
	process = ss_process_find(running);
	if (!process)
		return;
	ss_fill_task_meta(&meta, process, running, running->group_leader->comm, SS_TASK_RENAME);
	ss_output(ctx, &meta.hdr, sizeof(meta));
}

/* The first event on this CPU: measures start here, with `running`. */
static __always_inline void ss_cpu_watch(void *ctx, struct ss_cpu *cpu, __u32 epoch,
					 struct task_struct *running)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct ss_cpu_state msg = {};
	struct ss_sender *sender = ss_this_sender();

	if (!sender)
		return;
	sender->batch.used = 0; /* of a time before this CPU's buffer */
	sender->waited.own_ns = 0;
	sender->waited.far_ns = 0;
	cpu->epoch = epoch;
	cpu->idles = 0;
	ss_interval_begin(&cpu->interval, now_ns);
	ss_cpu_set_thread(cpu, running, now_ns);
	ss_cpu_set_process(ctx, cpu, running);
	ss_read_counters(ss_new_measure(sender)); /* not sent: sets the counters' first values */
	sender->stolen_ns = ss_stolen_now(running);
	ss_fill_hdr(&msg.hdr, SS_CPU_STATE, sizeof(msg), now_ns);
	msg.online = 1;
	ss_output(ctx, &msg.hdr, sizeof(msg));
}

static __always_inline void ss_cpu_switch(void *ctx, bool preempt, struct task_struct *prev,
					  struct task_struct *next, unsigned int prev_state)
{
	struct ss_cpu *cpu = ss_this_cpu();
	__u32 epoch = ss_watch_epoch();
	__u64 now_ns = 0;
	bool missed, ends;

	if (!cpu)
		return;
	if (!epoch || !ss_recording) {
		ss_cpu_end_run(prev, 0);
		return;
	}
	if (cpu->epoch != epoch) {
		ss_cpu_end_run(prev, 0);
		ss_cpu_watch(ctx, cpu, epoch, next);
		return;
	}
	cpu->idles = 0;
	missed = !ss_cpu_runs(cpu, prev);
	ends = missed || prev->signal != next->signal;
	if (ss_waits || ends)
		now_ns = ss_interval_now(&cpu->interval, bpf_ktime_get_ns());
	if (ends)
		ss_cpu_tell_name(ctx, cpu, prev);
	if (missed) {
		ss_cpu_take_hidden_wait(ctx, prev, now_ns);
		ss_cpu_set_unknown(cpu);
	} else {
		ss_cpu_take_wait(ctx, cpu, prev, now_ns);
		ss_interval_count_switch(&cpu->interval, preempt, prev_state, prev->pid);
	}
	ss_quota_switch(prev, next, now_ns);
	ss_cpu_end_run(prev, now_ns);
	ss_cpu_set_thread(cpu, next, now_ns);
	if (ends) {
		ss_cpu_measure(ctx, &cpu->interval, prev, now_ns, next->tgid,
			       missed ? 0 : ss_left_of(preempt, prev, prev_state));
		ss_cpu_set_process(ctx, cpu, next);
	}
}

/*
 * Of an idle CPU's tick: its measure goes on, and there is nothing to tell, unless a switch was hidden
 * from us. One that is long is cut at the borders like any other.
 */
static __always_inline bool ss_cpu_stays_idle(struct ss_cpu *cpu, struct task_struct *running,
					      __u64 due_ns)
{
	struct ss_interval *interval = &cpu->interval;

	if (!cpu->idles || !ss_cpu_runs(cpu, running) ||
	    due_ns > interval->last_due_ns + SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS / 2 ||
	    due_ns - interval->last_ns >= ss_max_idle_ns)
		return false;
	interval->last_due_ns = due_ns;
	return true;
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
	__u64 now_ns;

	if (!epoch || !ss_recording || cpu->epoch != epoch)
		return;
	if (ss_cpu_stays_idle(cpu, running, due_ns))
		return;
	msg.missed = ss_interval_missed_ticks(&cpu->interval, due_ns);
	ss_cpu_tell_name(ctx, cpu, running);
	now_ns = ss_interval_now(&cpu->interval, bpf_ktime_get_ns());
	if (ss_cpu_runs(cpu, running))
		ss_cpu_take_wait(ctx, cpu, running, now_ns);
	else
		ss_cpu_set_unknown(cpu);
	ss_cpu_measure(ctx, &cpu->interval, running, now_ns, cpu->interval.tgid, SS_MEASURE_TICK);
	cpu->idles = !!(cpu->interval.flags & SS_MEASURE_IDLE);
	if (!msg.missed)
		return;
	ss_fill_hdr(&msg.hdr, SS_TICK, sizeof(msg), cpu->interval.last_ns);
	msg.due_ns = due_ns;
	ss_output(ctx, &msg.hdr, sizeof(msg));
}

#endif /* SLOTSCOPE_CPU_BPF_H */
