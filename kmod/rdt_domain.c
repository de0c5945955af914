// SPDX-License-Identifier: GPL-2.0-only
/*
 * The RDT counters of one L3 domain.
 *
 * Bandwidth. The hardware counts for an RMID whoever has it, and never begins anew. Bytes belong to an
 * owner if both ends of a delta do:
 *
 *   freed ----- free ----- alloc ------- owner ------- freed ----- free
 *           ^                        ^            ^            ^
 *           base (last read while    delta        delta        the last one, for the dead
 *           free): delta from alloc  from the     ...
 *           on belongs to the owner  last read
 *
 * A read that follows one of an earlier owner straddles a reuse: it is nobody's, and the owner learns
 * that its first stretch is not known (SS_RDT_BASELINE). What an RMID counts while it is free are the
 * late writes of the owner before: nobody's either.
 *
 * Occupancy. Lines of the owner before stay in the cache until others push them out. They are at most as
 * many as the smallest reading since; until that says that hardly any are left, a reading is tainted.
 * How much memory traffic there was since says nothing: lines that others use keep their RMID, and a
 * partition of the cache keeps the traffic of others out.
 */
#include "rdt_domain.h"

#define SS_STALE_SHARE 256 /* of the cache, in lines of owners before, is none */
#define SS_QM_CTR_ERROR (1ull << 63)
#define SS_QM_CTR_UNAVAILABLE (1ull << 62)
#define SS_QM_CTR_OVERFLOW (1ull << 61)

void ss_rdt_domain_reset(struct ss_rdt_domain *domain)
{
	__u32 rmid;

	memset(domain->rmids, 0, sizeof(domain->rmids));
	for (rmid = 0; rmid < SS_RMID_CAPACITY; rmid++)
		domain->rmids[rmid].stale_bytes = ~0ull; /* whose lines there are is not known */
}

void ss_rdt_domain_init(struct ss_rdt_domain *domain, __u32 id, __u32 cluster,
			const struct ss_rdt_caps *caps)
{
	memset(domain, 0, sizeof(*domain));
	domain->id = id;
	domain->first_rmid = ss_rdt_first_rmid(caps, cluster);
	domain->caps = *caps;
	ss_rdt_domain_reset(domain);
}

static __u64 ss_rdt_bytes(const struct ss_rdt_caps *caps, __u32 rmid, __u64 count)
{
	__u64 bytes = count * caps->unit_bytes;

	if (rmid < caps->corrected_from)
		return bytes;
	return (bytes >> 20) * caps->correction + (((bytes & 0xfffff) * caps->correction) >> 20);
}

/* What a value that is no count says. */
static enum ss_rdt_status ss_rdt_status_of(__u64 value, __u32 flags)
{
	if (flags & SS_RDT_FAULT || value & SS_QM_CTR_ERROR)
		return SS_RDT_ERROR;
	if (value & SS_QM_CTR_UNAVAILABLE)
		return flags & SS_RDT_ASSIGNABLE ? SS_RDT_UNASSIGNED : SS_RDT_UNAVAILABLE;
	return SS_RDT_OK;
}

static __u64 ss_rdt_lines(const struct ss_rdt_domain *domain, __u64 value)
{
	return (value & (SS_QM_CTR_OVERFLOW - 1)) * domain->caps.unit_bytes;
}

void ss_rdt_domain_found(struct ss_rdt_domain *domain, __u32 rmid, __u64 value, __u32 flags,
			 __u64 now_ns)
{
	struct ss_rdt_rmid *one = &domain->rmids[rmid];

	if (ss_rdt_status_of(value, flags) != SS_RDT_OK)
		return;
	one->stale_bytes = ss_rdt_lines(domain, value);
	one->occupancy_ns = now_ns;
}

/* Did nobody else have the RMID since ts_ns? As far back as is known. */
static bool ss_rdt_is_base(const struct ss_rdt_owner *owner, __u64 ts_ns)
{
	return ts_ns >= (owner->live ? owner->freed_ns : owner->prev_freed_ns);
}

static void ss_rdt_count_unattributed(struct ss_rdt_stats *stats, __u32 which, __u64 bytes)
{
	if (!bytes)
		return;
	stats->unattributed_bytes[which] += bytes;
	stats->nr_unattributed++;
}

static bool ss_rdt_take_mbm(struct ss_rdt_domain *domain, __u32 rmid, __u32 which, __u64 value,
			    __u32 flags, const struct ss_rdt_owner *owner, struct ss_rdt_stats *stats,
			    struct ss_rdt_sample *sample)
{
	const struct ss_rdt_caps *caps = &domain->caps;
	const __u64 mask = (1ull << caps->width) - 1;
	struct ss_rdt_rmid *one = &domain->rmids[rmid];
	enum ss_rdt_status status = ss_rdt_status_of(value, flags);
	const __u64 now_ns = sample->hdr.ts_ns;
	const __u64 read_ns = one->read_ns[which];
	const __u64 count = value & mask;
	const bool has_base = one->has_base & 1u << which;
	__u64 bytes = 0;

	/* It went round, and by the numbers it did not: more than once. */
	if (status == SS_RDT_OK && caps->has_overflow_bit && value & SS_QM_CTR_OVERFLOW && has_base &&
	    count >= one->count[which]) {
		status = SS_RDT_ERROR;
		stats->nr_errors++;
	}
	if (status == SS_RDT_OK && has_base)
		bytes = ss_rdt_bytes(caps, rmid, (count - one->count[which]) & mask);
	one->count[which] = count;
	one->read_ns[which] = now_ns;
	one->has_base &= ~(1u << which);
	if (status == SS_RDT_OK)
		one->has_base |= 1u << which;

