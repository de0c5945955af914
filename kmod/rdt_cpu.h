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
};

/* What the CPUs of a domain share beside its counters. */
struct ss_rdt_shared {
	struct ss_rdt_domain domain;
	__u64 claimed[SS_RDT_WORDS]; /* somebody reads it just now */
	__u64 left[SS_RDT_WORDS]; /* some CPU had no time to read it */
	__u64 read_ns; /* when some CPU read last */
	__u32 sweep; /* the RMID that the slow sweep reads next, roughly */
	__u32 zero;
};

enum ss_rdt_trouble {
	SS_RDT_NO_TROUBLE,
	SS_RDT_FOREIGN_WRITER, /* somebody else writes RMIDs to this CPU */
	SS_RDT_REFUSED, /* the CPU refused an MSR that CPUID announced */
};

struct ss_rdt_cpu {
	struct ss_rdt_shared *shared; /* NULL: RDT is not used on this CPU */
	__u32 rmid; /* as programmed */
	__u32 closid; /* as found; never another one */
	__u32 assignable; /* SS_RDT_ASSIGNABLE or 0 */
	__u32 cursor; /* the RMID to begin with */
	__u32 left_first; /* in this tick, what others left comes before what ran here */
	__u64 ran[SS_RDT_WORDS]; /* RMIDs that ran here since they were last read */
	struct ss_rdt_stats stats;
	__u64 nr_programmed; /* RMIDs */
	__u64 nr_adopted; /* somebody changed the CLOSID */
};

/* The CPU comes online, or wakes from a suspend. Under RMID 0 until a switch, or there is trouble. */
enum ss_rdt_trouble ss_rdt_cpu_begin(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops,
				     struct ss_rdt_shared *shared);
/* RMID 0, with the CLOSID that is there now, and nothing more after that. A foreign RMID stays. */
void ss_rdt_cpu_end(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops);
/* A process with this RMID (0: none) runs from now on. Not if there is trouble. */
enum ss_rdt_trouble ss_rdt_cpu_run(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid);
/* Once per tick, before anything else: is all as we left it? */
enum ss_rdt_trouble ss_rdt_cpu_check(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops);
/* Reads for at most budget_ns: what ran here, what others left, and a little of the rest. */
void ss_rdt_cpu_read(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 budget_ns);

#endif /* SLOTSCOPE_RDT_CPU_H */
