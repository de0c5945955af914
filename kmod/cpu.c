// SPDX-License-Identifier: GPL-2.0-only
/*
 * What each CPU has done since its last measure.
 *
 * Everything here runs on the CPU it is about, with interrupts off: the state needs no lock. Switch and
 * tick share one rule (slotscope/interval.h): bring the accumulators up to now, then emit one measure
 * for the process that has been running. A switch between two threads of one process emits nothing; its
 * counts ride on the next measure.
 *
 * Run-queue waiting is the growth of the thread's own sched_info.run_delay since its last run: the
 * scheduler adds to it just after the sched_switch tracepoint. It is counted for the thread's process,
 * on the first event after the switch-in (slotscope/waits.h). While nobody listens to ss_wait, it is the
 * growth over the switch-in, and no more is known of it.
 */
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/sched/signal.h>

#include <slotscope/cost.h>

#include "slotscope.h"
#include "trace.h"

struct ss_cpu {
	/* all fields: this CPU only, interrupts off */
	bool watched;
	u32 slot; /* of the process that runs, for ss_process_ran() */
	u32 nr_events; /* switches and ticks */
	u64 probe_ns; /* what they took, by those that were timed; others read it */
	u64 wait_group; /* of interval.wait_ns, see struct ss_grouped_measure */
	struct ss_interval interval;
};

static DEFINE_PER_CPU(struct ss_cpu, ss_cpu);

static u64 ss_cpu_begin_event(struct ss_cpu *cpu)
{
	return ++cpu->nr_events % SS_TIMED_RUNS ? 0 : ktime_get_mono_fast_ns();
}

/* With what listens to our tracepoints, which runs within. */
static void ss_cpu_end_event(struct ss_cpu *cpu, u64 begun_ns)
{
	if (likely(!begun_ns))
		return;
	WRITE_ONCE(cpu->probe_ns, cpu->probe_ns + ss_cost_of(ktime_get_mono_fast_ns() - begun_ns));
}

u64 ss_cpu_probe_ns(void)
{
	unsigned int cpu;
	u64 sum = 0;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(&ss_cpu, cpu)->probe_ns);
	return sum;
}

static void ss_cpu_set_process(struct ss_cpu *cpu, struct task_struct *p)
{
	struct ss_interval *interval = &cpu->interval;
	struct ss_process_id id;
	u32 flags = IS_ENABLED(CONFIG_SCHED_INFO) ? 0 : SS_MEASURE_NO_WAIT;

	if (p->pid == 0) {
		ss_interval_set_nobody(interval, flags | SS_MEASURE_IDLE);
		cpu->slot = SS_NO_SLOT;
		return;
	}
	if (!ss_process_switch_in(p, &id, interval->last_ns))
		flags |= SS_MEASURE_UNTRACKED;
	if (id.flags & SS_TASK_KTHREAD)
		flags |= SS_MEASURE_KTHREAD;
	interval->start_time_ns = id.start_time_ns;
	interval->tgid = id.tgid;
	interval->rmid = id.rmid;
	interval->generation = id.generation;
	interval->flags = flags;
	cpu->slot = id.slot;
}

static noinline void ss_cpu_tell_wait(struct ss_cpu *cpu, struct task_struct *running, u64 now_ns,
				      u64 wait_ns)
{
	struct ss_interval *interval = &cpu->interval;
	const u64 rode_ns = interval->wait_ns;
	struct ss_wait msg = {};

	if (unlikely(interval->wait_odd & SS_WAIT_THROTTLED) && wait_ns) {
		ss_interval_fill_wait_until(interval, &msg, raw_smp_processor_id(), now_ns,
					    interval->in_ns, wait_ns);
		ss_tell_wait(&msg, running);
		return;
	}
	wait_ns = ss_interval_add_wait(interval, wait_ns);
	if (!rode_ns && interval->wait_ns)
		cpu->wait_group = ss_wait_group(running);
	if (likely(!wait_ns))
		return;
	ss_interval_fill_wait(interval, &msg, raw_smp_processor_id(), now_ns, wait_ns);
	ss_tell_wait(&msg, running);
}

/* Most of what it costs to tell is the message, and room for it: while nobody listens, there is none. */
static __always_inline void ss_cpu_take_wait(struct ss_cpu *cpu, struct task_struct *running,
					     u64 now_ns)
{
	const u64 wait_ns = ss_interval_take_wait(&cpu->interval, ss_run_delay(running));

	if (trace_ss_wait_enabled())
		ss_cpu_tell_wait(cpu, running, now_ns, wait_ns);
	else
		cpu->interval.wait_ns += wait_ns;
}

static noinline void ss_cpu_tell_own_waits(const struct ss_interval *interval, u64 now_ns)
{
	struct ss_wait msg = {};

	ss_interval_fill_own_waits(interval, &msg, raw_smp_processor_id(), now_ns);
	trace_ss_wait(&msg);
}

static noinline void ss_cpu_tell_measure(const struct ss_cpu *cpu, u64 now_ns, s32 next_tgid,
					 u32 cause)
{
	struct ss_grouped_measure msg;

	memset(&msg, 0, sizeof(msg));
	ss_interval_fill(&cpu->interval, &msg.measure, raw_smp_processor_id(), now_ns, next_tgid,
			 cause);
	msg.measure.hdr.size = sizeof(msg);
	msg.wait_group = cpu->wait_group;
	trace_ss_measure(&msg.measure);
}

