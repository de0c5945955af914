/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the module share. Dependencies go one way:
 * fault <- rmid <- process <- waits <- cpu <- probes, population, tick, pressure <- procfs, report <-
 * main.
 */
#ifndef SLOTSCOPE_KMOD_H
#define SLOTSCOPE_KMOD_H

#ifdef pr_fmt
#undef pr_fmt
#endif
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#include <slotscope/events.h>
#include <slotscope/rmid_fifo.h>
#define SS_DIV64(a, b) div64_u64(a, b)
#include <slotscope/waits.h>

#include "share.h"

#if !defined(CONFIG_TRACEPOINTS) || !defined(CONFIG_SCHED_INFO) || !defined(CONFIG_CGROUPS) || \
	!defined(CONFIG_PROC_FS) || !defined(CONFIG_X86_64)
#error "slotscope needs an x86-64 kernel with TRACEPOINTS, SCHED_INFO, CGROUPS and PROC_FS"
#endif

#define SS_VERSION "0.2.0"

struct ss_rdt_owner; /* rdt_domain.h */

/*
 * fault.c, in builds for tests: is this the step that is to fail? Asked before each that can: those of
 * loading, and the memory for one more L3 cache.
 */

#ifdef SS_FAULT
bool ss_fault_here(void);
void ss_fault_end(void);
#else
static inline bool ss_fault_here(void)
{
	return false;
}

static inline void ss_fault_end(void)
{
}
#endif

/* rmid.c: which RMID belongs to whom. Any context, interrupts off or on. */

enum ss_rmid_state { SS_RMID_FREE_STATE, SS_RMID_LIMBO_STATE, SS_RMID_LIVE_STATE };

/* One line of /proc/slotscope/rmids. */
struct ss_rmid_line {
	u32 rmid;
	u32 generation;
	enum ss_rmid_state state;
	s32 tgid; /* of the owner, or of the last one */
	u64 start_time_ns;
	u64 since_ns; /* live: since when; limbo or free: freed when; 0: never used */
	char comm[SS_COMM_LEN];
};

struct ss_rmid_stats {
	u64 nr_alloc;
	u64 nr_free;
	u64 nr_failed_none; /* births that got none: all were live */
	u64 nr_failed_limbo; /* births that got none: all free ones were in limbo */
	u64 nr_failed_share; /* births that got none: their user or cgroup had its share */
	u64 nr_retried; /* allocations that came late, at a switch-in */
	u64 nr_taken_back; /* frees while the process lives on */
	u64 nr_bad_free; /* a bug of ours if not 0 */
};

void ss_rmid_init(u32 nr_rmids);
/* Fills *event for emission after any lock is dropped. Returns the RMID (> 0) or enum ss_rmid_error. */
int ss_rmid_alloc(s32 tgid, u64 start_time_ns, const char *comm, struct ss_rmid_event *event);
/* Would ss_rmid_try_alloc() perhaps find one? */
bool ss_rmid_may_alloc(void);
/* The same as ss_rmid_alloc(), but gives up (0) instead of waiting for the lock. */
int ss_rmid_try_alloc(s32 tgid, u64 start_time_ns, const char *comm, struct ss_rmid_event *event);
/* A birth gets none although there may be one. */
void ss_rmid_refuse(s32 tgid, u64 start_time_ns, struct ss_rmid_event *event);
void ss_rmid_free(u32 rmid, enum ss_rmid_end why, struct ss_rmid_event *event);
/* Those that nobody has, in limbo or not. A hint. */
u32 ss_rmid_count_free(void);
void ss_rmid_rename(u32 rmid, u32 generation, const char *comm);
/*
 * Copies RMID `rmid` under the lock; its state says live or not. Returns false if rmid is out of range.
 */
bool ss_rmid_copy(u32 rmid, struct ss_rmid_line *line, struct ss_rmid_event *event);
/* All RMIDs as of one moment. May sleep. -EAGAIN: they change faster than they can be copied. */
int ss_rmid_snapshot(struct ss_rmid_line lines[SS_RMID_CAPACITY]);
u32 ss_rmid_count(void);
/* Who has it, or had it last. */
void ss_rmid_get_owner(u32 rmid, struct ss_rdt_owner *owner);
void ss_rmid_get_stats(struct ss_rmid_stats *stats);

