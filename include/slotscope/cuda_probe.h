/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What bpf/cuda.bpf.c is told of each CUDA function that it is attached to: what a call of it means, and
 * where its values are. The attach cookie has an index into a table of these, which
 * collector/cuda/calls.cc fills.
 */
#ifndef SLOTSCOPE_CUDA_PROBE_H
#define SLOTSCOPE_CUDA_PROBE_H

#include <slotscope/events.h>

#define SS_CUDA_MAX_CALLS 512
#define SS_CUDA_COOKIE_TOLD (1ull << 32) /* in a cookie: has a message also within another call */
#define SS_CUDA_COOKIE_PROLOGUE_SHIFT 33 /* and behind that, 2 bits: enum ss_cuda_prologue */

/*
 * With what a function begins, and so what a trap at its entry costs: some instructions the kernel
 * emulates (which ones depends on its version), the others the CPU executes elsewhere, for a second
 * trap.
 */
enum ss_cuda_prologue {
	SS_PROLOGUE_OTHER = 0,
	SS_PROLOGUE_PUSH = 1, /* of a register */
	SS_PROLOGUE_ENDBR = 2, /* endbr64 */
	SS_NR_PROLOGUES = 3,
};

/*
 * Where a value is, on x86-64. "Argument i" is register i of rdi, rsi, rdx, rcx, r8, r9. All but the
 * last two kinds are read when the function is called.
 */
enum ss_cuda_from {
	SS_FROM_NOTHING = 0, /* 0 */
	SS_FROM_CONSTANT = 1, /* `offset` itself */
	SS_FROM_ARG = 2, /* argument `index` */
	SS_FROM_ARG32 = 3, /* its low half */
	SS_FROM_ARG32_PAIR = 4, /* low halves of arguments `index` and `index` + 1, as a | b << 32 */
	SS_FROM_STACK = 5, /* word `index` on the stack, 0 lies behind the return address */
	SS_FROM_STACK32 = 6,
	SS_FROM_MEMORY = 7, /* 8 bytes at argument `index` + `offset` */
	SS_FROM_MEMORY32 = 8,
	SS_FROM_RESULT = 9, /* as SS_FROM_MEMORY, read when the function has returned */
	SS_FROM_RESULT32 = 10,
};

struct ss_cuda_value {
	__u8 from; /* enum ss_cuda_from */
	__u8 index;
	__u16 offset;
};

struct ss_cuda_probe {
	__u16 op; /* enum ss_cuda_op */
	__u16 flags; /* SS_CUDA_* of the message */
	__u16 nr_values; /* those behind are SS_FROM_NOTHING */
	__u16 results; /* bit i: values[i] is SS_FROM_RESULT* */
	struct ss_cuda_value values[SS_CUDA_NR_VALUES];
};

/*
 * Messages of one CPU that wait to be written. Tasks on that CPU take it one after the other; who finds
 * it taken writes for himself.
 */
struct ss_cuda_queue {
	__u32 taken; /* by cmpxchg */
	__u32 nr;
	__u64 first_ns; /* with nr: when the first of them was made */
	struct ss_cuda_calls batch;
	__u64 zero[4];
};
SS_STATIC_ASSERT(sizeof(struct ss_cuda_queue) % 64 == 0, "ss_cuda_queue: whole cache lines");
#define SS_CUDA_QUEUE_NS 1000000ull /* who comes this late writes all */

/*
 * The watchdog. A process that acts on what we see of CUDA writes the time (CLOCK_BOOTTIME) into a map;
 * if it has ever done so and ceases to, the probes do nothing, so that nobody is slowed down for
 * nothing. One that is not of about now is stale, also if it is to come.
 */
#define SS_CUDA_WATCHDOG_STALE_NS 50000000ull

static inline __attribute__((always_inline)) int ss_cuda_is_stale(__u64 heartbeat_ns, __u64 boot_ns)
{
	return boot_ns - heartbeat_ns + SS_CUDA_WATCHDOG_STALE_NS > 2 * SS_CUDA_WATCHDOG_STALE_NS;
}

/* What the programs count, by CPU. */
enum ss_cuda_count {
	SS_CUDA_NR_CALLED = 0, /* calls that no other call made, which returned */
	SS_CUDA_NR_FAILED = 1, /* of these: the library returned an error */
	SS_CUDA_NR_NESTED = 2, /* calls that another call made */
	SS_CUDA_NR_UNRETURNED = 3, /* calls whose return was never seen */
	SS_CUDA_NR_HALF_SEEN = 4, /* returns of calls that began before the probes were there */
	SS_CUDA_NR_UNREADABLE = 5, /* calls whose values could not be read: lost */
	SS_CUDA_NR_UNTRACKED = 6, /* calls of threads for which there was no memory: lost */
	SS_CUDA_NR_UNWRITTEN = 7, /* calls whose message the buffer refused: lost */
	SS_CUDA_NR_BYPASSED = 8, /* calls and returns that were not looked at: no heartbeat */
	SS_CUDA_NR_RESUMED = 9, /* calls taken for ended that went on, or the other way round: lost */
	SS_CUDA_NR_COUNTS = 10,
};

/* Whose calls were lost, as a key; how many is the value. What is in none of them may be anybody's. */
struct ss_cuda_loser {
	__s32 tgid;
	__u32 zero;
	__u64 start_time_ns;
};

#define SS_CUDA_MAX_LOSERS 4096 /* of a second or so */

#endif /* SLOTSCOPE_CUDA_PROBE_H */
