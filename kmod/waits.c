// SPDX-License-Identifier: GPL-2.0-only
/*
 * What has been told of each thread's waiting (slotscope/waits.h), and of threads that are moved while
 * they wait. Probes run with interrupts off, and with the lock of the run queue that the thread is on;
 * they do nothing while nobody listens to ss_wait.
 */
#include <linux/idr.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/vmalloc.h>

#include "slotscope.h"
#include "trace.h"

#define SS_THREADS_AT_ONCE 1000 /* of those that are there: some 50 us */

/* Tracefs may begin to listen before load and after unload, too. */
static DEFINE_MUTEX(ss_waits_mutex); /* the next two, and to write the third */
static bool ss_waits_heard;
static struct ss_last_run *ss_last_runs;
/* What probes look at: the table while somebody listens, or is about to. */
static struct ss_last_run *ss_heard_runs;

static void ss_waits_set_table(struct ss_last_run *table)
{
	mutex_lock(&ss_waits_mutex);
	swap(ss_last_runs, table);
	WRITE_ONCE(ss_heard_runs, ss_waits_heard ? ss_last_runs : NULL);
	mutex_unlock(&ss_waits_mutex);
	vfree(table);
}

int ss_waits_init(void)
{
	if (!ss_fault_here())
		ss_waits_set_table(vzalloc(array_size(SS_LAST_RUNS, sizeof(*ss_last_runs))));
	return ss_last_runs ? 0 : -ENOMEM;
}

void ss_waits_exit(void)
{
	ss_waits_set_table(NULL);
}

/* SS_WAIT_THROTTLED or 0. */
static u32 ss_is_throttled(const struct task_struct *p)
{
#if defined(SS_HAS_TASK_THROTTLED) && defined(CONFIG_CFS_BANDWIDTH)
	return p->throttled ? SS_WAIT_THROTTLED : 0;
#else
	return 0;
#endif
}

/* NULL: of the idle task, and while nobody listens, nothing is remembered. */
static struct ss_last_run *ss_last_run_of(const struct task_struct *p)
{
	struct ss_last_run *runs = READ_ONCE(ss_heard_runs);

	return runs && p->pid ? &runs[(u32)p->pid % SS_LAST_RUNS] : NULL;
}

static u64 ss_this_thread(const struct task_struct *p)
{
	return ss_thread_of(p->pid, p->start_time);
}

static bool ss_sleeps_in_queue(const struct task_struct *p)
{
#ifdef SS_HAS_SCHED_DELAYED
	return p->se.sched_delayed;
#else
	return false;
#endif
}

/*
 * A thread that has not been seen yet: what it has waited in queues that it has left is not to be told,
 * what it waits in the one that it is in is, also if it is moved before it runs. Its queue is not
 * locked, so a probe may write meanwhile; then run_delay has grown, and what was written last stays.
 */
static void ss_waits_seed(const struct task_struct *p)
{
	struct ss_last_run *last = ss_last_run_of(p);
	int tries = 3; /* each but the first means that it has just been switched in, or moved */
	u64 run_delay;

	if (!last)
		return;
	do {
		run_delay = ss_run_delay(p);
		ss_last_run_end(last, ss_this_thread(p), run_delay, 0, 0,
				ss_sleeps_in_queue(p) ? SS_WAIT_PHANTOM : 0);
		smp_mb(); /* written before it is read again */
	} while (run_delay != ss_run_delay(p) && --tries);
}

static void ss_waits_seed_all(void)
{
	int next = 1, nr;

	while (next) {
		rcu_read_lock();
		for (nr = 0; next && nr < SS_THREADS_AT_ONCE; nr++) {
			struct pid *pid = idr_get_next(&init_pid_ns.idr, &next);
			const struct task_struct *p = pid ? pid_task(pid, PIDTYPE_PID) : NULL;

			if (p)
				ss_waits_seed(p);
			next = pid ? next + 1 : 0;
		}
		rcu_read_unlock();
		cond_resched();
	}
}

/*
 * Somebody begins to listen, and nobody did until now: no probe looks at the table. What threads have
 * waited since somebody listened last was never told, and is not to be. When this returns, what probes
 * tell is heard; they remember from before the first thread is seeded on.
 */
int ss_waits_listen(void)
{
	mutex_lock(&ss_waits_mutex);
	ss_waits_heard = true;
	if (ss_last_runs) {
		memset(ss_last_runs, 0, SS_LAST_RUNS * sizeof(*ss_last_runs));
		WRITE_ONCE(ss_heard_runs, ss_last_runs);
		synchronize_rcu(); /* each probe that runs from here on looks at it */
		ss_waits_seed_all();
	}
	mutex_unlock(&ss_waits_mutex);
	return 0;
}

/* Nobody listens any more. */
void ss_waits_ignore(void)
{
	mutex_lock(&ss_waits_mutex);
	ss_waits_heard = false;
	WRITE_ONCE(ss_heard_runs, NULL);
	mutex_unlock(&ss_waits_mutex);
}

void ss_waits_begin_run(struct ss_interval *interval, struct task_struct *p, u64 in_ns)
{
	ss_interval_begin_run(interval, ss_last_run_of(p), ss_this_thread(p), ss_run_delay(p),
			      raw_smp_processor_id(), in_ns);
}

void ss_waits_end_run(struct task_struct *p, u64 out_ns)
{
	struct ss_last_run *last = ss_last_run_of(p);

	if (last)
		ss_last_run_end(last, ss_this_thread(p), ss_run_delay(p), raw_smp_processor_id(),
				out_ns, ss_is_throttled(p));
}

u64 ss_wait_group(const struct task_struct *p)
{
#ifdef CONFIG_CGROUP_SCHED
	if (p->prio >= MAX_RT_PRIO)
		return (unsigned long)p->sched_task_group;
#endif
	return 0;
}

void ss_tell_wait(const struct ss_wait *msg, const struct task_struct *p)
{
	struct ss_grouped_wait grouped = { .wait = *msg };

	grouped.wait.hdr.size = sizeof(grouped);
	grouped.wait_group = ss_wait_group(p);
	trace_ss_wait(&grouped.wait);
}

void ss_waits_migrate(struct task_struct *p)
{
	const u64 run_delay = ss_run_delay(p);
	struct ss_last_run run, *last = ss_last_run_of(p);
	struct ss_process_id id;

	if (!last)
		return;
	if (!ss_last_run_get(last, ss_this_thread(p), &run)) {
		memset(&run, 0, sizeof(run));
		run.run_delay = run_delay;
	}
	if (run.run_delay < run_delay) {
		if (ss_process_identify(p, &id)) {
			const u64 now_ns = ktime_get_mono_fast_ns();
			const u64 wait_ns = run_delay - run.run_delay;
			struct ss_wait msg = {};

			ss_last_run_fill_moved(&run, &msg, raw_smp_processor_id(), task_cpu(p),
					       now_ns, wait_ns);
			ss_wait_set_process(&msg, id.tgid, id.start_time_ns, id.rmid,
					    id.flags & SS_TASK_KTHREAD);
			ss_tell_wait(&msg, p);
		}
		run.run_delay = run_delay;
	}
	if (ss_sleeps_in_queue(p))
		run.wait_odd = SS_WAIT_PHANTOM;
	else if (!(run.wait_odd & SS_WAIT_PHANTOM))
		run.wait_odd = ss_is_throttled(p);
	ss_last_run_set(last, ss_this_thread(p), &run);
}
