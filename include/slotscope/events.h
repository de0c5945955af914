/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * slotscope message protocol.
 *
 * Kernel module, eBPF programs and collector exchange only these messages. Every one of them goes
 * through one BPF_MAP_TYPE_PERF_EVENT_ARRAY, written by the CPU named in its header.
 *
 *   type               when                                                  emitted by
 *   SS_MEASURE         the process on a CPU changes, and at every tick       sched_switch, tick
 *   SS_TASK_META       birth, exec, leader's rename, state dump, exit        sched_wakeup_new, ...
 *   SS_RMID_ALLOC      a process got an RMID                                 birth, sched_switch
 *   SS_RMID_FREE       the last thread's final switch-out gave it back, or   sched_switch,
 *                      it was taken from a process that has not run lately   worker
 *   SS_RMID_ALLOC_FAILED  a process was born and there was none for it       sched_wakeup_new
 *   SS_RMID_EXISTING   state dump: this RMID is live now                     dump
 *   SS_RDT_SAMPLE      one RDT counter of one RMID in one L3 domain          tick
 *   SS_TICK            end of a tick on a CPU                                tick
 *   SS_CPU_STATE       a CPU begins or ceases to be watched                  CPU hotplug, start
 *   SS_WAIT            a wait that no measure could tell has ended           sched_switch, tick,
 *                                                                            sched_migrate_task
 *   SS_CUDA_CALL       a CUDA function returned                              uprobes
 *   SS_CUDA_CALLS      several of these                                      uprobes
 *   SS_CUDA_TURN       a thread that has made one runs, leaves its CPU, or   sched_switch,
 *                      is woken                                              sched_wakeup
 *
 * Clock: every *_ns that is a point in time is CLOCK_MONOTONIC, as read by ktime_get_mono_fast_ns()
 * in the kernel and bpf_ktime_get_ns() in eBPF. Intervals are half-open, [start, end).
 *
 * Rules of change: a new field goes at the end of its message, a type number is never used twice,
 * anything else is a new SS_ABI_VERSION. `zero` fields are zero. "Process" is a thread group; tgid is
 * what users call pid, as seen in the initial pid namespace.
 */
#ifndef SLOTSCOPE_EVENTS_H
#define SLOTSCOPE_EVENTS_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/*
 * 1: no SS_RMID_TAKEN_BACK, no ss_long_measure. 2: no SS_WAIT, wait_ns is the sum of many waits. 3: no
 * stolen_ns, and a flag in place of cut_ns (1u << 7 of a measure, 1u << 4 of a wait)
 */
#define SS_ABI_VERSION 4
/*
 * sizeof(struct ss_measure) by version. A measure of an older recording gets the fields that it lacks,
 * as zeros: a new one needs a flag that says that it was counted.
 */
#define SS_MEASURE_SIZES { 0, 144, 144, 152, 160 }

#define SS_TICK_PERIOD_NS 1000000ull /* the tick, and the length of a slot */
#define SS_COMM_LEN 16 /* as TASK_COMM_LEN; the last byte is always 0 */

enum ss_type {
	SS_MEASURE = 1,
	SS_TASK_META = 2,
	SS_RMID_ALLOC = 3,
	SS_RMID_FREE = 4,
	SS_RMID_ALLOC_FAILED = 5,
	SS_RMID_EXISTING = 6,
	SS_RDT_SAMPLE = 7,
	SS_TICK = 8,
	SS_CPU_STATE = 9,
	SS_WAIT = 10,
	SS_EXEC = 11, /* this and the next ones: a struct ss_text */
	SS_ARGUMENTS = 12,
	SS_CGROUP = 13,
	SS_CGROUP_GONE = 14,
	SS_CGROUP_MOVE = 15,
	SS_CUDA_CALL = 32,
	SS_CUDA_CALLS = 33,
	SS_CUDA_TURN = 34,
	/* 35 to 63 are kept for more of GPUs */
	SS_NR_TYPES = 64,
};

struct ss_hdr {
	__u64 ts_ns; /* when it happened; on one CPU measures never go back */
	__u16 type; /* enum ss_type */
	__u16 size; /* of the whole message, this header included */
	__u32 cpu; /* that wrote it */
};

