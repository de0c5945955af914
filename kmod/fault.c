// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injection, for tests: the N-th step of loading that can fail does. A test loads with N = 1,
 * 2, ... until loading works, and so has taken every error path (tests/vm/in-guest.sh).
 */
#include <linux/atomic.h>
#include <linux/moduleparam.h>

#include "slotscope.h"

static unsigned int fail_step; /* 0 once the module is loaded */
module_param(fail_step, uint, 0);
MODULE_PARM_DESC(fail_step, "for tests: this step of loading fails, counted from 1 (default 0: none)");

static atomic_t ss_nr_steps = ATOMIC_INIT(0);

void ss_fault_end(void)
{
	fail_step = 0;
}

bool ss_fault_here(void)
{
	return fail_step && atomic_inc_return(&ss_nr_steps) == fail_step;
}
