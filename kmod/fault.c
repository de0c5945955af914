// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injection, for tests: the N-th step that can fail does. A test loads with N = 1, 2, ... until
 * loading works, and so has taken every error path (tests/vm/in-guest.sh). Loading ends that; what is
 * written to the parameter later counts from there: what a CPU needs when it comes online can fail, too.
 */
#include <linux/atomic.h>
#include <linux/moduleparam.h>

#include "slotscope.h"

static atomic_t ss_nr_steps_left = ATOMIC_INIT(0); /* 0: no step is to fail any more */

static int ss_set_fail_step(const char *text, const struct kernel_param *param)
{
	unsigned int step;
	int err = kstrtouint(text, 0, &step);

	if (!err)
		atomic_set(&ss_nr_steps_left, step);
	return err;
}

static const struct kernel_param_ops ss_fail_step_ops = { .set = ss_set_fail_step };
module_param_cb(fail_step, &ss_fail_step_ops, NULL, 0200);
MODULE_PARM_DESC(fail_step, "for tests: this step fails, counted from 1 (default 0: none)");

void ss_fault_end(void)
{
	atomic_set(&ss_nr_steps_left, 0);
}

bool ss_fault_here(void)
{
	return atomic_dec_if_positive(&ss_nr_steps_left) == 0;
}
