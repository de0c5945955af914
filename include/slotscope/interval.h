/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The time of a CPU since its last measure: who runs, and what has been counted.
 *
 * One rule for the kernel module and the eBPF source: each switch and each tick brings the accumulators
 * up to now, a measure tells them, and the next interval begins where it ends. The state is of one CPU
 * and needs no lock; it reads no clock and calls nothing.
 */
#ifndef SLOTSCOPE_INTERVAL_H
#define SLOTSCOPE_INTERVAL_H

#include <slotscope/events.h>

/* A kernel of 32 bits divides by a function, which who includes this names. */
#ifndef SS_DIV64
#define SS_DIV64(a, b) ((a) / (b))
#endif

#define SS_INTERVAL_INLINE static inline __attribute__((always_inline))

/* SS_MEASURE_HAS_* of what is counted here: all measures have them, ss_interval.flags does not. */
#define SS_INTERVAL_HAS 0u

struct ss_interval {
	__u64 last_ns; /* ts_ns of the last measure, or since when the CPU is watched */
	__u64 wait_ns; /* accumulators since then */
	__u32 switches;
	__u32 preemptions;
	__u64 run_delay; /* of the thread that runs, as last seen */
	__u64 in_ns; /* when it was switched in, and its out_ns: see slotscope/waits.h */
	__u64 out_ns;
	__u64 self_ns; /* accumulator: waits within the interval */
	__u64 last_due_ns; /* of the previous tick; 0: there was none */
	__u64 start_time_ns; /* the process that runs, as in ss_measure */
	__s32 tgid;
	__u32 rmid;
	__u32 generation;
	__u32 flags; /* SS_MEASURE_* of it */
	__u32 seq;
	__u32 name_held; /* 1: it has a name that was not sent (SS_RENAMES_MAX) */
	__u32 wait_flags; /* SS_MEASURE_* of wait_ns */
	__u32 cut_ns; /* of it */
	__u32 wait_odd; /* SS_WAIT_* of the thread's wait; 0: it passed as waits do */
	__u32 migrations; /* accumulator */
	__u32 moved; /* 1: the thread's last run was on another CPU */
	__u32 zero;
};

SS_INTERVAL_INLINE void ss_interval_clear_counts(struct ss_interval *interval)
{
	interval->wait_ns = 0;
	interval->self_ns = 0;
	interval->wait_flags = 0;
	interval->cut_ns = 0;
	interval->switches = 0;
	interval->preemptions = 0;
	interval->migrations = 0;
}

/* The CPU is watched from now_ns on. */
SS_INTERVAL_INLINE void ss_interval_begin(struct ss_interval *interval, __u64 now_ns)
{
	interval->last_ns = now_ns;
	interval->last_due_ns = 0;
	ss_interval_clear_counts(interval);
}

SS_INTERVAL_INLINE void ss_interval_count_switch(struct ss_interval *interval, int preempt,
						 unsigned int prev_state, int prev_pid)
{
	interval->switches++;
	/* As the kernel's nivcsw (but for signals); the idle task is never preempted. */
	if ((preempt || !prev_state) && prev_pid)
		interval->preemptions++;
}

/*
 * Of a thread that is switched out, as in a measure's flags. prev_state: as the kernel tells it (its
 * values are the same from 5.14 to 7.3). Only who sleeps in the kernel's way can be in_iowait.
 */
SS_INTERVAL_INLINE __u32 ss_measure_left(int preempt, unsigned int prev_state, int in_iowait)
{
	enum ss_left left = SS_LEFT_BLOCKED;

	if (preempt || !prev_state)
		left = SS_LEFT_RUNNABLE;
	else if (prev_state & 0xb0) /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */
		left = SS_LEFT_ENDED;
	else if (prev_state & 0x8) /* __TASK_TRACED */
		left = SS_LEFT_TRACED;
	else if (prev_state & 0x8004) /* TASK_FROZEN, __TASK_STOPPED */
		left = SS_LEFT_STOPPED;
	else if (prev_state & 0x441) /* TASK_NOLOAD: idle; TASK_PARKED, TASK_INTERRUPTIBLE */
		left = SS_LEFT_ASLEEP;
	else if (in_iowait)
		left = SS_LEFT_DISK;
	return (__u32)left << SS_MEASURE_LEFT_SHIFT;
}

