// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module-less source: what kmod/ does, in tp_btf programs and a timer. No RDT.
 *
 * Order of life, driven by collector/ring/native_source.cc:
 *   1. ss_allocator           filled by the collector with ss_rmid_fifo_init()
 *   2. ss_sched_switch        attached first, so that no death is missed
 *   3. ss_sched_wakeup_new, ss_sched_process_exec, ss_task_rename, and what tells texts (text.bpf.h)
 *   4. ss_walk (iter/task)    the processes that were there before; also every later state dump
 *   5. ss_recording = 1       measures begin
 *   6. the tick on each CPU
 *
 * The tick. A bpf_timer callback has no context, so it cannot write to a perf event array. It notes
 * that the border has come, and ss_hrtimer_expire_exit, which the kernel runs right after the callback
 * on the same CPU, takes the tick. Its cost on every other timer is one array look-up. Where a kernel
 * refuses bpf_timer (PREEMPT_RT), a cpu-clock perf event drives ss_tick_perf_event instead: it is not
 * aligned to the border and can miss ticks on an idle CPU.
 */
#include "cost.bpf.h"
#include "cpu.bpf.h"
#include "text.bpf.h"

#include <bpf/bpf_tracing.h>

#define SS_CLOCK_MONOTONIC 1

static __always_inline int ss_switched(void *ctx, bool preempt, struct task_struct *prev,
				       struct task_struct *next, unsigned int prev_state)
{
	const __u64 begun_ns = ss_cost_begin();
	struct ss_process *process;

	prev = ss_task_to_read(prev);
	next = ss_task_to_read(next);
	ss_cpu_switch(ctx, preempt, prev, next, prev_state);

	/* Last: the free is never before the measure that it closes. */
	if (prev_state & SS_TASK_DEAD) {
		process = ss_process_find(prev);
		if (process)
			ss_thread_uncount(ctx, prev, process);
		else
			SS_COUNT(ss_nr_unknown_dead);
	}
	ss_cost_end(begun_ns);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(ss_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return ss_switched(ctx, preempt, prev, next, prev_state);
}

/*
 * Of kernels before 5.18, which do not pass the state (added in fa2c3254d7cf). It is looked up: whoever
 * is woken on another CPU just now looks like one that was preempted.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(ss_sched_switch_stateless, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	return ss_switched(ctx, preempt, prev, next, prev->__state);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(ss_sched_wakeup_new, struct task_struct *task)
{
	struct task_struct *p = ss_task_to_read(task);
	struct ss_process *process = ss_process_find(p);
	struct ss_rmid_event event = {};
	struct ss_task_meta meta;
	bool created = false;

	ss_cpu_end_run(p, 0);
	/* A new process cannot be in the table, unless the walk was faster. */
	if (process && p->pid == p->tgid && process->start_time_ns != p->start_time) {
		SS_COUNT(ss_nr_stale);
		ss_process_put(ctx, process, (__u64)p->signal, 0, true, true);
		process = NULL;
	}
	if (!process && p->pid == p->tgid)
		process = ss_process_insert(p, 0, &created);
	if (!process) {
		if (p->pid == p->tgid)
			SS_COUNT(ss_nr_untracked);
		return 0;
	}
	ss_thread_count(p, process);
	if (!created)
		return 0;
	if (!(process->flags & SS_TASK_KTHREAD)) {
		int rmid = ss_process_lease(process, (__u64)p->signal, &event);

		if (rmid == SS_RMID_NONE_FREE)
			SS_COUNT(ss_nr_failed_none);
		else if (rmid == SS_RMID_IN_LIMBO)
			SS_COUNT(ss_nr_failed_limbo);
		if (event.hdr.type)
			ss_output(ctx, &event.hdr, sizeof(event));
	}
	ss_fill_task_meta(&meta, process, p, p->comm, SS_TASK_BIRTH);
	ss_output(ctx, &meta.hdr, sizeof(meta));
	return 0;
}