/* process.c: every process from birth to the last thread's final switch-out. */

/* Copied out, never pointed into: an entry may go away as soon as the lock is dropped. */
struct ss_process_id {
	u64 start_time_ns;
	s32 tgid;
	s32 ppid;
	u32 rmid;
	u32 generation;
	u32 flags; /* SS_TASK_KTHREAD */
	u32 slot; /* of the table, for ss_process_ran() */
};

#define SS_NO_SLOT (~0u)

struct ss_process_stats {
	u64 nr_processes; /* now in the table */
	u64 nr_untracked; /* born when there was no room */
	u64 nr_unknown_dead; /* threads that died and that we had not counted */
	u64 nr_untold_renames; /* beyond SS_RENAMES_MAX, and overtaken by the next */
	u64 nr_stale; /* entries whose process had gone unseen; a bug of ours if not 0 */
};

int ss_process_init(u32 capacity);
void ss_process_exit(void);
/* sched_wakeup_new: a new thread of a known process, or a new process. Emits. Interrupts off. */
void ss_process_thread_born(struct task_struct *p);
/* sched_switch, prev is TASK_DEAD: frees the RMID with the last thread. Emits. Interrupts off. */
void ss_process_thread_dead(struct task_struct *prev);
/*
 * A thread that was there before its process was known. Under stop_machine, emits nothing. False: there
 * is no room.
 */
bool ss_process_thread_existing(struct task_struct *p);
/* The same of a process with more threads than are counted: all of them. */
bool ss_process_existing(struct task_struct *leader);
/* Ends those of these that were over the last time, too. Emits. May sleep. Not twice at a time. */
void ss_process_end_uncounted(void);
bool ss_process_is_known(struct task_struct *p);
/* From now on every process is in the table, but for so many. */
void ss_process_set_complete(u32 nr_untracked);
/* The leader's comm, or the whole image, changed. Emits. */
void ss_process_renamed(struct task_struct *p, const char *comm, u32 cause);
/* It is in another cgroup. */
void ss_process_moved(struct task_struct *p);
/* The name that was held back (ss_interval_hold_name()). Emits. */
void ss_process_tell_name(struct task_struct *p);
/*
 * Who is `p`? At a process switch-in; retries the allocation for a process that has no RMID. Emits.
 * Returns false if the process is not in the table, with the best guess in *id.
 */
bool ss_process_switch_in(struct task_struct *p, struct ss_process_id *id, u64 now_ns);
/* The same of a thread that is alive and does not run, and nothing more. */
bool ss_process_identify(struct task_struct *p, struct ss_process_id *id);
/* It has run until now: at its switch-out, while it still holds its place in the table. */
void ss_process_ran(u32 slot, u64 now_ns);
/* Processes with an RMID, without one; for share.h. Return how many. Process context. */
u32 ss_process_holders(struct ss_holder holders[SS_RMID_CAPACITY]);
u32 ss_process_wanters(struct ss_wanter *wanters, u32 max);
void ss_process_set_limits(const struct ss_limits *limits);
/*
 * Taking an RMID back has two steps. After the first, nobody is switched in with it, but who was may
 * still run; between the two a grace period passes. The second one gives it back to its process if it
 * runs, and else frees it. False: its process has lost it already.
 */
bool ss_process_suspend_lease(const struct ss_holder *holder);
void ss_process_end_suspension(const struct ss_holder *holder, bool runs);
/*
 * `selector` (bit of 8) asks for tgid, and all that it gives birth to from now on, to be served first;
 * until ss_process_deselect(). -ESRCH: there is no such process. Process context.
 */
int ss_process_select(s32 tgid, u32 selector);
void ss_process_deselect(u32 selector);
/* State dump of all processes. Process context, may sleep. -EINTR if the caller is being killed. */
int ss_process_dump(void);
void ss_process_get_stats(struct ss_process_stats *stats);
void ss_process_show(struct seq_file *m);

