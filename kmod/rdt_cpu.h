/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RDT on one CPU: the RMID it runs under, and its share of reading its L3 domain's counters. Pure C, so
 * that host tests compile the same file; whatever touches the machine goes through struct ss_rdt_ops.
 */
#ifndef SLOTSCOPE_RDT_CPU_H
#define SLOTSCOPE_RDT_CPU_H

#include "rdt_domain.h"

#define SS_MSR_QM_EVTSEL 0xc8du
#define SS_MSR_QM_CTR 0xc8eu
#define SS_MSR_PQR_ASSOC 0xc8fu

#define SS_RDT_WORDS (SS_RMID_CAPACITY / 64)

/*
 * Between a clock and what it is the time of, at most so much: a hypervisor, firmware or an NMI may take
 * the CPU away there, and what the counters count meanwhile would stand in another millisecond.
 */
#define SS_RDT_SLOW_NS 100000ull

/*
 * A delta that is longer than this, two ticks: whoever reads it asks whether some CPU still counts for
 * the RMID although its clock says that the process is gone.
 */
#define SS_RDT_LONG_NS 2000000ull

struct ss_rdt_shared;

struct ss_rdt_ops {
	/* 0, or < 0 if this CPU refuses (#GP). */
	int (*rdmsr)(__u32 msr, __u64 *value);
	int (*wrmsr)(__u32 msr, __u64 value);
	__u64 (*now_ns)(void);
	void (*owner)(__u32 rmid, struct ss_rdt_owner *owner);
	void (*emit)(struct ss_rdt_sample *sample); /* fills in hdr.cpu */
	/* Atomic, on words that CPUs share: was the bit clear? / clears it. */
	bool (*claim)(__u64 *word, __u32 bit);
	void (*unclaim)(__u64 *word, __u32 bit);
	/* ss_rdt_cpu_is_leaving() of some CPU of the domain. */
	bool (*is_leaving)(const struct ss_rdt_shared *shared, __u32 rmid, __u64 now_ns);
};

/* What the CPUs of a domain share beside its counters. */
struct ss_rdt_shared {
	struct ss_rdt_domain domain;
	__u64 left[SS_RDT_WORDS]; /* some CPU had no time to read it; seldom written */
	__u64 read_ns; /* when some CPU read last, 10 ms too old at most */
};

enum ss_rdt_trouble {
	SS_RDT_NO_TROUBLE,
	SS_RDT_FOREIGN_WRITER, /* somebody else writes RMIDs to this CPU */
	SS_RDT_REFUSED, /* the CPU refused an MSR that CPUID announced */
};

struct ss_rdt_cpu {
	struct ss_rdt_shared *shared; /* NULL: RDT is not used on this CPU */
	__u32 rmid; /* as programmed */
	__u32 leaves; /* it is about to be another one; others look at these three */
	__u32 left_rmid; /* which was programmed then, until that is all over */
	__u64 left_ns; /* since then by its clock, 0: that is not read yet */
	__u32 closid; /* as found; never another one */
	__u32 assignable; /* SS_RDT_ASSIGNABLE or 0 */
	__u32 cursor; /* the RMID to begin with */
	__u32 sweep; /* the RMID that this CPU's slow sweep read last */
	__u32 left_first; /* in this tick, what others left comes before what ran here */
	__u64 ran[SS_RDT_WORDS]; /* RMIDs that ran here since they were last read */
	struct ss_rdt_stats stats;
	__u64 nr_programmed; /* RMIDs */
	__u64 nr_adopted; /* somebody changed the CLOSID */
};

/* The CPU comes online, or wakes from a suspend. Under RMID 0 until a switch, or there is trouble. */
enum ss_rdt_trouble ss_rdt_cpu_begin(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops,
				     struct ss_rdt_shared *shared);
/* Before anybody runs in its domain: what was left in the cache under `rmid`. */
void ss_rdt_cpu_find(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid);
/* RMID 0, with the CLOSID that is there now, and nothing more after that. A foreign RMID stays. */
void ss_rdt_cpu_end(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops);
/* Before the clock is read that says when its process stops to run here; until ss_rdt_cpu_run(). */
void ss_rdt_cpu_leave(struct ss_rdt_cpu *cpu);
/* What that clock said. */
void ss_rdt_cpu_left(struct ss_rdt_cpu *cpu, __u64 left_ns);
/*
 * Does it count for this RMID, at now_ns, in a millisecond in which its process did not run? Also if
 * that is not known.
 */
bool ss_rdt_cpu_is_leaving(const struct ss_rdt_cpu *cpu, __u32 rmid, __u64 now_ns);
/* A process with this RMID (0: none) runs, by the clock since since_ns. Not if there is trouble. */
enum ss_rdt_trouble ss_rdt_cpu_run(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid,
				   __u64 since_ns);
/* Once per tick, before anything else: is all as we left it? */
enum ss_rdt_trouble ss_rdt_cpu_check(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops);
/* Reads for at most budget_ns: what ran here, what others left, and a little of the rest. */
void ss_rdt_cpu_read(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 budget_ns);

#endif /* SLOTSCOPE_RDT_CPU_H */