/*
 * A thread that waits goes to another CPU's queue: the scheduler has just added what it has waited in
 * the old one. The run queue that it leaves is locked.
 */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(ss_sched_migrate_task, struct task_struct *task)
{
	struct task_struct *p = ss_task_to_read(task);
	struct ss_last_run *last, run;
	struct ss_sender *sender;
	struct ss_process *process;
	struct ss_wait msg = {};
	__u64 run_delay, wait_ns, now_ns;
	__u32 cpu;

	if (!ss_is_queued(p))
		return 0;
	last = ss_last_run_of(p);
	run_delay = ss_run_delay(p);
	if (!last)
		return 0;
	if (!ss_last_run_get(last, ss_this_thread(p), &run)) {
		__builtin_memset(&run, 0, sizeof(run));
		run.run_delay = run_delay;
	}
	if (run.run_delay < run_delay && !ss_recording) {
		run.run_delay = run_delay;
	} else if (run.run_delay < run_delay) {
		process = ss_process_find(p);
		sender = ss_this_sender();
		if (process && sender) {
			now_ns = bpf_ktime_get_ns();
			cpu = ss_queue_of(p);
			wait_ns = run_delay - run.run_delay;
			ss_last_run_fill_moved(&run, &msg, bpf_get_smp_processor_id(), cpu,
					       now_ns, wait_ns);
			ss_set_wait_process(&msg, process);
			if (!ss_tell_if_throttled(ctx, sender, &msg, ss_group_of(p)))
				ss_send_wait(ctx, sender, &msg);
		}
		run.run_delay = run_delay;
	}
	if (ss_sleeps_in_queue(p))
		run.wait_odd = SS_WAIT_PHANTOM;
	else if (!(run.wait_odd & SS_WAIT_PHANTOM))
		run.wait_odd = ss_is_throttled(p);
	ss_last_run_set(last, ss_this_thread(p), &run);
	return 0;
}

static __always_inline void ss_process_renamed(void *ctx, struct task_struct *p, const char *comm,
					       __u32 cause)
{
	struct ss_process *process = ss_process_find(p);
	struct ss_task_meta meta;

	if (!process)
		return;
	if (cause == SS_TASK_RENAME && !ss_process_may_tell_rename(process)) {
		ss_cpu_hold_name(p);
		return;
	}
	ss_fill_task_meta(&meta, process, p, comm, cause);
	ss_output(ctx, &meta.hdr, sizeof(meta));
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(ss_sched_process_exec, struct task_struct *p)
{
	p = ss_task_to_read(p);
	ss_process_renamed(ctx, p, p->comm, SS_TASK_EXEC);
	return 0;
}

/* Fires before the kernel copies comm into the task. A process is named by its leader. */
SEC("tp_btf/task_rename")
int BPF_PROG(ss_task_rename, struct task_struct *p, const char *comm)
{
	p = ss_task_to_read(p);
	if (p->pid == p->tgid)
		ss_process_renamed(ctx, p, comm, SS_TASK_RENAME);
	return 0;
}

/*
 * One thread: counts it if nobody has, and for a leader writes its state to the reader. The reader gets
 * the messages by read() and not through the perf buffer, so that a dump of any size cannot overflow it.
 */
SEC("iter/task")
int ss_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct ss_rmid_event event = {};
	struct ss_process *process;
	struct ss_task_meta meta;
	bool created = false;

	/* A new thread's sched_wakeup_new is still to come. */
	if (!p)
		return 0;
	p = ss_task_to_read(p);
	if (p->__state & (SS_TASK_DEAD | SS_TASK_NEW))
		return 0;
	ss_cpu_seed_run(p);
	process = ss_process_find(p);
	if (!process)
		process = ss_process_insert(p, 0, &created);
	if (!process)
		return 0;
	ss_thread_count(p, process);
	if (p->__state & SS_TASK_DEAD) { /* it died meanwhile: its last switch may be behind us */
		ss_thread_uncount(ctx, p, process);
		return 0;
	}
	if (created && !(process->flags & SS_TASK_KTHREAD)) {
		ss_process_lease(process, (__u64)p->signal, &event);
		if (event.hdr.type)
			bpf_seq_write(ctx->meta->seq, &event, sizeof(event));
	}
	/* Once per process; where the leader has exited, once per thread. */
	if (p->pid != p->tgid && !created && !(p->group_leader->__state & SS_TASK_DEAD))
		return 0;
	ss_fill_task_meta(&meta, process, p->group_leader, p->group_leader->comm, SS_TASK_EXISTING);
	if (process->owner != (__u64)p->signal) /* it ended, and the entry may be another's by now */
		return 0;
	bpf_seq_write(ctx->meta->seq, &meta, sizeof(meta));
	if (process->lease) {
		struct ss_allocator *allocator = ss_get_allocator();
		__u64 now_ns = bpf_ktime_get_ns(), lease, seq;

		if (!allocator)
			return 0;
		bpf_spin_lock(&allocator->lock);
		ss_rmid_fifo_clamp(&allocator->fifo, &now_ns);
		lease = process->owner == (__u64)p->signal ? process->lease : 0;
		seq = allocator->fifo.seq;
		bpf_spin_unlock(&allocator->lock);
		if (!lease)
			return 0;
		ss_fill_rmid_event(&event, SS_RMID_EXISTING, now_ns, seq, process, lease, 0);
		bpf_seq_write(ctx->meta->seq, &event, sizeof(event));
	}
	return 0;
}

