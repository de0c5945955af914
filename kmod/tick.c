// SPDX-License-Identifier: GPL-2.0-only
/*
 * The 1 ms tick, aligned to the clock, on every watched CPU while somebody listens; and CPU hotplug.
 *
 * A hard, pinned hrtimer per CPU: it fires in hard interrupt context on PREEMPT_RT too. It runs from
 * the first probe on ss_measure, ss_rdt_sample or ss_tick to the last one's end: their registration
 * functions (trace.h) are ss_tick_listen() and ss_tick_ignore(). Without it RMIDs are given and
 * programmed as ever.
 *
 * The hotplug callbacks run on their CPU, so a CPU is watched from the first callback to the last, and
 * load and unload are the same callbacks on all CPUs.
 *
 * Unless somebody has said which CPUs to watch, they are all but those that somebody has set apart. With
 * cpusets that may change: a worker looks every 10 s. A CPU that is set apart is left alone at once;
 * one that is not any more is watched again when nobody listens, as a recording knows its CPUs.
 *
 * Lock order: the kernel's lock of tracepoints (it is held when they register), then CPU hotplug, then
 * ss_tick_mutex. The kernel itself takes the second under the first, for static keys.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "slotscope.h"

static DEFINE_PER_CPU(struct hrtimer, ss_timer);
static struct cpumask ss_watch_mask; /* changes with CPU hotplug and ss_tick_mutex held */
static enum cpuhp_state ss_hotplug_state;
static DEFINE_MUTEX(ss_tick_mutex); /* the two below */
static bool ss_timers_exist; /* from before the first callback to after the last */
/*
 * Tracepoints that are listened to. Before load and after unload, too: tracefs may be faster, or
 * slower.
 */
static int ss_nr_listeners;

static enum hrtimer_restart ss_tick(struct hrtimer *timer)
{
	u64 due_ns = ktime_to_ns(hrtimer_get_expires(timer));

	hrtimer_forward_now(timer, ns_to_ktime(SS_TICK_PERIOD_NS));
	ss_cpu_tick(due_ns);
	return HRTIMER_RESTART;
}

