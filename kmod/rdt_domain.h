/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The RDT counters of one L3 domain: what was read last, and what a reading means. Pure C, so that host
 * tests compile the same file; MSRs, clocks and locks are somebody else's.
 */
#ifndef SLOTSCOPE_RDT_DOMAIN_H
#define SLOTSCOPE_RDT_DOMAIN_H

#include <slotscope/events.h>
#include <slotscope/rmid_fifo.h>

#include "rdt_cpuid.h"

#define SS_RDT_NR_MBM 2 /* total, local */
#define SS_RDT_NR_EVENTS 3 /* these, and lines in the cache */

/* Who has an RMID, or had it last, at one moment. */
struct ss_rdt_owner {
	__u32 generation; /* 0: nobody ever had it */
	bool live;
	__u64 alloc_ns;
	__u64 freed_ns; /* by this owner; live: by the one before; 0: never */
	__u64 prev_freed_ns; /* by the one before, 0: never */
};

enum ss_rdt_claim {
	SS_RDT_CLAIM_BIT, /* somebody reads it just now */
	SS_RDT_DOUBT_BIT, /* some CPU began or ended to run under it later than its clock said */
};

/* One RMID in one domain. Who changes it has claimed the RMID. */
struct ss_rdt_rmid {
	__u64 count[SS_RDT_NR_MBM]; /* as last read */
	__u64 read_ns[SS_RDT_NR_MBM]; /* when that was, 0: never */
	__u64 occupancy_ns; /* when that was read, 0: never */
	__u64 stale_bytes; /* of its occupancy, at most so much is left of owners before */
	__u32 taint_generation; /* the owner that stale_bytes is about */
	__u32 has_base; /* bit 0, 1: the count means something */
	__u32 epoch; /* of the domain, when it was read */
	__u64 claimed; /* enum ss_rdt_claim; here, so that only they share a line */
};

/* Of whoever reads. */
struct ss_rdt_stats {
	__u64 nr_reads; /* of RMIDs, all events */
	__u64 nr_skipped; /* RMIDs that a tick had no time for; they are read later */
	__u64 nr_errors; /* values that were none */
	__u64 nr_slow_reads; /* begun anew: the values were not of one moment */
	__u64 nr_slow_switches; /* the RMID was programmed long after the clock was read */
	__u64 nr_unattributed; /* deltas that were nobody's */
	__u64 unattributed_bytes[SS_RDT_NR_MBM];
	__u64 doubted_bytes[SS_RDT_NR_MBM]; /* of these: in deltas next to a slow switch */
};

/* An L3 cache, or one of its sub-NUMA clusters. */
struct ss_rdt_domain {
	__u32 id;
	__u32 first_rmid; /* in QM_EVTSEL; in PQR_ASSOC all begin at 0 */
	__u32 zero;
	__u32 epoch; /* +1 after a time in which nobody read: counters may have gone round */
	struct ss_rdt_caps caps;
	struct ss_rdt_rmid rmids[SS_RMID_CAPACITY];
};

/* How a value of QM_CTR was read. */
enum ss_rdt_flag {
	SS_RDT_FAULT = 1, /* it was not: #GP */
	SS_RDT_ASSIGNABLE = 2, /* the CPU counts only RMIDs that were assigned a counter */
	SS_RDT_RAN = 4, /* the RMID ran here since it was read; else nobody waits for a sample */
	SS_RDT_DOUBTED = 8, /* what was counted is not what its owner's time says */
};

void ss_rdt_domain_init(struct ss_rdt_domain *domain, __u32 id, __u32 cluster,
			const struct ss_rdt_caps *caps);
/* All that was read before means nothing: no CPU of it was online. */
void ss_rdt_domain_reset(struct ss_rdt_domain *domain);
/*
 * After a reset, before anybody runs under `rmid`: its occupancy is what others have left. A value that
 * is none says nothing.
 */
void ss_rdt_domain_found(struct ss_rdt_domain *domain, __u32 rmid, __u64 value, __u32 flags,
			 __u64 now_ns);
/*
 * Has it counted since it was read last, longer than long_ns ago? values: by event - 1.
 * REQUIRES: the RMID is claimed.
 */
bool ss_rdt_domain_is_long(const struct ss_rdt_domain *domain, __u32 rmid, const __u64 *values,
			   __u64 now_ns, __u64 long_ns);
/* When its bandwidth was read last, 0: never. Of an RMID that may be claimed by another CPU. */
__u64 ss_rdt_domain_read_ns(const struct ss_rdt_domain *domain, __u32 rmid);
/*
 * `value` was read for an event of `rmid` at now_ns, when `owner` had it. Returns true if *sample is to
 * be emitted; but for its header it is whole. REQUIRES: the RMID is claimed.
 */
bool ss_rdt_domain_take(struct ss_rdt_domain *domain, __u32 rmid, enum ss_rdt_event event, __u64 value,
			__u32 flags, const struct ss_rdt_owner *owner, __u64 now_ns,
			struct ss_rdt_stats *stats, struct ss_rdt_sample *sample);

#endif /* SLOTSCOPE_RDT_DOMAIN_H */
