/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is remembered of each thread's last run, so that each of its waits is told once.
 *
 * sched_info.run_delay is all that a thread has waited. Up to where it has been told stands here: what
 * it grows by is a wait, also where the thread was moved to another queue while it waited, or where a
 * switch was hidden from us. Since when the thread has not run stands beside it: on a preempting wake-up
 * the scheduler does not update its clock, and then a wait seems to begin before the thread's own last
 * run had ended.
 *
 * One entry per residue of pids. Whoever has the lock of the run queue that a thread is on may write its
 * entry; two threads of one residue may meet there, so an entry is checked before it is believed. A
 * thread that has none is told as before: what its wait grows by while it runs.
 */
#ifndef SLOTSCOPE_WAITS_H
#define SLOTSCOPE_WAITS_H

#include <slotscope/interval.h>

#define SS_LAST_RUNS 65536u /* power of two; 2 MiB */

struct ss_last_run {
	__u64 check; /* made of the rest, and of who it is */
	__u64 run_delay; /* what of it has been told */
	__u64 out_ns; /* when it was switched out; 0: not known */
	__u32 cpu; /* and where */
	/* SS_WAIT_PHANTOM: it slept when it was moved; _THROTTLED: it was when it was switched out */
	__u32 wait_odd;
};

/* A thread among those of one residue: pids come again, and at another time. */
SS_INTERVAL_INLINE __u64 ss_thread_of(__s32 pid, __u64 start_time_ns)
{
	return start_time_ns + ((__u64)(__u32)pid << 40);
}

SS_INTERVAL_INLINE __u64 ss_last_run_check(const struct ss_last_run *run, __u64 who)
{
	return (who ^ run->run_delay * 0x9e3779b97f4a7c15ull) + run->out_ns * 0xbf58476d1ce4e5b9ull +
	       ((__u64)run->cpu << 32 | run->wait_odd);
}

/* Copies what is known of the thread `who`; 0: nothing is. */
SS_INTERVAL_INLINE int ss_last_run_get(const struct ss_last_run *from, __u64 who,
				       struct ss_last_run *run)
{
	*run = *from;
	return run->check == ss_last_run_check(run, who);
}

SS_INTERVAL_INLINE void ss_last_run_set(struct ss_last_run *to, __u64 who, struct ss_last_run *run)
{
	run->check = ss_last_run_check(run, who);
	*to = *run;
}

/*
 * The thread that begins to run at in_ns: what is known of its wait (`from` may be NULL: nothing).
 * `run_delay`: as it is now, before the scheduler adds the wait that ends.
 */
SS_INTERVAL_INLINE void ss_interval_begin_run(struct ss_interval *interval,
					      const struct ss_last_run *from, __u64 who,
					      __u64 run_delay, __u32 cpu, __u64 in_ns)
{
	struct ss_last_run run = {}; /* the verifier: who is not known has nothing */
	int known = 0;

	if (from)
		known = ss_last_run_get(from, who, &run) && run.run_delay <= run_delay;
	interval->run_delay = known ? run.run_delay : run_delay;
	interval->out_ns = known && run.cpu == cpu ? run.out_ns : 0;
	interval->wait_odd = known ? run.wait_odd : 0;
	interval->moved = known && run.out_ns && run.cpu != cpu;
	interval->in_ns = in_ns;
}

/*
 * And what is to be known of it when it ends, at out_ns; 0: it is born, or the CPU is not watched.
 * All of run_delay has been told. `odd`: SS_WAIT_THROTTLED or 0.
 */
SS_INTERVAL_INLINE void ss_last_run_end(struct ss_last_run *to, __u64 who, __u64 run_delay, __u32 cpu,
					__u64 out_ns, __u32 odd)
{
	struct ss_last_run run;

	run.run_delay = run_delay;
	run.out_ns = out_ns;
	run.cpu = cpu;
	run.wait_odd = odd;
	ss_last_run_set(to, who, &run);
}

/*
 * Of a wait that seems to begin at begin_ns, in the queue of the CPU that its thread ran on until out_ns
 * (0: on another one, or it is not known): ss_measure.cut_ns.
 */
SS_INTERVAL_INLINE __u32 ss_wait_cut(__u64 begin_ns, __u64 out_ns)
{
	const __u64 cut_ns = begin_ns < out_ns ? out_ns - begin_ns : 0;

	return cut_ns > 0xffffffff ? 0xffffffff : cut_ns;
}

/*
 * A wait of the thread that runs, which ended when it was switched in. What passed within this interval,
 * in which no other process ran, is its process's own. One more may end where the interval begins, and
 * rides on its measure: interval->wait_ns. Returns what needs a message of its own, which ends there.
 */
