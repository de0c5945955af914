// SPDX-License-Identifier: GPL-2.0-only
/*
 * What each CPU has done since its last measure.
 *
 * Everything here runs on the CPU it is about, with interrupts off: the state needs no lock. Switch and
 * tick share one rule: bring the accumulators up to now, then emit one measure for the process that
 * has been running. A switch between two threads of one process emits nothing; its counts ride on
 * the next measure.
 *
 * Run-queue waiting is the growth of the thread's own sched_info.run_delay over its switch-in: the
 * scheduler adds to it just after the sched_switch tracepoint. It is counted for the thread's process,
 * on the first event after the switch-in. What a thread waited on a run queue that it was moved away
 * from, while still waiting, has been added earlier and is not seen.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/sched/signal.h>

#include "slotscope.h"
#include "trace.h"

struct ss_cpu {
	/* all fields: this CPU only, interrupts off */
	bool watched;
	u32 seq;
	u64 last_ns; /* ts_ns of the last measure, or since when the CPU is watched */
	u64 wait_ns; /* accumulators since then */
	u32 switches;
	u32 preemptions;
	u64 run_delay; /* of the thread that runs, as last seen */
	u64 last_due_ns; /* of the previous tick */
	u32 flags; /* SS_MEASURE_* of the process that runs */
	struct ss_process_id id; /* the process that runs */
};

static DEFINE_PER_CPU(struct ss_cpu, ss_cpu);

static u64 ss_run_delay(const struct task_struct *p)
{
#ifdef CONFIG_SCHED_INFO
	return p->sched_info.run_delay;
#else
	return 0;
#endif
}

static void ss_cpu_set_process(struct ss_cpu *cpu, struct task_struct *p)
{
	cpu->flags = IS_ENABLED(CONFIG_SCHED_INFO) ? 0 : SS_MEASURE_NO_WAIT;
	if (p->pid == 0) {
		memset(&cpu->id, 0, sizeof(cpu->id));
		cpu->id.slot = SS_NO_SLOT;
		cpu->flags |= SS_MEASURE_IDLE;
		return;
	}
	if (!ss_process_switch_in(p, &cpu->id, cpu->last_ns))
		cpu->flags |= SS_MEASURE_UNTRACKED;
	if (cpu->id.flags & SS_TASK_KTHREAD)
		cpu->flags |= SS_MEASURE_KTHREAD;
}

/* The running thread's wait, which the scheduler has added since we looked last. */
static void ss_cpu_take_wait(struct ss_cpu *cpu, const struct task_struct *running)
{
	u64 run_delay = ss_run_delay(running);

	if (run_delay > cpu->run_delay)
		cpu->wait_ns += run_delay - cpu->run_delay;
	cpu->run_delay = run_delay;
}

static void ss_cpu_emit_measure(const struct ss_cpu *cpu, u64 now_ns, s32 next_tgid, u32 cause)
{
	struct ss_measure msg;

	memset(&msg, 0, sizeof(msg));
	msg.hdr.ts_ns = now_ns;
	msg.hdr.type = SS_MEASURE;
	msg.hdr.size = sizeof(msg);
	msg.hdr.cpu = raw_smp_processor_id();
	msg.start_ns = cpu->last_ns;
	msg.start_time_ns = cpu->id.start_time_ns;
	msg.wait_ns = cpu->wait_ns;
	msg.tgid = cpu->id.tgid;
	msg.next_tgid = next_tgid;
	msg.seq = cpu->seq;
	msg.rmid = cpu->id.rmid;
	msg.generation = cpu->id.generation;
	msg.flags = cpu->flags | cause;
	msg.switches = cpu->switches;
	msg.preemptions = cpu->preemptions;
	trace_ss_measure(&msg);
}

/* Most of what a measure costs is its message: while nobody listens, there is none. */
static void ss_cpu_measure(struct ss_cpu *cpu, u64 now_ns, s32 next_tgid, u32 cause)
{
	if (trace_ss_measure_enabled())
		ss_cpu_emit_measure(cpu, now_ns, next_tgid, cause);
	cpu->seq++;
	cpu->last_ns = now_ns;
	cpu->wait_ns = 0;
	cpu->switches = 0;
	cpu->preemptions = 0;
}

