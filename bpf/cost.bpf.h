/* SPDX-License-Identifier: GPL-2.0-only */
/* What our programs take, see <slotscope/cost.h>. */
#ifndef SLOTSCOPE_COST_BPF_H
#define SLOTSCOPE_COST_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#include <slotscope/cost.h>

struct ss_cost {
	__u64 nr_runs;
	__u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ss_cost);
} ss_costs SEC(".maps");

/* `costs`: a map like that one. 0: this run is not timed. */
static __always_inline __u64 ss_cost_begin_in(void *costs)
{
	__u32 key = 0;
	struct ss_cost *cost = bpf_map_lookup_elem(costs, &key);

	if (!cost || ++cost->nr_runs % SS_TIMED_RUNS)
		return 0;
	return bpf_ktime_get_ns();
}

static __always_inline void ss_cost_end_in(void *costs, __u64 begun_ns)
{
	struct ss_cost *cost;
	__u64 took_ns;
	__u32 key = 0;

	if (!begun_ns)
		return;
	took_ns = bpf_ktime_get_ns() - begun_ns;
	cost = bpf_map_lookup_elem(costs, &key);
	if (cost)
		cost->ns += ss_cost_of(took_ns);
}

static __always_inline __u64 ss_cost_begin(void)
{
	return ss_cost_begin_in(&ss_costs);
}

static __always_inline void ss_cost_end(__u64 begun_ns)
{
	ss_cost_end_in(&ss_costs, begun_ns);
}

#endif /* SLOTSCOPE_COST_BPF_H */
