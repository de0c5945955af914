// SPDX-License-Identifier: GPL-2.0-only
/*
 * The 1 ms tick, aligned to the clock, on every watched CPU; and CPU hotplug.
 *
 * A hard, pinned hrtimer per CPU: it fires in hard interrupt context on PREEMPT_RT too. The hotplug
 * callbacks run on their CPU, so a CPU is watched from its first tick's set-up to its last tick's
 * cancellation, and load and unload are the same callbacks on all CPUs.
 */
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/sched/isolation.h>
#include <linux/version.h>

#include "slotscope.h"

static DEFINE_PER_CPU(struct hrtimer, ss_timer);
static struct cpumask ss_watch_mask; /* written once, before the callbacks are registered */
static enum cpuhp_state ss_hotplug_state;

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

static int ss_cpu_online(unsigned int cpu)
{
	struct hrtimer *timer = per_cpu_ptr(&ss_timer, cpu);
	unsigned long flags;
	u64 now_ns, border_ns;
	int err;

	if (!cpumask_test_cpu(cpu, &ss_watch_mask))
		return 0;
	err = ss_fault_here() ? -ENOMEM : ss_rdt_cpu_online();
	if (err)
		return err;
	ss_timer_setup(timer);
	local_irq_save(flags);
	ss_cpu_watch();
	now_ns = ktime_get_ns();
	border_ns = (div64_u64(now_ns, SS_TICK_PERIOD_NS) + 1) * SS_TICK_PERIOD_NS;
	hrtimer_start(timer, ns_to_ktime(border_ns), HRTIMER_MODE_ABS_PINNED_HARD);
	local_irq_restore(flags);
	return 0;
}

static int ss_cpu_offline(unsigned int cpu)
{
	unsigned long flags;

	if (!cpumask_test_cpu(cpu, &ss_watch_mask))
		return 0;
	hrtimer_cancel(per_cpu_ptr(&ss_timer, cpu));
	local_irq_save(flags);
	ss_cpu_unwatch();
	local_irq_restore(flags);
	ss_rdt_cpu_offline();
	return 0;
}

/* All CPUs but those that someone has set apart from timers and load balancing. */
static void ss_default_mask(void)
{
	cpumask_and(&ss_watch_mask, cpu_possible_mask, housekeeping_cpumask(HK_TYPE_DOMAIN));
	cpumask_and(&ss_watch_mask, &ss_watch_mask, housekeeping_cpumask(HK_TYPE_TIMER));
}

int ss_tick_init(const char *cpus)
{
	int ret;

	if (cpus && *cpus) {
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
	if (ss_fault_here())
		return -ENOSPC;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "slotscope:online", ss_cpu_online, ss_cpu_offline);
	if (ret < 0)
		return ret;
	ss_hotplug_state = ret;
	return 0;
}

void ss_tick_exit(void)
{
	cpuhp_remove_state(ss_hotplug_state);
}

void ss_tick_show(struct seq_file *m)
{
	seq_printf(m, "tick_ns: %llu\n", SS_TICK_PERIOD_NS);
	seq_printf(m, "watched_cpus: %*pbl\n", cpumask_pr_args(&ss_watch_mask));
}
