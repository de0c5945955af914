/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Perf counters of this CPU since its last measure.
 *
 * The collector opens one event group per CPU and puts the members into these arrays. A read that
 * fails, a first read, and a counter that was opened anew (its enabled time fell) give no delta:
 * running_ns stays 0, which means "not measured".
 */
#ifndef SLOTSCOPE_COUNTERS_BPF_H
#define SLOTSCOPE_COUNTERS_BPF_H

#include "output.bpf.h"

#define SS_PERF_ARRAY(name)                                                                     \
	struct {                                                                                \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);                                    \
		__uint(key_size, sizeof(__u32));                                                \
		__uint(value_size, sizeof(__u32));                                              \
	} name SEC(".maps")

SS_PERF_ARRAY(ss_perf_cycles);
SS_PERF_ARRAY(ss_perf_instructions);
SS_PERF_ARRAY(ss_perf_llc_misses);

struct ss_counter_values {
	struct bpf_perf_event_value last[SS_NR_COUNTERS];
	__u32 valid; /* bit i: last[i] was read */
	__u32 zero;
};

/* This CPU only; measures on one CPU never interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ss_counter_values);
} ss_counters SEC(".maps");

/* Bit i: the collector could open counter i. */
const volatile __u32 ss_counters_opened = 0;

/* Written by the collector: counters cost too much here. */
__u32 ss_counters_off;

static __always_inline void ss_counter_delta(struct ss_counter *counter,
					     struct ss_counter_values *values, __u32 id,
					     const struct bpf_perf_event_value *now, long err)
{
	struct bpf_perf_event_value *last = &values->last[id];
	__u32 bit = 1u << id;

	if (err) {
		values->valid &= ~bit;
		return;
	}
	if ((values->valid & bit) && now->enabled >= last->enabled && now->running >= last->running) {
		counter->delta = now->counter - last->counter;
		counter->enabled_ns = now->enabled - last->enabled;
		counter->running_ns = now->running - last->running;
	}
	*last = *now;
	values->valid |= bit;
}

#define SS_READ_COUNTER(msg, values, id, map)                                                   \
	do {                                                                                    \
		struct bpf_perf_event_value now = {};                                           \
		long err;                                                                       \
                                                                                                \
		if (ss_counters_opened & (1u << (id))) {                                        \
			err = bpf_perf_event_read_value(&(map), BPF_F_CURRENT_CPU, &now, sizeof(now)); \
			ss_counter_delta(&(msg)->counters[id], values, id, &now, err);          \
		}                                                                               \
	} while (0)

/* REQUIRES: msg->counters is zero. Once per measure, on the CPU it is about. */
static __always_inline void ss_read_counters(struct ss_measure *msg)
{
	struct ss_counter_values *values;
	__u32 key = 0;

	if (!ss_counters_opened || ss_counters_off)
		return;
	values = bpf_map_lookup_elem(&ss_counters, &key);
	if (!values)
		return;
	SS_READ_COUNTER(msg, values, SS_CYCLES, ss_perf_cycles);
	SS_READ_COUNTER(msg, values, SS_INSTRUCTIONS, ss_perf_instructions);
	SS_READ_COUNTER(msg, values, SS_LLC_MISSES, ss_perf_llc_misses);
}

#endif /* SLOTSCOPE_COUNTERS_BPF_H */
