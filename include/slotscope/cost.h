/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What our probes take, about: few runs are timed, and each stands for those that are not. One rule for
 * the kernel module's probes and for BPF programs, whose statistics by the kernel cost each run and ask
 * for CAP_SYS_ADMIN.
 */
#ifndef SLOTSCOPE_COST_H
#define SLOTSCOPE_COST_H

#define SS_TIMED_RUNS 61 /* one of so many: a prime, so that no rhythm is met */
#define SS_LONGEST_RUN_NS 100000u /* what took longer was interrupted, or its CPU was away */

/* ns that a timed run stands for. `took_ns` wraps where a clock steps back by nanoseconds. */
static inline __attribute__((always_inline)) __u64 ss_cost_of(__u64 took_ns)
{
	return took_ns < SS_LONGEST_RUN_NS ? took_ns * SS_TIMED_RUNS : 0;
}

#endif /* SLOTSCOPE_COST_H */
