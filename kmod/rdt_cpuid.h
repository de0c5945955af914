/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What CPUID says of RDT monitoring. Pure C, so that host tests compile the same file.
 */
#ifndef SLOTSCOPE_RDT_CPUID_H
#define SLOTSCOPE_RDT_CPUID_H

#include "portable.h"

enum ss_cpu_vendor { SS_VENDOR_OTHER, SS_VENDOR_INTEL, SS_VENDOR_AMD };

struct ss_cpuid_regs {
	__u32 eax, ebx, ecx, edx;
};

/* The leaves as one CPU returned them. A leaf that it does not have is all zeros. */
struct ss_rdt_cpuid {
	enum ss_cpu_vendor vendor; /* Hygon counts as AMD */
	__u32 family, model, stepping;
	struct ss_cpuid_regs features; /* 7.0 */
	struct ss_cpuid_regs monitoring; /* 0xf.0 */
	struct ss_cpuid_regs l3; /* 0xf.1 */
	struct ss_cpuid_regs cache; /* the subleaf of 4, or of 0x8000001d, that describes the L3 cache */
	__u32 apic_id; /* x2APIC */
};

/* What all CPUs of a machine have in common, or one of them has. */
struct ss_rdt_caps {
	__u32 nr_rmids; /* that we can hand out, RMID 0 included */
	__u32 nr_hardware_rmids; /* of an L3 cache, for all its clusters */
	__u32 may_split; /* the CPU has the register that says how sub-NUMA clusters count */
	__u32 nr_clusters; /* sub-NUMA clusters of an L3 cache that count apart; 1: there are none */
	__u32 events; /* bit enum ss_rdt_event */
	__u32 unit_bytes; /* a count, of bandwidth and of occupancy */
	__u32 width; /* bits of a bandwidth counter */
	__u32 has_overflow_bit; /* bit 61 of QM_CTR */
	__u32 corrected_from; /* bandwidth of RMIDs from here on is to be corrected */
	__u32 correction; /* by this, in 2^-20 */
	__u64 cache_bytes; /* of an L3 cache; 0: not known */
};

/* NULL, or why this CPU cannot monitor. */
const char *ss_rdt_decode_caps(const struct ss_rdt_cpuid *cpuid, struct ss_rdt_caps *caps);
/* As the kernel numbers L3 caches in sysfs. */
__u32 ss_rdt_decode_l3(const struct ss_rdt_cpuid *cpuid);
/* To what both have. Returns false if that is too little to monitor with. */
bool ss_rdt_caps_intersect(struct ss_rdt_caps *caps, const struct ss_rdt_caps *other);
/*
 * Sub-NUMA clusters share out the RMIDs, the counts and the space of an L3 cache. nr_clusters: as found,
 * 0: in no order that is known. is_split: every CPU is in the mode in which each cluster counts its own
 * RMIDs from 0 on; that is the kernel's to choose. NULL, or why this machine cannot monitor.
 */
const char *ss_rdt_caps_divide(struct ss_rdt_caps *caps, __u32 nr_clusters, bool is_split);
/* What a cluster adds to an RMID in QM_EVTSEL. */
__u32 ss_rdt_first_rmid(const struct ss_rdt_caps *caps, __u32 cluster);

#endif /* SLOTSCOPE_RDT_CPUID_H */