/* The tick, by timer. Its own map: 6.1 refuses a timer map that a spin lock is near. */

struct ss_timer {
	struct bpf_timer timer;
	__u64 due_ns; /* the border it is armed for */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the collector: possible CPUs */
	__type(key, __u32);
	__type(value, struct ss_timer);
} ss_timers SEC(".maps");

/*
 * Flags of bpf_timer_start: 3 = absolute and pinned, 1 = absolute, 0 = relative. The collector tries
 * them in this order (6.1 knows neither flag).
 */
unsigned int ss_timer_flags;

/* [cpu] 0: its timer was not started, or it stopped because it had moved to another CPU. */
unsigned int ss_timer_armed[SS_MAX_CPUS];

static __always_inline void ss_set_timer_armed(__u32 cpu, bool armed)
{
	SS_FIFO_OPAQUE(cpu);
	cpu &= SS_MAX_CPUS - 1;
	if (ss_timer_armed[cpu] != armed) /* its line is that of other CPUs, which tick now, too */
		ss_timer_armed[cpu] = armed;
}

static __always_inline long ss_timer_arm(struct ss_timer *timer, __u32 cpu, __u64 now_ns)
{
	__u64 due_ns = now_ns - now_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS;
	long err;

	timer->due_ns = due_ns;
	if (ss_timer_flags)
		err = bpf_timer_start(&timer->timer, due_ns, ss_timer_flags);
	else
		err = bpf_timer_start(&timer->timer, due_ns - now_ns, 0);
	ss_set_timer_armed(cpu, !err);
	return err;
}

static int ss_timer_fired(void *map, __u32 *key, struct ss_timer *timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct ss_cpu *state = bpf_map_lookup_elem(&ss_cpus, &cpu);

	if (!state || cpu != *key) {
		ss_set_timer_armed(*key, false); /* its CPU went offline; the collector starts it anew */
		return 0;
	}
	if (!ss_cpu_stays_idle(state, ss_task_to_read(bpf_get_current_task_btf()), timer->due_ns))
		state->tick_due_ns = timer->due_ns;
	ss_timer_arm(timer, cpu, bpf_ktime_get_ns());
	return 0;
}

/* Run on the CPU whose tick it starts. Returns 0 or a positive errno. */
SEC("syscall")
int ss_start_timer(void *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct ss_timer *timer = bpf_map_lookup_elem(&ss_timers, &cpu);
	long err;

	if (!timer)
		return 2;
	err = bpf_timer_init(&timer->timer, &ss_timers, SS_CLOCK_MONOTONIC);
	if (err && err != -16 /* EBUSY: it has been before */)
		return -err;
	err = bpf_timer_set_callback(&timer->timer, ss_timer_fired);
	if (!err)
		err = ss_timer_arm(timer, cpu, bpf_ktime_get_ns());
	return -err;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(ss_hrtimer_expire_exit)
{
	struct task_struct *running = ss_task_to_read(bpf_get_current_task_btf());
	struct ss_cpu *cpu = ss_this_cpu();
	__u32 epoch = ss_watch_epoch();
	__u64 due_ns, begun_ns;

	if (!cpu || !cpu->tick_due_ns)
		return 0;
	begun_ns = ss_cost_begin();
	due_ns = cpu->tick_due_ns;
	cpu->tick_due_ns = 0;
	if (epoch && ss_recording && cpu->epoch != epoch)
		ss_cpu_watch(ctx, cpu, epoch, running);
	else
		ss_cpu_tick(ctx, cpu, running, due_ns);
	/* A switch was missed: from here on we know again who runs. */
	if (cpu->epoch && !ss_cpu_runs(cpu, running)) {
		ss_cpu_set_thread(cpu, running, cpu->interval.last_ns);
		cpu->interval.wait_odd |= SS_WAIT_HIDDEN;
		ss_cpu_set_process(ctx, cpu, running);
	}
	ss_cost_end(begun_ns);
	return 0;
}

SEC("perf_event")
int ss_tick_perf_event(void *ctx)
{
	const __u64 begun_ns = ss_cost_begin();
	struct ss_cpu *cpu = ss_this_cpu();

	if (cpu)
		ss_cpu_tick(ctx, cpu, ss_task_to_read(bpf_get_current_task_btf()), bpf_ktime_get_ns());
	ss_cost_end(begun_ns);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