/* What a measure's time was spent on (ss_measure.flags), and why the message was emitted. */
#define SS_MEASURE_IDLE (1u << 0) /* the idle task; tgid is 0 */
#define SS_MEASURE_KTHREAD (1u << 1) /* a kernel thread */
#define SS_MEASURE_TICK (1u << 2) /* emitted by the tick: the process runs on */
#define SS_MEASURE_UNTRACKED (1u << 3) /* process table was full: start_time_ns is 0 */
#define SS_MEASURE_NO_WAIT (1u << 4) /* this kernel keeps no sched_info: wait_ns is not measured */
/*
 * Whoever was switched out is not who was switched in last: the kernel did not run our program for a
 * switch in between. Who ran is not known; apart from its times nothing in the message counts.
 */
#define SS_MEASURE_UNKNOWN (1u << 5)
/*
 * wait_ns is one wait, of one thread, which ended at start_ns in this CPU's queue: [start_ns - wait_ns,
 * start_ns). Else it is a sum, of which no more is known.
 */
#define SS_MEASURE_ONE_WAIT (1u << 6)
/* A sum of a batch (slotscope/batch.h): its time is right to the slot, and not when in it. */
#define SS_MEASURE_SUM (1u << 8)

/* How the process left the CPU: enum ss_left. Recordings without facts.states do not say. */
#define SS_MEASURE_LEFT_SHIFT 9
#define SS_MEASURE_LEFT (7u << SS_MEASURE_LEFT_SHIFT)
enum ss_left {
	SS_LEFT_NOT = 0, /* of a tick: it runs on */
	SS_LEFT_RUNNABLE = 1, /* against its will, or to let others run: it waits */
	SS_LEFT_ASLEEP = 2, /* for anything, and a signal wakes it; kernel threads that have no work */
	SS_LEFT_DISK = 3, /* until a block device has answered (in_iowait) */
	SS_LEFT_BLOCKED = 4, /* no signal wakes it: a lock in the kernel, a vfork, NFS */
	SS_LEFT_STOPPED = 5, /* by a signal, or the freezer */
	SS_LEFT_TRACED = 6, /* by who traces it */
	SS_LEFT_ENDED = 7, /* that thread did */
};

/* Perf counters go by index. The first ones are in each measure, more of them behind it. */
enum ss_counter_id {
	SS_CYCLES = 0,
	SS_INSTRUCTIONS = 1,
	SS_LLC_MISSES = 2,
	SS_NR_COUNTERS = 3,
};
#define SS_MAX_MORE 5
#define SS_MAX_COUNTERS (SS_NR_COUNTERS + SS_MAX_MORE)

/*
 * One perf counter of one CPU over [start_ns, ts_ns). Raw: nothing is scaled. running_ns == 0 means
 * that it was not measured, whatever delta says. The module sends zeros; the relay fills them.
 */
struct ss_counter {
	__u64 delta;
	__u64 enabled_ns;
	__u64 running_ns;
};

/*
 * What one process did on one CPU. start_ns is the ts_ns of the previous measure of that CPU: any gap
 * between the two is lost time. seq goes up by one with each measure of the CPU and wraps.
 * rmid and generation are those the CPU has run under since start_ns.
 *
 * While a CPU switches often, sums are sent in place of measures (see slotscope/batch.h): then the times
 * are right to the slot, and within it a process may seem to run after its end.
 */
struct ss_measure {
	struct ss_hdr hdr;
	__u64 start_ns;
	__u64 start_time_ns; /* its leader's start; (tgid, start_time_ns) names a process */
	__u64 wait_ns; /* run-queue waiting of its threads that has ended, by sched_info; see SS_WAIT */
	__s32 tgid;
	__s32 next_tgid; /* who runs next; own tgid for a tick */
	__u32 seq;
	__u32 rmid; /* 0: idle, kernel thread, or none was free */
	__u32 generation; /* of that rmid */
	__u32 flags; /* SS_MEASURE_* */
	__u32 switches; /* times one of its threads was switched out, ts_ns included */
	__u32 preemptions; /* of these, involuntary ones (as the kernel's nivcsw) */
	struct ss_counter counters[SS_NR_COUNTERS];
	__u32 migrations; /* times one of its threads began to run elsewhere than it ran last */
	/*
	 * Of its time, in which the hypervisor ran something else; the relay fills it in. Of sums,
	 * that of their batch is right. It counts only where facts.steal says so.
	 */
	__u32 stolen_ns;
	/*
	 * Of SS_MEASURE_ONE_WAIT: so much of it seems to lie before the end of the thread's own last
	 * run on that CPU (the scheduler does not update its clock on some wake-ups). It began then,
	 * however long it was: what is left over belongs to who ran next.
	 */
	__u32 cut_ns;
	__u32 zero;
};