static __always_inline void ss_cpu_measure(struct ss_cpu *cpu, u64 now_ns, s32 next_tgid, u32 cause)
{
	if (unlikely(cpu->interval.self_ns))
		ss_cpu_tell_own_waits(&cpu->interval, now_ns);
	if (trace_ss_measure_enabled())
		ss_cpu_tell_measure(cpu, now_ns, next_tgid, cause);
	cpu->wait_group = 0;
	ss_interval_next(&cpu->interval, now_ns);
}

u32 ss_cpu_hold_name(void)
{
	lockdep_assert_irqs_disabled();
	return ss_interval_hold_name(&this_cpu_ptr(&ss_cpu)->interval);
}

/* Before the measure, so that the name stands in the row of the slot that it was given in. */
static void ss_cpu_tell_name(struct ss_interval *interval, struct task_struct *running)
{
	if (likely(!interval->name_held))
		return;
	interval->name_held = 0;
	ss_process_tell_name(running);
}

void ss_cpu_switch(bool preempt, struct task_struct *prev, struct task_struct *next,
		   unsigned int prev_state)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);
	struct ss_interval *interval = &cpu->interval;
	const u64 begun_ns = ss_cpu_begin_event(cpu);

	if (cpu->watched) {
		const bool ends = prev->signal != next->signal;
		u64 now_ns = 0;

		if (ends) {
			ss_cpu_tell_name(interval, prev);
			ss_rdt_leave(); /* before the clock is read */
		}
		if (ends || trace_ss_wait_enabled())
			now_ns = ss_interval_now(interval, ktime_get_mono_fast_ns());
		if (ends)
			ss_rdt_left(now_ns);
		ss_cpu_take_wait(cpu, prev, now_ns);
		ss_interval_count_switch(interval, preempt, prev_state, prev->pid);
		ss_waits_end_run(prev, now_ns);
		ss_waits_begin_run(interval, next, now_ns);
		if (ends) {
			ss_cpu_measure(cpu, now_ns, next->tgid,
				       ss_measure_left(preempt, prev_state, prev->in_iowait));
			ss_process_ran(cpu->slot, interval->last_ns);
			ss_cpu_set_process(cpu, next);
			ss_rdt_run(interval->rmid, interval->last_ns);
		}
	} else {
		ss_waits_end_run(prev, 0);
	}
	/* Last, also on a CPU that is not watched: the free is never before the measure it closes. */
	if (unlikely(prev_state & TASK_DEAD))
		ss_process_thread_dead(prev);
	ss_cpu_end_event(cpu, begun_ns);
}

void ss_cpu_tick(u64 due_ns)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);
	struct ss_interval *interval = &cpu->interval;
	struct ss_tick msg = {};
	u64 begun_ns, now_ns;

	if (!cpu->watched)
		return;
	begun_ns = ss_cpu_begin_event(cpu);
	ss_cpu_tell_name(interval, current);
	now_ns = ss_interval_now(interval, ktime_get_mono_fast_ns());
	ss_cpu_take_wait(cpu, current, now_ns);
	ss_cpu_measure(cpu, now_ns, interval->tgid, SS_MEASURE_TICK);
	ss_rdt_tick();

	msg.hdr.ts_ns = interval->last_ns;
	msg.hdr.type = SS_TICK;
	msg.hdr.size = sizeof(msg);
	msg.hdr.cpu = raw_smp_processor_id();
	msg.due_ns = due_ns;
	msg.missed = ss_interval_missed_ticks(interval, due_ns);
	trace_ss_tick(&msg);
	ss_cpu_end_event(cpu, begun_ns);
}

static void ss_cpu_emit_state(u64 now_ns, u32 online)
{
	struct ss_cpu_state msg = {};

	msg.hdr.ts_ns = now_ns;
	msg.hdr.type = SS_CPU_STATE;
	msg.hdr.size = sizeof(msg);
	msg.hdr.cpu = raw_smp_processor_id();
	msg.online = online;
	trace_ss_cpu_state(&msg);
}

u64 ss_cpu_lease(unsigned int cpu)
{
	const struct ss_cpu *there = per_cpu_ptr(&ss_cpu, cpu);

	if (!READ_ONCE(there->watched))
		return 0;
	return (u64)READ_ONCE(there->interval.generation) << 32 | READ_ONCE(there->interval.rmid);
}

static void ss_cpu_begin(struct ss_interval *interval)
{
	ss_interval_begin(interval, ss_interval_now(interval, ktime_get_mono_fast_ns()));
	ss_waits_begin_run(interval, current, interval->last_ns);
}

bool ss_cpu_restart(void)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);

	lockdep_assert_irqs_disabled();
	if (cpu->watched)
		ss_cpu_begin(&cpu->interval);
	return cpu->watched;
}

void ss_cpu_watch(void)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);

	lockdep_assert_irqs_disabled();
	ss_cpu_begin(&cpu->interval);
	ss_cpu_set_process(cpu, current);
	ss_rdt_run(cpu->interval.rmid, cpu->interval.last_ns);
	cpu->watched = true;
	ss_cpu_emit_state(cpu->interval.last_ns, 1);
}

void ss_cpu_unwatch(void)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);
	struct ss_interval *interval = &cpu->interval;
	u64 now_ns;

	lockdep_assert_irqs_disabled();
	if (!cpu->watched)
		return;
	now_ns = ss_interval_now(interval, ktime_get_mono_fast_ns());
	ss_cpu_take_wait(cpu, current, now_ns);
	ss_cpu_measure(cpu, now_ns, interval->tgid, 0);
	cpu->watched = false;
	ss_cpu_emit_state(interval->last_ns, 0);
}