/* rdt.c: the RDT hardware. */

/* Chooses the backend; returns how many of nr_rmids there are. Process context. */
u32 ss_rdt_init(bool wanted, u32 nr_rmids, u32 budget_us);
void ss_rdt_exit(void);
/* Hotplug, on that CPU, may sleep. A CPU that cannot do what the others can runs under RMID 0. */
void ss_rdt_cpu_online(void);
void ss_rdt_cpu_offline(void);
/* Another process is about to run on this CPU: before the clock is read that says so. Interrupts off. */
void ss_rdt_leave(void);
/* And what the clock said. */
void ss_rdt_left(u64 left_ns);
/* A process with this RMID (0: none) runs on this CPU from now on. Interrupts off. */
void ss_rdt_run(u32 rmid, u64 since_ns);
/* This CPU's share of the reading, as samples. Interrupts off. */
void ss_rdt_tick(void);
const char *ss_rdt_backend(void);
bool ss_rdt_stepped_aside(void);
const char *ss_rdt_reason(void);
void ss_rdt_show(struct seq_file *m);

/* waits.c: what has been told of each thread's waiting. Interrupts off, its run queue is locked. */

int ss_waits_init(void);
void ss_waits_exit(void);
static inline u64 ss_run_delay(const struct task_struct *p)
{
#ifdef CONFIG_SCHED_INFO
	return p->sched_info.run_delay;
#else
	return 0;
#endif
}
void ss_waits_begin_run(struct ss_interval *interval, struct task_struct *p, u64 in_ns);
/* p is born, or switched out at out_ns; 0: on a CPU that is not watched. */
void ss_waits_end_run(struct task_struct *p, u64 out_ns);
/* In whose queue it is, see struct ss_grouped_measure. */
u64 ss_wait_group(const struct task_struct *p);
/* Emits a wait of p. */
void ss_tell_wait(const struct ss_wait *msg, const struct task_struct *p);
/* A thread in a queue is moved to another one. Emits. */
void ss_waits_migrate(struct task_struct *p);

/* cpu.c: what each CPU has done since its last measure. Interrupts off, on that CPU. */

void ss_cpu_watch(void);
void ss_cpu_unwatch(void);
/* Somebody begins to listen: measures start now. False: this CPU is not watched. */
bool ss_cpu_restart(void);
/* Of who runs on that CPU: an RMID, and its generation above it. 0: none is known. From anywhere. */
u64 ss_cpu_lease(unsigned int cpu);
/* Of who runs here; see ss_interval_hold_name(). */
u32 ss_cpu_hold_name(void);
void ss_cpu_switch(bool preempt, struct task_struct *prev, struct task_struct *next,
		   unsigned int prev_state);
void ss_cpu_tick(u64 due_ns);
/* Time of switches and ticks of all CPUs that was ours, estimated. */
u64 ss_cpu_probe_ns(void);

/* probes.c: the scheduler's tracepoints. They do nothing before ss_probes_armed. */

extern bool ss_probes_armed;
int ss_probes_register(void);
void ss_probes_unregister(void);

/* population.c: processes that were not seen being born, or found no room. Arms the probes. */

int ss_population_walk(void);
void ss_population_exit(void);
void ss_population_show(struct seq_file *m);

/* tick.c: the 1 ms tick on every watched CPU while somebody listens, and CPU hotplug. */

/* A tracepoint that needs ticks gets its first probe, and loses its last. May sleep. */
int ss_tick_listen(void);
void ss_tick_ignore(void);
int ss_tick_init(const char *cpus);
void ss_tick_exit(void);
void ss_tick_show(struct seq_file *m);

/* pressure.c: takes RMIDs back while they are short. */

int ss_pressure_init(void);
void ss_pressure_exit(void);
void ss_pressure_show(struct seq_file *m);

/* procfs.c */

int ss_procfs_init(void);
void ss_procfs_exit(void);

/* report.c: what the probes counted, to the kernel log. */

void ss_report_start(void);
void ss_report_stop(void);

#endif /* SLOTSCOPE_KMOD_H */