/* One that has more counters, in their order; hdr.size says how many. The relay puts them there. */
struct ss_long_measure {
	struct ss_measure measure;
	struct ss_counter more[SS_MAX_MORE];
};

#define SS_TASK_KTHREAD (1u << 0)
#define SS_TASK_BIRTH (1u << 1) /* cause: born just now; comm is still the parent's */
#define SS_TASK_EXEC (1u << 2) /* cause: exec */
#define SS_TASK_RENAME (1u << 3) /* cause: the leader's comm changed */
#define SS_TASK_EXISTING (1u << 4) /* cause: state dump */
/*
 * Cause: the last thread of a process that had no RMID is gone. comm is empty. With an RMID it is
 * SS_RMID_FREE that says so.
 */
#define SS_TASK_EXIT (1u << 5)

/*
 * A process can rename itself as often as it likes, and each message takes room in a buffer that all
 * share. Beyond so many in such a time only the one that stands at the next tick, or when the process is
 * switched out, is sent; the others are counted.
 */
#define SS_RENAMES_MAX 16u
#define SS_RENAMES_PERIOD_NS 10000000ull

struct ss_task_meta {
	struct ss_hdr hdr;
	__u64 start_time_ns;
	__u64 cgroup_id; /* of v2, or of the cpu controller where it is on v1; 0 if not known */
	__s32 tgid;
	__s32 ppid; /* tgid of the parent at birth, 0 if not known */
	__u32 rmid; /* 0: none */
	__u32 generation;
	__u32 flags; /* SS_TASK_* */
	__u32 zero;
	char comm[SS_COMM_LEN];
};

/*
 * SS_RMID_ALLOC, _FREE, _ALLOC_FAILED, _EXISTING. ts_ns and seq are taken under the allocator's lock:
 * sorted by seq, ts_ns does not go back. For _EXISTING ts_ns is when the entry was copied.
 */
struct ss_rmid_event {
	struct ss_hdr hdr;
	__u64 start_time_ns;
	__u64 seq; /* transitions of the allocator so far, this one included */
	__s32 tgid;
	__u32 rmid; /* 0 for _ALLOC_FAILED */
	__u32 generation; /* of rmid: +1 at each allocation, the first is 1 */
	__s32 reason; /* _ALLOC_FAILED: enum ss_rmid_error; _FREE: enum ss_rmid_end; else 0 */
};

/* Why an RMID is free. */
enum ss_rmid_end {
	SS_RMID_ENDED = 0, /* so did its process */
	SS_RMID_TAKEN_BACK = 1, /* its process lives on without; it may get another one when it runs */
};

/*
 * Who a process is, in words, as many bytes of them as hdr.size has room for.
 *
 * _EXEC: tgid executes the file `text`, as it was named to the kernel. From then on it has _ARGUMENTS,
 * one behind the other, each ended by a 0 (sent only where they were asked for). _CGROUP: cgroup_id has
 * the path `text` below the root of its hierarchy, the one of ss_task_meta.cgroup_id; _GONE: it is
 * removed. _MOVE: tgid is in cgroup_id now; without a text.
 */
#define SS_TEXT_LEN 512 /* with a 0 behind it */
#define SS_TEXT_CUT (1u << 0) /* there may have been more of it */
struct ss_text {
	struct ss_hdr hdr;
	__u64 start_time_ns; /* of the process; 0: of whoever has that tgid (a state dump) */
	__u64 cgroup_id;
	__s32 tgid; /* 0: a cgroup's */
	__u16 flags; /* SS_TEXT_* */
	__u16 text_len; /* without the 0; what is behind it means nothing */
	char text[SS_TEXT_LEN];
};