	if (!owner->live && (!(flags & SS_RDT_RAN) || read_ns >= owner->freed_ns)) {
		ss_rdt_count_unattributed(stats, which, bytes);
		return false;
	}
	sample->since_ns = read_ns > owner->alloc_ns ? read_ns : owner->alloc_ns;
	if (sample->since_ns > now_ns) /* another CPU's clock */
		sample->since_ns = now_ns;
	sample->value = bytes;
	if (status == SS_RDT_OK && !(has_base && ss_rdt_is_base(owner, read_ns))) {
		ss_rdt_count_unattributed(stats, which, bytes);
		sample->value = 0;
		status = SS_RDT_BASELINE;
	}
	if (status == SS_RDT_OK && flags & SS_RDT_DOUBTED) {
		ss_rdt_count_unattributed(stats, which, bytes);
		stats->doubted_bytes[which] += bytes;
		sample->value = 0;
		status = SS_RDT_PARTIAL;
	}
	sample->status = status;
	if (flags & SS_RDT_RAN)
		return true;
	if (status == SS_RDT_OK && !bytes)
		one->read_ns[which] = read_ns; /* the next delta begins there as well */
	return bytes && (status == SS_RDT_OK || status == SS_RDT_PARTIAL);
}

/* So little of a cache that its sharing out among processes is not another one by it. */
static __u64 ss_rdt_stale_limit(const struct ss_rdt_caps *caps)
{
	const __u64 share = caps->cache_bytes / SS_STALE_SHARE;

	return share && share < caps->unit_bytes ? caps->unit_bytes : share;
}

static bool ss_rdt_take_occupancy(struct ss_rdt_domain *domain, __u32 rmid, __u64 value, __u32 flags,
				  const struct ss_rdt_owner *owner, struct ss_rdt_sample *sample)
{
	const struct ss_rdt_caps *caps = &domain->caps;
	struct ss_rdt_rmid *one = &domain->rmids[rmid];
	enum ss_rdt_status status = ss_rdt_status_of(value, flags);
	const __u64 bytes = ss_rdt_lines(domain, value);
	/* A dead owner's lines are its own when they are read for the first time. */
	const bool owned = owner->live || one->occupancy_ns < owner->freed_ns;

	if (owned && one->taint_generation != owner->generation) {
		one->taint_generation = owner->generation;
		/* Nobody looked between the two owners: all may be the first one's. */
		if (one->occupancy_ns < (owner->live ? owner->freed_ns : owner->prev_freed_ns))
			one->stale_bytes = ~0ull;
	}
	if (status == SS_RDT_OK) {
		one->occupancy_ns = sample->hdr.ts_ns;
		if (bytes < one->stale_bytes)
			one->stale_bytes = bytes;
		if (one->stale_bytes > ss_rdt_stale_limit(caps))
			status = SS_RDT_TAINTED;
		if (!owner->live)
			one->stale_bytes = bytes; /* for whoever is next */
	}
	sample->since_ns = sample->hdr.ts_ns;
	sample->value = status == SS_RDT_OK ? bytes : 0;
	sample->status = status;
	return owned && flags & SS_RDT_RAN;
}

bool ss_rdt_domain_is_long(const struct ss_rdt_domain *domain, __u32 rmid, const __u64 *values,
			   __u64 now_ns, __u64 long_ns)
{
	const __u64 mask = (1ull << domain->caps.width) - 1;
	const struct ss_rdt_rmid *one = &domain->rmids[rmid];
	__u32 which;

	for (which = 0; which < SS_RDT_NR_MBM; which++)
		if (domain->caps.events & 1u << (SS_RDT_MBM_TOTAL + which) &&
		    (values[SS_RDT_MBM_TOTAL + which - 1] & mask) != one->count[which] &&
		    (__s64)(now_ns - one->read_ns[which]) > (__s64)long_ns)
			return true;
	return false;
}

__u64 ss_rdt_domain_read_ns(const struct ss_rdt_domain *domain, __u32 rmid)
{
	const struct ss_rdt_rmid *one = &domain->rmids[rmid];
	__u64 first_ns = ~0ull, read_ns;
	__u32 which;

	for (which = 0; which < SS_RDT_NR_MBM; which++) {
		read_ns = READ_ONCE(one->read_ns[which]);
		if (domain->caps.events & 1u << (SS_RDT_MBM_TOTAL + which) && read_ns < first_ns)
			first_ns = read_ns;
	}
	return first_ns;
}

bool ss_rdt_domain_take(struct ss_rdt_domain *domain, __u32 rmid, enum ss_rdt_event event, __u64 value,
			__u32 flags, const struct ss_rdt_owner *owner, __u64 now_ns,
			struct ss_rdt_stats *stats, struct ss_rdt_sample *sample)
{
	struct ss_rdt_rmid *one = &domain->rmids[rmid];

	memset(sample, 0, sizeof(*sample));
	if (one->epoch != domain->epoch) {
		one->epoch = domain->epoch;
		one->has_base = 0;
	}
	sample->hdr.ts_ns = now_ns;
	sample->hdr.type = SS_RDT_SAMPLE;
	sample->hdr.size = sizeof(*sample);
	sample->rmid = rmid;
	sample->generation = owner->generation;
	sample->domain = domain->id;
	sample->event = event;
	if (event == SS_RDT_LLC_OCCUPANCY)
		return ss_rdt_take_occupancy(domain, rmid, value, flags, owner, sample);
	return ss_rdt_take_mbm(domain, rmid, event - SS_RDT_MBM_TOTAL, value, flags, owner, stats,
			       sample);
}