/*
 * The process that runs has a new name, which is not sent now. Returns how many names of it will never
 * be: the one that was held until now.
 */
SS_INTERVAL_INLINE __u32 ss_interval_hold_name(struct ss_interval *interval)
{
	const __u32 held = interval->name_held;

	interval->name_held = 1;
	return held;
}

/*
 * Counts that the running thread was moved. Returns its wait, which the scheduler has added since we
 * looked last.
 */
SS_INTERVAL_INLINE __u64 ss_interval_take_wait(struct ss_interval *interval, __u64 run_delay)
{
	const __u64 wait_ns = run_delay > interval->run_delay ? run_delay - interval->run_delay : 0;

	interval->run_delay = run_delay;
	interval->migrations += interval->moved;
	interval->moved = 0;
	return wait_ns;
}

/* The clock may step back by nanoseconds when the timekeeper is updated; measures must not. */
SS_INTERVAL_INLINE __u64 ss_interval_now(const struct ss_interval *interval, __u64 clock_ns)
{
	return clock_ns > interval->last_ns ? clock_ns : interval->last_ns;
}

/* REQUIRES: *msg is zero. Counters are not touched. */
SS_INTERVAL_INLINE void ss_interval_fill(const struct ss_interval *interval, struct ss_measure *msg,
					 __u32 cpu, __u64 now_ns, __s32 next_tgid, __u32 cause)
{
	msg->hdr.ts_ns = now_ns;
	msg->hdr.type = SS_MEASURE;
	msg->hdr.size = sizeof(*msg);
	msg->hdr.cpu = cpu;
	msg->start_ns = interval->last_ns;
	msg->start_time_ns = interval->start_time_ns;
	msg->wait_ns = interval->wait_ns;
	msg->tgid = interval->tgid;
	msg->next_tgid = next_tgid;
	msg->seq = interval->seq;
	msg->rmid = interval->rmid;
	msg->generation = interval->generation;
	msg->flags = interval->flags | interval->wait_flags | SS_INTERVAL_HAS | cause;
	msg->switches = interval->switches;
	msg->preemptions = interval->preemptions;
	msg->migrations = interval->migrations;
	msg->cut_ns = interval->cut_ns;
}

/* It has been measured; the next one begins at now_ns, whoever runs. */
SS_INTERVAL_INLINE void ss_interval_next(struct ss_interval *interval, __u64 now_ns)
{
	interval->seq++;
	interval->last_ns = now_ns;
	ss_interval_clear_counts(interval);
}

/* Nobody runs that has a name: flags says why. */
SS_INTERVAL_INLINE void ss_interval_set_nobody(struct ss_interval *interval, __u32 flags)
{
	interval->start_time_ns = 0;
	interval->tgid = 0;
	interval->rmid = 0;
	interval->generation = 0;
	interval->flags = flags;
}

/* Of a tick that was due at due_ns: how many before it did not come. */
SS_INTERVAL_INLINE __u32 ss_interval_missed_ticks(struct ss_interval *interval, __u64 due_ns)
{
	const __u64 last_ns = interval->last_due_ns;

	interval->last_due_ns = due_ns;
	if (!last_ns || due_ns <= last_ns + SS_TICK_PERIOD_NS)
		return 0;
	return SS_DIV64(due_ns - last_ns + SS_TICK_PERIOD_NS / 2, SS_TICK_PERIOD_NS) - 1;
}

SS_STATIC_ASSERT(sizeof(struct ss_interval) == 120, "ss_interval");

#endif /* SLOTSCOPE_INTERVAL_H */