enum ss_rdt_event {
	SS_RDT_LLC_OCCUPANCY = 1, /* value is a gauge in bytes */
	SS_RDT_MBM_TOTAL = 2, /* value is bytes since since_ns */
	SS_RDT_MBM_LOCAL = 3,
};

enum ss_rdt_status {
	SS_RDT_OK = 0,
	SS_RDT_BASELINE = 1,
	SS_RDT_TAINTED = 2,
	SS_RDT_PARTIAL = 3,
	SS_RDT_SKIPPED = 4,
	SS_RDT_ERROR = 5,
	SS_RDT_UNAVAILABLE = 6,
	SS_RDT_UNASSIGNED = 7,
	SS_RDT_UNSUPPORTED = 8,
	SS_RDT_NR_STATUS = 9,
};

struct ss_rdt_sample {
	struct ss_hdr hdr;
	__u64 since_ns; /* the previous read of this counter, or when its owner got the RMID */
	__u64 value;
	__u32 rmid;
	__u32 generation;
	__u32 domain; /* L3 cache id */
	__u16 event; /* enum ss_rdt_event */
	__u16 status; /* enum ss_rdt_status; value counts only when SS_RDT_OK */
};

struct ss_tick {
	struct ss_hdr hdr;
	__u64 due_ns; /* the border this tick was meant for */
	__u32 missed; /* borders since the previous tick that had none */
	__u32 zero;
};

/* How it passed. */
#define SS_WAIT_OWN (1u << 0) /* of several threads, while others of their process ran */
#define SS_WAIT_MOVED (1u << 1) /* the thread waits on, in another queue */
/* Somewhere in front of end_ns, no more is known: a switch was hidden from us. */
#define SS_WAIT_HIDDEN (1u << 2)
/* It slept for some of the time: it was moved before the scheduler took it out of the queue. */
#define SS_WAIT_PHANTOM (1u << 3)
#define SS_WAIT_KTHREAD (1u << 5) /* of a kernel thread */
/*
 * Of a batch (slotscope/batch.h): waiting in [start_ns, end_ns), in sum. While _FOR: ran_tgid ran;
 * _IDLE: nobody did; _OWN: threads of its own did; _FAR: who of the batch did was not kept.
 */
#define SS_WAIT_FOR (1u << 6)
#define SS_WAIT_IDLE (1u << 7)
#define SS_WAIT_FAR (1u << 8)
/* In [start_ns, throttled_until_ns), a part of it, its cgroup had used up its quota. */
#define SS_WAIT_QUOTA (1u << 9)
/* From the module to the relay: the thread was throttled when it was switched out. */
#define SS_WAIT_THROTTLED (1u << 10)

/* Waiting of one process that has ended, and is in no measure. */
struct ss_wait {
	struct ss_hdr hdr;
	/* Of sums: in [start_ns, end_ns), several at once; _QUOTA: see there; else 0. */
	__u64 start_ns;
	__u64 end_ns;
	__u64 wait_ns;
	__u64 start_time_ns; /* of the process, as in ss_measure */
	__s32 tgid;
	__u32 queue_cpu; /* in whose queue */
	__u32 flags; /* SS_WAIT_* */
	__u32 rmid; /* that it has now */
	__s32 ran_tgid; /* _FOR */
	__u32 cut_ns; /* of a single wait: as in ss_measure */
	union {
		__u64 ran_start_time_ns; /* _FOR */
		__u64 throttled_until_ns; /* _QUOTA */
	};
};

/*
 * What the module says to the relay behind a message: in whose queue the thread waited, by the address
 * of its task_group; 0: of nobody that has a quota. The relay keeps it to itself.
 */
struct ss_grouped_measure {
	struct ss_measure measure;
	__u64 wait_group;
};

struct ss_grouped_wait {
	struct ss_wait wait;
	__u64 wait_group;
};

struct ss_cpu_state {
	struct ss_hdr hdr;
	__u32 online; /* 1: measures of this CPU start at ts_ns; 0: they end there */
	__u32 zero;
};

/*
 * What a call of CUDA's runtime or driver did, and its values[]. The runtime's and the driver's
 * functions for the same purpose are one op. A handle is what the library calls a stream, event,
 * context, array, or allocation; handles and addresses are the process's own. "kind" is enum
 * ss_cuda_memory.
 */
