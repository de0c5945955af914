// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scheduler's tracepoints, and one of cgroups.
 *
 * These tracepoints are not exported, so they are looked up by name; check_trace_callback_type_*()
 * still makes the compiler compare each probe with the kernel's own prototype. Probes run under the
 * run-queue lock or pi_lock: they never print, wake, allocate or queue work. They set counters.
 */
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <trace/events/cgroup.h>
#include <trace/events/sched.h>
#include <trace/events/task.h>

#include "slotscope.h"

/* Written once, in stop_machine, by population.c. */
bool ss_probes_armed;

static void ss_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
			       struct task_struct *next, unsigned int prev_state)
{
	if (likely(READ_ONCE(ss_probes_armed)))
		ss_cpu_switch(preempt, prev, next, prev_state);
}

/* pi_lock and the run-queue lock are held, interrupts are off. Fires once per thread. */
static void ss_on_sched_wakeup_new(void *data, struct task_struct *p)
{
	if (likely(READ_ONCE(ss_probes_armed))) {
		ss_waits_end_run(p, 0);
		ss_process_thread_born(p);
	}
}

/* The run queue that it leaves is locked, interrupts are off. Most that are moved are being woken. */
static void ss_on_sched_migrate_task(void *data, struct task_struct *p, int dest_cpu)
{
	if (unlikely(p->on_rq) && likely(READ_ONCE(ss_probes_armed)))
		ss_waits_migrate(p);
}

static void ss_on_sched_process_exec(void *data, struct task_struct *p, pid_t old_pid,
				     struct linux_binprm *bprm)
{
	if (likely(READ_ONCE(ss_probes_armed)))
		ss_process_renamed(p, p->comm, SS_TASK_EXEC);
}

/* Fires before the kernel copies `comm` into the task. A process is named by its leader. */
static void ss_on_task_rename(void *data, struct task_struct *p, const char *comm)
{
	if (likely(READ_ONCE(ss_probes_armed)) && thread_group_leader(p))
		ss_process_renamed(p, comm, SS_TASK_RENAME);
}

/* Of threads that are moved one by one only leaders count: a process is where its leader is. */
static void ss_on_cgroup_attach_task(void *data, struct cgroup *to, const char *path,
				     struct task_struct *p, bool threadgroup)
{
	if (likely(READ_ONCE(ss_probes_armed)) && thread_group_leader(p))
		ss_process_moved(p);
}

struct ss_probe {
	const char *name;
	void *callback;
	struct tracepoint *tracepoint;
};

static struct ss_probe ss_probes[] = {
	{ .name = "sched_switch", .callback = ss_on_sched_switch },
	{ .name = "sched_wakeup_new", .callback = ss_on_sched_wakeup_new },
	{ .name = "sched_migrate_task", .callback = ss_on_sched_migrate_task },
	{ .name = "sched_process_exec", .callback = ss_on_sched_process_exec },
	{ .name = "task_rename", .callback = ss_on_task_rename },
	{ .name = "cgroup_attach_task", .callback = ss_on_cgroup_attach_task },
};

static void ss_check_callback_types(void)
{
	check_trace_callback_type_sched_switch(ss_on_sched_switch);
	check_trace_callback_type_sched_wakeup_new(ss_on_sched_wakeup_new);
	check_trace_callback_type_sched_migrate_task(ss_on_sched_migrate_task);
	check_trace_callback_type_sched_process_exec(ss_on_sched_process_exec);
	check_trace_callback_type_task_rename(ss_on_task_rename);
	check_trace_callback_type_cgroup_attach_task(ss_on_cgroup_attach_task);
}

static void ss_match_tracepoint(struct tracepoint *tp, void *priv)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ss_probes); i++)
		if (!strcmp(tp->name, ss_probes[i].name))
			ss_probes[i].tracepoint = tp;
}

static void ss_probes_unregister_first(int count)
{
	while (count--)
		tracepoint_probe_unregister(ss_probes[count].tracepoint, ss_probes[count].callback,
					    NULL);
	/* Nobody runs a probe when this returns. */
	tracepoint_synchronize_unregister();
}

int ss_probes_register(void)
{
	int i, err;

	ss_check_callback_types();
	for_each_kernel_tracepoint(ss_match_tracepoint, NULL);
	for (i = 0; i < ARRAY_SIZE(ss_probes); i++) {
		if (ss_probes[i].tracepoint)
			continue;
		pr_err("this kernel has no tracepoint %s, which slotscope needs\n",
		       ss_probes[i].name);
		return -EOPNOTSUPP;
	}
	for (i = 0; i < ARRAY_SIZE(ss_probes); i++) {
		err = ss_fault_here() ? -ENOMEM :
					tracepoint_probe_register(ss_probes[i].tracepoint,
								  ss_probes[i].callback, NULL);
		if (err) {
			pr_err("cannot attach to tracepoint %s: %d\n", ss_probes[i].name, err);
			ss_probes_unregister_first(i);
			return err;
		}
	}
	return 0;
}

void ss_probes_unregister(void)
{
	ss_probes_unregister_first(ARRAY_SIZE(ss_probes));
}
