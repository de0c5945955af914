// SPDX-License-Identifier: GPL-2.0-only
/*
 * What CPUID says of RDT monitoring.
 *
 * Intel SDM volume 3, chapter on RDT, and CPUID leaf 0xf; AMD64 volume 3, the same leaf. Both count L3
 * occupancy (event 1), total (2) and local (3) memory bandwidth.
 */
#include <slotscope/events.h>
#include <slotscope/rmid_fifo.h>

#include "rdt_cpuid.h"

#define SS_CPUID_7_EBX_MONITORING (1u << 12)
#define SS_CPUID_F_EDX_L3 (1u << 1)
#define SS_CPUID_F1_EAX_WIDTH 0xffu /* above 24; bit 8 is another flag */
#define SS_CPUID_F1_EAX_OVERFLOW (1u << 8)
#define SS_BASE_WIDTH 24u
#define SS_AMD_WIDTH 44u /* of AMD CPUs that leave the field 0 */
#define SS_MAX_WIDTH 62u /* bits 63 and 62 of QM_CTR are flags */
#define SS_MAX_WIDTH_OVERFLOW 61u

#define SS_MODEL_BROADWELL_X 0x4f
#define SS_MODEL_SKYLAKE_X 0x55
#define SS_SKYLAKE_BAD_STEPPING 4 /* up to here its counters are unusable (erratum SKX95 ff) */

/*
 * Broadwell and Skylake servers count too much or too little for RMIDs above a threshold (errata BDF102
 * and SKX99). By the number of RMIDs / 8 - 1: the last RMID that is right, and the factor for the
 * others, in millionths.
 */
static const struct {
	__u16 last_right;
	__u32 ppm;
} ss_corrections[] = {
	{ 7, 1000000 },	  { 15, 1000000 },  { 15, 969650 },   { 31, 1000000 },	{ 31, 1066667 },
	{ 31, 969650 },	  { 47, 1142857 },  { 63, 1000000 },  { 63, 1185115 },	{ 63, 1066553 },
	{ 79, 1454545 },  { 95, 1000000 },  { 95, 1230769 },  { 95, 1142857 },	{ 95, 1066667 },
	{ 127, 1000000 }, { 127, 1254863 }, { 127, 1185255 }, { 151, 1000000 }, { 127, 1066667 },
	{ 167, 1000000 }, { 159, 1454334 }, { 183, 1000000 }, { 127, 969744 },	{ 191, 1280246 },
	{ 191, 1230921 }, { 215, 1000000 }, { 191, 1143118 },
};

static void ss_rdt_set_correction(const struct ss_rdt_cpuid *cpuid, __u32 nr_rmids,
				  struct ss_rdt_caps *caps)
{
	const __u32 nr = sizeof(ss_corrections) / sizeof(ss_corrections[0]);
	__u32 index = nr_rmids / 8 - 1;

	caps->corrected_from = ~0u;
	caps->correction = 1u << 20;
	if (cpuid->vendor != SS_VENDOR_INTEL || cpuid->family != 6)
		return;
	if (cpuid->model != SS_MODEL_BROADWELL_X && cpuid->model != SS_MODEL_SKYLAKE_X)
		return;
	if (nr_rmids < 8 || index >= nr || ss_corrections[index].ppm == 1000000)
		return;
	caps->corrected_from = ss_corrections[index].last_right + 1u;
	caps->correction = (__u32)(((__u64)ss_corrections[index].ppm * (1u << 20) + 500000) / 1000000);
}

/* Servers from Ice Lake on, and those of small cores from Sierra Forest on: Intel's, all of family 6. */
static bool ss_rdt_may_split(const struct ss_rdt_cpuid *cpuid)
{
	static const __u8 models[] = { 0x6a, 0x8f, 0xcf, 0xad, 0xaf, 0xdd };
	__u32 i;

	if (cpuid->vendor != SS_VENDOR_INTEL || cpuid->family != 6)
		return false;
	for (i = 0; i < sizeof(models); i++)
		if (cpuid->model == models[i])
			return true;
	return false;
}

static __u64 ss_rdt_cache_bytes(const struct ss_cpuid_regs *cache)
{
	__u64 line = (cache->ebx & 0xfff) + 1;
	__u64 partitions = ((cache->ebx >> 12) & 0x3ff) + 1;
	__u64 ways = (cache->ebx >> 22) + 1;

	if (!(cache->eax & 0x1f)) /* no such cache */
		return 0;
	return line * partitions * ways * ((__u64)cache->ecx + 1);
}

static __u32 ss_rdt_usable(__u32 nr_rmids)
{
	return nr_rmids < SS_RMID_CAPACITY ? nr_rmids : SS_RMID_CAPACITY;
}