enum ss_cuda_op {
	SS_CUDA_INIT = 1, /* cuInit: before it a process has nothing */
	SS_CUDA_LAUNCH = 2, /* stream, function, grid x | y << 32, grid z, block x | y << 32, block z */
	SS_CUDA_GRAPH_LAUNCH = 3, /* stream, graph; how many kernels it has cannot be seen */
	SS_CUDA_ALLOC = 4, /* address, width in bytes, height, depth, kind */
	/* handle, width, height, depth, bits of channels x | y << 32, of z | w << 32, mipmap levels */
	SS_CUDA_ALLOC_ARRAY = 5,
	/* handle, width, height, depth, CUarray_format | channels << 32, 0, mipmap levels */
	SS_CUDA_ALLOC_DRIVER_ARRAY = 6,
	SS_CUDA_FREE = 7, /* address or handle, kind */
	/* Virtual memory: an allocation lives until it is neither referenced nor mapped. */
	SS_CUDA_MEM_CREATE = 8, /* handle, bytes, CUmemLocationType | id << 32 */
	SS_CUDA_MEM_RELEASE = 9, /* handle */
	SS_CUDA_MEM_MAP = 10, /* address, bytes, handle */
	SS_CUDA_MEM_UNMAP = 11, /* address, bytes */
	SS_CUDA_MEM_RETAIN = 12, /* handle, address in what it is of */
	SS_CUDA_MEM_IMPORT = 13, /* handle: another process's memory */
	/* The current device and context of the calling thread. */
	SS_CUDA_SET_DEVICE = 14, /* device: an index into the devices that the process may see */
	SS_CUDA_CTX_CREATE = 15, /* context, device; it becomes current */
	SS_CUDA_CTX_RETAIN = 16, /* a device's primary context: context, device */
	SS_CUDA_CTX_DESTROY = 17, /* context: all that is in it is freed */
	SS_CUDA_CTX_RESET = 18, /* device: all that is in its primary context is freed */
	SS_CUDA_CTX_RELEASE = 19, /* device: the primary context loses a reference */
	SS_CUDA_CTX_SET = 20, /* context, or 0 */
	SS_CUDA_CTX_PUSH = 21, /* context */
	SS_CUDA_CTX_POP = 22, /* context, which is not current any more */
	SS_CUDA_GOT_DEVICE = 23, /* device: it was asked for, and is the current one */
	SS_CUDA_RESET = 24, /* all of the current device is freed */
	/* Work that has been waited for, or was found to be done. */
	SS_CUDA_STREAM_DONE = 25, /* stream */
	SS_CUDA_DEVICE_DONE = 26, /* context, or 0: of the current device */
	SS_CUDA_EVENT_DONE = 27, /* event */
	SS_CUDA_COPY_DONE = 28, /* a copy that waits for the default stream: cudaMemcpyKind, bytes */
	SS_CUDA_EVENT_RECORD = 29, /* event, stream */
	SS_CUDA_EVENT_DESTROY = 30, /* event */
	SS_CUDA_STREAM_CREATE = 31, /* stream, its flags */
	SS_CUDA_STREAM_DESTROY = 32, /* stream */
	SS_CUDA_STREAM_WAIT = 33, /* stream, event */
	/* Work on a stream that is being captured goes into a graph and is not done. */
	SS_CUDA_CAPTURE_BEGIN = 34, /* stream */
	SS_CUDA_CAPTURE_END = 35, /* stream */
	/* What it does cannot be told: memory (1) or launches (2) are not complete from here on. */
	SS_CUDA_UNCOUNTED = 36, /* which */
	SS_CUDA_DEVICE_IS = 37, /* device, the halves of its UUID as they lie in memory */
	SS_CUDA_NR_OPS = 38,
};

enum ss_cuda_memory {
	SS_CUDA_LINEAR = 1, /* on the device */
	SS_CUDA_MANAGED = 2, /* where it is used */
	SS_CUDA_HOST = 3, /* pinned memory of the host */
	SS_CUDA_ARRAY = 4,
	SS_CUDA_MIPMAPPED_ARRAY = 5,
};

