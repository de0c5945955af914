/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Perf counters of this CPU since its last measure.
 *
 * The collector opens the events of each CPU and puts them into one array, by counter and CPU. A read
 * that fails, a first read, and a counter that was opened anew (its enabled time fell) give no delta:
 * running_ns stays 0, which means "not measured".
 */
#ifndef SLOTSCOPE_COUNTERS_BPF_H
#define SLOTSCOPE_COUNTERS_BPF_H

#include "output.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 1); /* set by the collector: counters x possible CPUs */
} ss_perf_counters SEC(".maps");

struct ss_counter_values {
	struct bpf_perf_event_value last[SS_MAX_COUNTERS];
	__u32 valid; /* bit i: last[i] was read */
	__u32 era; /* of ss_counters_era, in which they were */
};

/* This CPU only; measures on one CPU never interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ss_counter_values);
} ss_counters SEC(".maps");

/* All three set by the collector. Bit i: it could open counter i. */
const volatile __u32 ss_counters_opened = 0;
const volatile __u32 ss_nr_more = 0; /* counters behind each measure */
const volatile __u32 ss_nr_possible_cpus = 0;

/*
 * Written by the collector. 0: counters cost too much here. Another number than before: they are read
 * again, and what they have counted meanwhile is nobody's.
 */
__u32 ss_counters_era;

/*
 * Without a branch: the verifier would follow those of each counter times those of all others. A read
 * that failed (err < 0) has made *now zero; `bad` has its highest bit set if there is no delta.
 */
static __always_inline void ss_counter_delta(struct ss_counter *counter,
					     struct ss_counter_values *values, __u32 id,
					     const struct bpf_perf_event_value *now, __s64 err)
{
	struct bpf_perf_event_value *last = &values->last[id];
	__s64 enabled_ns = now->enabled - last->enabled;
	__s64 running_ns = now->running - last->running;
	__s64 bad = err | enabled_ns | running_ns | ((__s64)(values->valid >> id & 1) - 1);
	__u64 keep = ~(bad >> 63);

	counter->delta = (now->counter - last->counter) & keep;
	counter->enabled_ns = enabled_ns & keep;
	counter->running_ns = running_ns & keep;
	*last = *now;
	values->valid &= ~(1u << id);
	values->valid |= (__u32)(~err >> 63 & 1) << id;
}

static __always_inline void ss_read_counter(struct ss_counter *counter, struct ss_counter_values *values,
					    __u32 id, __u32 cpu)
{
	struct bpf_perf_event_value now = {};
	__s64 err;

	if (!(ss_counters_opened & (1u << id)))
		return;
	err = bpf_perf_event_read_value(&ss_perf_counters, id * ss_nr_possible_cpus + cpu, &now,
					sizeof(now));
	ss_counter_delta(counter, values, id, &now, err);
}

/*
 * A function of its own, which is verified once: within others, its ways would be followed times theirs.
 */
__noinline int ss_read_all_counters(struct ss_long_measure *msg)
{
	__u32 cpu = bpf_get_smp_processor_id(), key = 0;
	struct ss_counter_values *values = bpf_map_lookup_elem(&ss_counters, &key);

	if (!values || !msg)
		return 0;
	if (values->era != ss_counters_era) {
		values->era = ss_counters_era;
		values->valid = 0;
	}
#pragma unroll
	for (__u32 i = 0; i < SS_NR_COUNTERS; i++)
		ss_read_counter(&msg->measure.counters[i], values, i, cpu);
#pragma unroll
	for (__u32 i = 0; i < SS_MAX_MORE; i++)
		ss_read_counter(&msg->more[i], values, SS_NR_COUNTERS + i, cpu);
	return 0;
}

static __always_inline bool ss_counters_wanted(void)
{
	return ss_counters_opened && ss_counters_era;
}

/* REQUIRES: its counters are zero. Once per measure, on the CPU it is about. */
static __always_inline void ss_read_counters(struct ss_long_measure *msg)
{
	if (ss_counters_wanted())
		ss_read_all_counters(msg);
}

#endif /* SLOTSCOPE_COUNTERS_BPF_H */