SS_INTERVAL_INLINE __u64 ss_interval_add_wait(struct ss_interval *interval, __u64 wait_ns)
{
	__u64 own_ns = interval->in_ns - interval->last_ns;

	if (!wait_ns || interval->wait_odd)
		return wait_ns;
	if (interval->in_ns <= interval->last_ns)
		own_ns = 0;
	if (wait_ns <= own_ns || interval->out_ns > interval->last_ns) {
		interval->self_ns += wait_ns;
		return 0;
	}
	interval->self_ns += own_ns;
	wait_ns -= own_ns;
	if (interval->wait_ns)
		return wait_ns;
	interval->wait_ns = wait_ns;
	interval->wait_flags = SS_MEASURE_ONE_WAIT;
	interval->cut_ns = ss_wait_cut(interval->last_ns - wait_ns, interval->out_ns);
	return 0;
}

/* REQUIRES: *msg is zero. In the queue of `cpu`, which tells it. */
SS_INTERVAL_INLINE void ss_wait_fill(struct ss_wait *msg, __u32 cpu, __u64 ts_ns, __u64 end_ns,
				     __u64 wait_ns, __u32 flags)
{
	msg->hdr.ts_ns = ts_ns;
	msg->hdr.type = SS_WAIT;
	msg->hdr.size = sizeof(*msg);
	msg->hdr.cpu = cpu;
	msg->end_ns = end_ns;
	msg->wait_ns = wait_ns;
	msg->queue_cpu = cpu;
	msg->flags |= flags;
}

/* Who waited. */
SS_INTERVAL_INLINE void ss_wait_set_process(struct ss_wait *msg, __s32 tgid, __u64 start_time_ns,
					    __u32 rmid, int is_kthread)
{
	msg->tgid = tgid;
	msg->start_time_ns = start_time_ns;
	msg->rmid = rmid;
	if (is_kthread)
		msg->flags |= SS_WAIT_KTHREAD;
}

SS_INTERVAL_INLINE void ss_wait_set_measure(struct ss_wait *msg, const struct ss_measure *measure)
{
	ss_wait_set_process(msg, measure->tgid, measure->start_time_ns, measure->rmid,
			    !!(measure->flags & SS_MEASURE_KTHREAD));
}

SS_INTERVAL_INLINE void ss_interval_set_waiter(const struct ss_interval *interval, struct ss_wait *msg)
{
	ss_wait_set_process(msg, interval->tgid, interval->start_time_ns, interval->rmid,
			    !!(interval->flags & SS_MEASURE_KTHREAD));
}

/* A wait that ended at end_ns. REQUIRES: *msg is zero; so do the next ones. */
SS_INTERVAL_INLINE void ss_interval_fill_wait_until(const struct ss_interval *interval,
						    struct ss_wait *msg, __u32 cpu, __u64 now_ns,
						    __u64 end_ns, __u64 wait_ns)
{
	ss_wait_fill(msg, cpu, now_ns, end_ns, wait_ns, interval->wait_odd);
	msg->cut_ns = ss_wait_cut(end_ns - wait_ns, interval->out_ns);
	ss_interval_set_waiter(interval, msg);
}

/* What ss_interval_add_wait() has returned. */
SS_INTERVAL_INLINE void ss_interval_fill_wait(const struct ss_interval *interval, struct ss_wait *msg,
					      __u32 cpu, __u64 now_ns, __u64 wait_ns)
{
	ss_interval_fill_wait_until(interval, msg, cpu, now_ns, interval->last_ns, wait_ns);
}

/* Waits within the interval, which ends at now_ns. */
SS_INTERVAL_INLINE void ss_interval_fill_own_waits(const struct ss_interval *interval,
						   struct ss_wait *msg, __u32 cpu, __u64 now_ns)
{
	ss_wait_fill(msg, cpu, now_ns, now_ns, interval->self_ns, SS_WAIT_OWN);
	msg->start_ns = interval->last_ns;
	ss_interval_set_waiter(interval, msg);
}

/* A thread that waits in the queue of `cpu` goes to another one, at now_ns: what it has waited there. */
SS_INTERVAL_INLINE void ss_last_run_fill_moved(const struct ss_last_run *run, struct ss_wait *msg,
					       __u32 by_cpu, __u32 cpu, __u64 now_ns, __u64 wait_ns)
{
	ss_wait_fill(msg, by_cpu, now_ns, now_ns, wait_ns, SS_WAIT_MOVED | run->wait_odd);
	msg->queue_cpu = cpu;
	msg->cut_ns = ss_wait_cut(now_ns - wait_ns, run->cpu == cpu ? run->out_ns : 0);
}

#endif /* SLOTSCOPE_WAITS_H */