#define SS_CUDA_DRIVER (1u << 0) /* a call of libcuda that no call of the runtime made */
#define SS_CUDA_PER_THREAD (1u << 1) /* stream 0 is the thread's own (_ptsz, _ptds) */
#define SS_CUDA_FIRST (1u << 2) /* the first message of this thread */

#define SS_CUDA_NR_VALUES 7

/*
 * A CUDA call that succeeded (a query that said "not ready" is none). Calls that the library makes
 * within it have no message of their own, but for some that say what others need. hdr.ts_ns is when it
 * returned.
 */
struct ss_cuda_call {
	struct ss_hdr hdr;
	__u64 start_ns; /* when it was called; of a launch: or had set up what it needs */
	__u64 start_time_ns; /* of the process, as in ss_measure */
	__s32 tgid;
	__s32 tid;
	__u32 op; /* enum ss_cuda_op */
	__u32 flags; /* SS_CUDA_* */
	__u64 values[SS_CUDA_NR_VALUES];
};

/*
 * Several of them, one behind the other, of which each has a header of its own: to write into a buffer
 * costs the same for one and for many. hdr.size says how many. They wait for each other for some
 * milliseconds at most.
 */
#define SS_CUDA_BATCH 32
struct ss_cuda_calls {
	struct ss_hdr hdr;
	struct ss_cuda_call calls[SS_CUDA_BATCH];
};

enum ss_turn {
	SS_TURN_RUNS = 1, /* it is switched in */
	SS_TURN_LEFT = 2, /* it is switched out */
	SS_TURN_WOKEN = 3, /* from here on it waits for a CPU; of one that runs it means nothing */
};

/* What a thread that has made CUDA calls does from hdr.ts_ns on. Few threads have. */
struct ss_cuda_turn {
	struct ss_hdr hdr;
	__u64 start_time_ns; /* of the process, as in ss_measure */
	__s32 tgid;
	__s32 tid;
	__u32 turn; /* enum ss_turn */
	__u32 left; /* of SS_TURN_LEFT: enum ss_left */
	__u32 op; /* enum ss_cuda_op of the call that it is in; 0: in none */
	__u32 missed; /* turns before this one that were not told: there were too many, or no room */
};

/* Any message that is not made of others, but for texts and the counters behind a measure. */
union ss_any_message {
	struct ss_hdr hdr;
	struct ss_measure measure;
	struct ss_task_meta task_meta;
	struct ss_rmid_event rmid_event;
	struct ss_rdt_sample rdt_sample;
	struct ss_tick tick;
	struct ss_cpu_state cpu_state;
	struct ss_wait wait;
	struct ss_cuda_call cuda_call;
	struct ss_cuda_turn cuda_turn;
};

#ifdef __cplusplus
#define SS_STATIC_ASSERT static_assert
#else
#define SS_STATIC_ASSERT _Static_assert
#endif
SS_STATIC_ASSERT(sizeof(struct ss_hdr) == 16, "ss_hdr");
SS_STATIC_ASSERT(sizeof(struct ss_counter) == 24, "ss_counter");
SS_STATIC_ASSERT(sizeof(struct ss_measure) == 160, "ss_measure");
SS_STATIC_ASSERT(sizeof(struct ss_long_measure) == 280, "ss_long_measure");
SS_STATIC_ASSERT(sizeof(struct ss_task_meta) == 72, "ss_task_meta");
SS_STATIC_ASSERT(sizeof(struct ss_rmid_event) == 48, "ss_rmid_event");
SS_STATIC_ASSERT(sizeof(struct ss_text) == 552, "ss_text");
SS_STATIC_ASSERT(sizeof(struct ss_rdt_sample) == 48, "ss_rdt_sample");
SS_STATIC_ASSERT(sizeof(struct ss_tick) == 32, "ss_tick");
SS_STATIC_ASSERT(sizeof(struct ss_cpu_state) == 24, "ss_cpu_state");
SS_STATIC_ASSERT(sizeof(struct ss_wait) == 80, "ss_wait");
SS_STATIC_ASSERT(sizeof(struct ss_cuda_call) == 104, "ss_cuda_call");
SS_STATIC_ASSERT(sizeof(struct ss_cuda_calls) == 3344, "ss_cuda_calls");

#endif /* SLOTSCOPE_EVENTS_H */