static void ss_timer_setup(struct hrtimer *timer)
{
#ifdef SS_HAS_HRTIMER_SETUP
	hrtimer_setup(timer, ss_tick, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	timer->function = ss_tick;
#endif
}

/* On the CPU, interrupts off. */
static void ss_timer_start(void *unused)
{
	u64 border_ns;

	if (!ss_cpu_restart()) /* it is not watched yet, and will look at ss_nr_listeners when it is */
		return;
	border_ns = (div64_u64(ktime_get_ns(), SS_TICK_PERIOD_NS) + 1) * SS_TICK_PERIOD_NS;
	hrtimer_start(this_cpu_ptr(&ss_timer), ns_to_ktime(border_ns), HRTIMER_MODE_ABS_PINNED_HARD);
}

int ss_tick_listen(void)
{
	cpus_read_lock();
	mutex_lock(&ss_tick_mutex);
	if (!ss_nr_listeners++ && ss_timers_exist)
		on_each_cpu_mask(&ss_watch_mask, ss_timer_start, NULL, true);
	mutex_unlock(&ss_tick_mutex);
	cpus_read_unlock();
	return 0;
}

void ss_tick_ignore(void)
{
	unsigned int cpu;

	cpus_read_lock();
	mutex_lock(&ss_tick_mutex);
	if (!--ss_nr_listeners && ss_timers_exist)
		for_each_cpu(cpu, &ss_watch_mask)
			hrtimer_cancel(per_cpu_ptr(&ss_timer, cpu));
	mutex_unlock(&ss_tick_mutex);
	cpus_read_unlock();
}

/* On that CPU, in process context; so is the other one. */
static void ss_begin_cpu(void)
{
	unsigned long flags;

	ss_rdt_cpu_online();
	mutex_lock(&ss_tick_mutex);
	local_irq_save(flags);
	ss_cpu_watch();
	if (ss_nr_listeners)
		ss_timer_start(NULL);
	local_irq_restore(flags);
	mutex_unlock(&ss_tick_mutex);
}

static void ss_end_cpu(void)
{
	unsigned long flags;

	mutex_lock(&ss_tick_mutex);
	hrtimer_cancel(this_cpu_ptr(&ss_timer));
	local_irq_save(flags);
	ss_cpu_unwatch();
	local_irq_restore(flags);
	mutex_unlock(&ss_tick_mutex);
	ss_rdt_cpu_offline();
}

static int ss_cpu_online(unsigned int cpu)
{
	if (cpumask_test_cpu(cpu, &ss_watch_mask))
		ss_begin_cpu();
	return 0;
}

static int ss_cpu_offline(unsigned int cpu)
{
	if (cpumask_test_cpu(cpu, &ss_watch_mask))
		ss_end_cpu();
	return 0;
}

/* Has somebody set this CPU apart from timers and load balancing? */
static bool ss_is_set_apart(unsigned int cpu)
{
#ifdef SS_HAS_CPUSET_ISOLATION
	if (cpuset_cpu_is_isolated(cpu))
		return true;
#endif
	return !cpumask_test_cpu(cpu, housekeeping_cpumask(HK_TYPE_DOMAIN)) ||
	       !cpumask_test_cpu(cpu, housekeeping_cpumask(HK_TYPE_TIMER));
}

static void ss_set_watched(unsigned int cpu, bool watched)
{
	mutex_lock(&ss_tick_mutex);
	if (watched)
		cpumask_set_cpu(cpu, &ss_watch_mask);
	else
		cpumask_clear_cpu(cpu, &ss_watch_mask);
	mutex_unlock(&ss_tick_mutex);
}

/* On a CPU whose place in the mask is not what it should be. */
static long ss_change_cpu(void *unused)
{
	unsigned int cpu = raw_smp_processor_id();

	if (cpumask_test_cpu(cpu, &ss_watch_mask)) {
		ss_end_cpu();
		ss_set_watched(cpu, false);
	} else {
		ss_set_watched(cpu, true);
		ss_begin_cpu();
	}
	return 0;
}

#define SS_ISOLATION_PERIOD (10 * HZ)

static void ss_look_at_isolation(struct work_struct *work)
{
	unsigned int cpu;

	cpus_read_lock();
	for_each_possible_cpu(cpu) {
		const bool watched = cpumask_test_cpu(cpu, &ss_watch_mask);

		if (watched != ss_is_set_apart(cpu) || (!watched && READ_ONCE(ss_nr_listeners)))
			continue;
		if (cpu_online(cpu))
			work_on_cpu(cpu, ss_change_cpu, NULL);
		else
			ss_set_watched(cpu, !watched);
	}
	cpus_read_unlock();
	schedule_delayed_work(to_delayed_work(work), SS_ISOLATION_PERIOD);
}

static DECLARE_DELAYED_WORK(ss_isolation_work, ss_look_at_isolation);

static void ss_default_mask(void)
{
	unsigned int cpu;

	cpumask_clear(&ss_watch_mask);
	for_each_possible_cpu(cpu)
		if (!ss_is_set_apart(cpu))
			cpumask_set_cpu(cpu, &ss_watch_mask);
}

static void ss_set_timers_exist(bool exist)
{
	mutex_lock(&ss_tick_mutex);
	ss_timers_exist = exist;
	mutex_unlock(&ss_tick_mutex);
}

int ss_tick_init(const char *cpus)
{
	const bool chosen = cpus && *cpus;
	unsigned int cpu;
	int ret;

	if (chosen) {
		ret = cpulist_parse(cpus, &ss_watch_mask);
		if (ret || !cpumask_intersects(&ss_watch_mask, cpu_possible_mask)) {
			pr_err("parameter cpus=\"%s\" is not a list of CPUs of this machine, such as 0-3,8\n",
			       cpus);
			return -EINVAL;
		}
		cpumask_and(&ss_watch_mask, &ss_watch_mask, cpu_possible_mask);
	} else {
		ss_default_mask();
	}
	for_each_possible_cpu(cpu)
		ss_timer_setup(per_cpu_ptr(&ss_timer, cpu));
	if (ss_fault_here())
		return -ENOSPC;
	ss_set_timers_exist(true);
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "slotscope:online", ss_cpu_online, ss_cpu_offline);
	if (ret < 0) {
		ss_set_timers_exist(false);
		return ret;
	}
	ss_hotplug_state = ret;
	if (!chosen)
		schedule_delayed_work(&ss_isolation_work, SS_ISOLATION_PERIOD);
	return 0;
}

void ss_tick_exit(void)
{
	cancel_delayed_work_sync(&ss_isolation_work);
	cpuhp_remove_state(ss_hotplug_state);
	ss_set_timers_exist(false);
}

void ss_tick_show(struct seq_file *m)
{
	seq_printf(m, "tick_ns: %llu\n", SS_TICK_PERIOD_NS);
	seq_printf(m, "listeners: %d\n", READ_ONCE(ss_nr_listeners));
	seq_printf(m, "watched_cpus: %*pbl\n", cpumask_pr_args(&ss_watch_mask));
}
