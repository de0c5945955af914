// SPDX-License-Identifier: GPL-2.0-only
/*
 * The processes that are not in the table: at load all of them, later those that found no room in it.
 *
 * The walk runs in stop_machine, in pieces, so that no CPU stands still for longer than SS_PIECE_NS and
 * what one more process takes. A piece is of whole processes; of one with more threads than
 * SS_MAX_COUNTED they are not counted, and a worker looks whether it has ended (process.c). The
 * probes are registered and inert before the first piece, which arms them. From then on they do the
 * rest: a process that is born is in the table, and of one that is not (yet) no thread is counted.
 * So no thread is missed or counted twice, whatever runs between two pieces: within one, a thread in
 * TASK_NEW has its sched_wakeup_new still to come (that tracepoint fires with interrupts off, so it
 * cannot straddle the stop), and a TASK_DEAD one has been switched out for the last time (it gets
 * there with preemption off).
 *
 * Processes are found in the order of their ids; those that are born meanwhile need not be found.
 *
 * Known hole, accepted: a thread that was already released but is not yet switched out for the last
 * time is not in the list. Its dead switch finds its process gone (unknown_dead), or takes one off a
 * count too many. Then live > 0 keeps the process, but in its exit_group its last but one thread is
 * taken for the last, and what the last one still does is counted to the RMID's next owner if it takes
 * longer than the limbo. The window is from exit_notify() to the end of do_exit(), some microseconds.
 */
#include <linux/idr.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "slotscope.h"

#define SS_PIECE_NS 250000ull
#define SS_MAX_COUNTED 4096 /* some 0.2 ms more; 40,000 would be 2 ms */
#define SS_ADOPT_PERIOD (10 * HZ)

/* A walk. */
struct ss_walk {
	int next; /* the id to go on with; 0: it is over */
	u32 nr_threads;
	u32 nr_new;
	u32 nr_dead;
	u32 nr_uncounted; /* processes with more threads than are counted */
	u32 nr_full; /* processes that found no room */
	u32 nr_pieces;
	u64 duration_ns; /* of all pieces */
	u64 longest_ns; /* that CPUs stood still for one */
};

static struct ss_walk ss_first_walk; /* at load */
/* Of the worker that looks for those that found no room. */
static struct {
	u64 nr_untracked; /* as counted when it walked last */
	u64 nr_processes; /* in the table then */
	u32 nr_full;
	u64 nr_walks;
} ss_adoption;

static void ss_walk_process(struct ss_walk *walk, struct task_struct *leader)
{
	struct task_struct *p;

	if (ss_process_is_known(leader))
		return;
	if (get_nr_threads(leader) > SS_MAX_COUNTED) {
		if (!atomic_read(&leader->signal->live))
			return;
		if (ss_process_existing(leader))
			walk->nr_uncounted++;
		else
			walk->nr_full++;
		return;
	}
	for_each_thread(leader, p) {
		unsigned int state = READ_ONCE(p->__state);

		if (state == TASK_NEW) {
			walk->nr_new++;
		} else if (state & TASK_DEAD) {
			walk->nr_dead++;
		} else if (!ss_process_thread_existing(p)) {
			walk->nr_full++;
			return;
		} else {
			walk->nr_threads++;
		}
	}
}

static int ss_walk_piece(void *arg)
{
	const u64 start_ns = ktime_get_mono_fast_ns();
	struct ss_walk *walk = arg;
	u64 took_ns;

	WRITE_ONCE(ss_probes_armed, true);
	rcu_read_lock();
	do {
		struct pid *pid = idr_get_next(&init_pid_ns.idr, &walk->next);
		struct task_struct *leader = pid ? pid_task(pid, PIDTYPE_TGID) : NULL;

		if (leader)
			ss_walk_process(walk, leader);
		walk->next = pid ? walk->next + 1 : 0;
		took_ns = ktime_get_mono_fast_ns() - start_ns;
	} while (walk->next && took_ns < SS_PIECE_NS);
	rcu_read_unlock();
	walk->nr_pieces++;
	walk->duration_ns += took_ns;
	walk->longest_ns = max(walk->longest_ns, took_ns);
	return 0;
}

static int ss_walk_all(struct ss_walk *walk)
{
	int err;

	memset(walk, 0, sizeof(*walk));
	walk->next = 1;
	do {
		err = stop_machine(ss_walk_piece, walk, NULL);
		cond_resched();
	} while (!err && walk->next);
	return err;
}

/* ---- Later: who found no room, and may now. */

/*
 * Not in vain: only if somebody was born without room since, or places have become free for those that
 * found none the last time. For half of them, or some of a table that has not as many: most may have
 * ended without ever having been in it.
 */
static bool ss_may_adopt(const struct ss_process_stats *now)
{
	const u64 wanted = min_t(u64, ss_adoption.nr_full / 2, ss_adoption.nr_processes / 32);

	if (now->nr_untracked != ss_adoption.nr_untracked)
		return true;
	return ss_adoption.nr_full && now->nr_processes + wanted < ss_adoption.nr_processes;
}

static void ss_adopt(struct work_struct *work)
{
	struct ss_process_stats before, after;
	struct ss_walk walk;

	ss_process_end_uncounted();
	ss_process_get_stats(&before);
	if (ss_may_adopt(&before)) {
		if (ss_walk_all(&walk))
			goto out;
		ss_process_get_stats(&after);
		ss_adoption.nr_untracked = before.nr_untracked;
		ss_adoption.nr_processes = after.nr_processes;
		ss_adoption.nr_full = walk.nr_full;
		ss_adoption.nr_walks++;
		/* Whoever listens has not heard of them. */
		if (walk.nr_threads || walk.nr_uncounted)
			ss_process_dump();
	}
out:
	schedule_delayed_work(to_delayed_work(work), SS_ADOPT_PERIOD);
}

static DECLARE_DELAYED_WORK(ss_adopt_work, ss_adopt);

int ss_population_walk(void)
{
	struct ss_process_stats stats;
	int err = ss_fault_here() ? -ENOMEM : ss_walk_all(&ss_first_walk);

	if (err)
		return err;
	ss_process_set_complete(ss_first_walk.nr_full);
	ss_process_get_stats(&stats);
	ss_adoption.nr_untracked = stats.nr_untracked;
	ss_adoption.nr_processes = stats.nr_processes;
	ss_adoption.nr_full = ss_first_walk.nr_full;
	schedule_delayed_work(&ss_adopt_work, SS_ADOPT_PERIOD);
	return 0;
}

void ss_population_exit(void)
{
	cancel_delayed_work_sync(&ss_adopt_work);
}

void ss_population_show(struct seq_file *m)
{
	seq_printf(m, "walk_threads: %u\n", ss_first_walk.nr_threads);
	seq_printf(m, "walk_new: %u\n", ss_first_walk.nr_new);
	seq_printf(m, "walk_dead: %u\n", ss_first_walk.nr_dead);
	seq_printf(m, "walk_uncounted: %u\n", ss_first_walk.nr_uncounted);
	seq_printf(m, "walk_ns: %llu\n", ss_first_walk.duration_ns);
	seq_printf(m, "walk_pieces: %u\n", ss_first_walk.nr_pieces);
	seq_printf(m, "walk_longest_piece_ns: %llu\n", ss_first_walk.longest_ns);
	seq_printf(m, "adoption_walks: %llu\n", READ_ONCE(ss_adoption.nr_walks));
}
