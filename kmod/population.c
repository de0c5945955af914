// SPDX-License-Identifier: GPL-2.0-only
/*
 * The processes that were there before the module.
 *
 * The walk runs in stop_machine, after the probes are registered and while they are still inert; its
 * last act arms them. So no thread is missed or counted twice: a thread in TASK_NEW has its
 * sched_wakeup_new still to come (that tracepoint fires with interrupts off, so it cannot straddle the
 * stop), and a TASK_DEAD one has been switched out for the last time (it gets there with preemption
 * off).
 *
 * Known hole, accepted: a thread that was already released but is not yet switched out for the last
 * time is not in the list. Its dead switch finds its process gone (unknown_dead), or takes one off a
 * count too many. Then live > 0 keeps the process, but in its exit_group its last but one thread is
 * taken for the last, and what the last one still does is counted to the RMID's next owner if it takes
 * longer than the limbo. The window at load is from exit_notify() to the end of do_exit(), some
 * microseconds.
 */
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/stop_machine.h>
#include <linux/ktime.h>

#include "slotscope.h"

static struct {
	u32 nr_threads;
	u32 nr_new;
	u32 nr_dead;
	u64 duration_ns;
} ss_walk;

static int ss_walk_stopped(void *unused)
{
	struct task_struct *leader, *p;
	u64 start_ns = ktime_get_mono_fast_ns();

	rcu_read_lock();
	for_each_process_thread(leader, p) {
		unsigned int state = READ_ONCE(p->__state);

		if (state == TASK_NEW) {
			ss_walk.nr_new++;
		} else if (state & TASK_DEAD) {
			ss_walk.nr_dead++;
		} else {
			ss_walk.nr_threads++;
			ss_process_thread_existing(p);
		}
	}
	rcu_read_unlock();
	WRITE_ONCE(ss_probes_armed, true);
	ss_walk.duration_ns = ktime_get_mono_fast_ns() - start_ns;
	return 0;
}

int ss_population_walk(void)
{
	return ss_fault_here() ? -ENOMEM : stop_machine(ss_walk_stopped, NULL, NULL);
}

void ss_population_show(struct seq_file *m)
{
	seq_printf(m, "walk_threads: %u\n", ss_walk.nr_threads);
	seq_printf(m, "walk_new: %u\n", ss_walk.nr_new);
	seq_printf(m, "walk_dead: %u\n", ss_walk.nr_dead);
	seq_printf(m, "walk_ns: %llu\n", ss_walk.duration_ns);
}