const char *ss_rdt_decode_caps(const struct ss_rdt_cpuid *cpuid, struct ss_rdt_caps *caps)
{
	const struct ss_cpuid_regs *l3 = &cpuid->l3;
	__u32 max_rmid = cpuid->monitoring.ebx < l3->ecx ? cpuid->monitoring.ebx : l3->ecx;
	__u32 max_width = SS_MAX_WIDTH;

	if (!(cpuid->features.ebx & SS_CPUID_7_EBX_MONITORING))
		return "the CPU has no RDT monitoring";
	if (!(cpuid->monitoring.edx & SS_CPUID_F_EDX_L3))
		return "the CPU has RDT monitoring, but not of its L3 cache";
	if (cpuid->vendor == SS_VENDOR_INTEL && cpuid->family == 6 &&
	    cpuid->model == SS_MODEL_SKYLAKE_X && cpuid->stepping <= SS_SKYLAKE_BAD_STEPPING)
		return "this stepping of the CPU counts wrongly (Skylake errata)";
	if (cpuid->vendor == SS_VENDOR_OTHER)
		return "RDT monitoring of this CPU vendor is not known";
	if (max_rmid < 1)
		return "the CPU has no RMID beside 0";
	caps->events = (l3->edx & 7) << SS_RDT_LLC_OCCUPANCY;
	if (!caps->events)
		return "the CPU has RMIDs, but counts nothing by them";
	if (!l3->ebx)
		return "the CPU does not say what its RDT counters count";
	caps->nr_hardware_rmids = max_rmid < ~0u ? max_rmid + 1 : max_rmid;
	caps->nr_rmids = ss_rdt_usable(caps->nr_hardware_rmids);
	caps->may_split = ss_rdt_may_split(cpuid);
	caps->nr_clusters = 1;
	caps->unit_bytes = l3->ebx;
	caps->has_overflow_bit = !!(l3->eax & SS_CPUID_F1_EAX_OVERFLOW);
	if (caps->has_overflow_bit)
		max_width = SS_MAX_WIDTH_OVERFLOW;
	caps->width = SS_BASE_WIDTH + (l3->eax & SS_CPUID_F1_EAX_WIDTH);
	if (cpuid->vendor == SS_VENDOR_AMD && !(l3->eax & SS_CPUID_F1_EAX_WIDTH))
		caps->width = SS_AMD_WIDTH;
	if (caps->width > max_width)
		caps->width = max_width;
	caps->cache_bytes = ss_rdt_cache_bytes(&cpuid->cache);
	ss_rdt_set_correction(cpuid, max_rmid + 1, caps);
	return NULL;
}

__u32 ss_rdt_decode_l3(const struct ss_rdt_cpuid *cpuid)
{
	__u32 nr_sharing = ((cpuid->cache.eax >> 14) & 0xfff) + 1;
	__u32 shift = 0;

	while ((1u << shift) < nr_sharing)
		shift++;
	return cpuid->apic_id >> shift;
}

bool ss_rdt_caps_intersect(struct ss_rdt_caps *caps, const struct ss_rdt_caps *other)
{
	if (other->nr_rmids < caps->nr_rmids)
		caps->nr_rmids = other->nr_rmids;
	if (other->nr_hardware_rmids < caps->nr_hardware_rmids)
		caps->nr_hardware_rmids = other->nr_hardware_rmids;
	caps->events &= other->events;
	caps->may_split &= other->may_split;
	return caps->events && caps->unit_bytes == other->unit_bytes && caps->width == other->width &&
	       caps->has_overflow_bit == other->has_overflow_bit;
}

const char *ss_rdt_caps_divide(struct ss_rdt_caps *caps, __u32 nr_clusters, bool is_split)
{
	if (nr_clusters == 1)
		return NULL;
	if (!nr_clusters)
		return "the NUMA nodes of the L3 caches are in no order that is known";
	if (!is_split)
		return "sub-NUMA clusters, and the kernel has not set them up for RDT";
	if (caps->nr_hardware_rmids / nr_clusters < 2 || caps->unit_bytes < nr_clusters)
		return "more sub-NUMA clusters than RMIDs can be shared out to";
	caps->nr_clusters = nr_clusters;
	caps->nr_rmids = ss_rdt_usable(caps->nr_hardware_rmids / nr_clusters);
	caps->unit_bytes /= nr_clusters;
	caps->cache_bytes /= nr_clusters;
	return NULL;
}

__u32 ss_rdt_first_rmid(const struct ss_rdt_caps *caps, __u32 cluster)
{
	return cluster * (caps->nr_hardware_rmids / caps->nr_clusters);
}