/* The clock may step back by nanoseconds when the timekeeper is updated; measures must not. */
static u64 ss_cpu_now(const struct ss_cpu *cpu)
{
	return max(ktime_get_mono_fast_ns(), cpu->last_ns);
}

void ss_cpu_switch(bool preempt, struct task_struct *prev, struct task_struct *next,
		   unsigned int prev_state)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);

	if (cpu->watched) {
		ss_cpu_take_wait(cpu, prev);
		cpu->run_delay = ss_run_delay(next);
		cpu->switches++;
		/* As the kernel's nivcsw (but for signals); the idle task is never preempted. */
		if ((preempt || !prev_state) && prev->pid)
			cpu->preemptions++;
		if (prev->signal != next->signal) {
			ss_rdt_leave(); /* before the clock is read */
			ss_cpu_measure(cpu, ss_cpu_now(cpu), next->tgid, 0);
			ss_process_ran(cpu->id.slot, cpu->last_ns);
			ss_cpu_set_process(cpu, next);
			ss_rdt_run(cpu->id.rmid, cpu->last_ns);
		}
	}
	/* Last, also on a CPU that is not watched: the free is never before the measure it closes. */
	if (unlikely(prev_state & TASK_DEAD))
		ss_process_thread_dead(prev);
}

void ss_cpu_tick(u64 due_ns)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);
	struct ss_tick msg = {};

	if (!cpu->watched)
		return;
	ss_cpu_take_wait(cpu, current);
	ss_cpu_measure(cpu, ss_cpu_now(cpu), cpu->id.tgid, SS_MEASURE_TICK);
	ss_rdt_tick();

	msg.hdr.ts_ns = cpu->last_ns;
	msg.hdr.type = SS_TICK;
	msg.hdr.size = sizeof(msg);
	msg.hdr.cpu = raw_smp_processor_id();
	msg.due_ns = due_ns;
	if (cpu->last_due_ns)
		msg.missed = div64_u64(due_ns - cpu->last_due_ns, SS_TICK_PERIOD_NS) - 1;
	cpu->last_due_ns = due_ns;
	trace_ss_tick(&msg);
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

bool ss_cpu_runs(unsigned int cpu, u64 lease)
{
	const struct ss_cpu *there = per_cpu_ptr(&ss_cpu, cpu);

	return READ_ONCE(there->watched) && READ_ONCE(there->id.rmid) == (u32)lease &&
	       READ_ONCE(there->id.generation) == (u32)(lease >> 32);
}

static void ss_cpu_begin(struct ss_cpu *cpu)
{
	cpu->last_ns = ss_cpu_now(cpu);
	cpu->wait_ns = 0;
	cpu->switches = 0;
	cpu->preemptions = 0;
	cpu->run_delay = ss_run_delay(current);
	cpu->last_due_ns = 0;
}

bool ss_cpu_restart(void)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);

	lockdep_assert_irqs_disabled();
	if (cpu->watched)
		ss_cpu_begin(cpu);
	return cpu->watched;
}

void ss_cpu_watch(void)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);

	lockdep_assert_irqs_disabled();
	ss_cpu_begin(cpu);
	ss_cpu_set_process(cpu, current);
	ss_rdt_run(cpu->id.rmid, cpu->last_ns);
	cpu->watched = true;
	ss_cpu_emit_state(cpu->last_ns, 1);
}

void ss_cpu_unwatch(void)
{
	struct ss_cpu *cpu = this_cpu_ptr(&ss_cpu);

	lockdep_assert_irqs_disabled();
	if (!cpu->watched)
		return;
	ss_cpu_take_wait(cpu, current);
	ss_cpu_measure(cpu, ss_cpu_now(cpu), cpu->id.tgid, 0);
	cpu->watched = false;
	ss_cpu_emit_state(cpu->last_ns, 0);
}
