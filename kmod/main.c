// SPDX-License-Identifier: GPL-2.0-only
/*
 * slotscope: an RMID for every process, and tracepoints that say who ran when. The order of life.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/pid.h>

#include "slotscope.h"

static unsigned int rmids = SS_RMID_CAPACITY;
module_param(rmids, uint, 0444);
MODULE_PARM_DESC(rmids, "RMIDs at most, RMID 0 included: 2 to 512 (default 512, or as many as the CPUs have)");

static bool hardware = true;
module_param(hardware, bool, 0444);
MODULE_PARM_DESC(hardware, "program RDT hardware if there is any and nobody else uses it (default Y)");

static unsigned int rdt_budget_us = IS_ENABLED(CONFIG_PREEMPT_RT) ? 10 : 20;
module_param(rdt_budget_us, uint, 0444);
MODULE_PARM_DESC(rdt_budget_us, "microseconds of a tick for reading RDT counters: 1 to 200 (default 20; PREEMPT_RT 10)");

static unsigned int max_processes = 32768;
module_param(max_processes, uint, 0444);
MODULE_PARM_DESC(max_processes, "processes to make room for: 64 to 4194304 (default 32768)");

static char *cpus;
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "CPUs to watch, such as 0-3,8 (default: all but isolated and nohz_full ones)");

static int __init ss_check_parameters(void)
{
	if (rmids < 2 || rmids > SS_RMID_CAPACITY) {
		pr_err("parameter rmids=%u is not between 2 and %u\n", rmids, SS_RMID_CAPACITY);
		return -EINVAL;
	}
	if (max_processes < 64 || max_processes > PID_MAX_LIMIT) {
		pr_err("parameter max_processes=%u is not between 64 and %u\n", max_processes,
		       (unsigned int)PID_MAX_LIMIT);
		return -EINVAL;
	}
	if (rdt_budget_us < 1 || rdt_budget_us > 200) {
		pr_err("parameter rdt_budget_us=%u is not between 1 and 200\n", rdt_budget_us);
		return -EINVAL;
	}
	return 0;
}

static int __init ss_init(void)
{
	int err;

	err = ss_check_parameters();
	if (err)
		return err;
	rmids = ss_rdt_init(hardware, rmids, rdt_budget_us);
	ss_rmid_init(rmids);
	err = ss_process_init(max_processes);
	if (err) {
		pr_err("no memory for a table of %u processes; lower max_processes\n", max_processes);
		goto err_rdt;
	}
	err = ss_waits_init();
	if (err)
		goto err_process;
	err = ss_probes_register();
	if (err)
		goto err_waits;
	err = ss_population_walk();
	if (err)
		goto err_probes;
	err = ss_tick_init(cpus);
	if (err)
		goto err_population;
	err = ss_pressure_init();
	if (err)
		goto err_tick;
	err = ss_procfs_init();
	if (err)
		goto err_pressure;
	ss_report_start();
	ss_fault_end();
	pr_info("%s backend (%s), %u RMIDs, ABI %d\n", ss_rdt_backend(), ss_rdt_reason(), rmids,
		SS_ABI_VERSION);
	return 0;

err_pressure:
	ss_pressure_exit();
err_tick:
	ss_tick_exit();
err_population:
	ss_population_exit();
err_probes:
	ss_probes_unregister();
err_waits:
	ss_waits_exit();
err_process:
	ss_process_exit();
err_rdt:
	ss_rdt_exit();
	return err;
}

static void __exit ss_exit(void)
{
	ss_report_stop();
	ss_procfs_exit();
	ss_pressure_exit();
	ss_tick_exit();
	ss_population_exit();
	ss_probes_unregister();
	ss_waits_exit();
	ss_process_exit();
	ss_rdt_exit();
}

module_init(ss_init);
module_exit(ss_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("An RMID for every process, and who ran in every millisecond");
MODULE_VERSION(SS_VERSION);
