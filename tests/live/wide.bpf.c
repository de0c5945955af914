// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes into the rings of a machine of many CPUs what its CPUs would write: each hands over to the next
 * of its processes every ss_wide_period_ns, and ticks at each border. Run by BPF_PROG_TEST_RUN on the
 * CPU that the rings [ss_wide_first, ss_wide_end) were opened on: the kernel refuses all others.
 */
#include "output.bpf.h"

#define SS_WIDE_RINGS 1024 /* power of two */
#define SS_WIDE_AT_ONCE 64 /* measures of one ring in one run, which nothing interrupts */

struct ss_wide_ring {
	__u64 last_ns; /* until when all of it is written; 0: not begun */
	__u64 switch_ns; /* when the next process comes */
	__u64 nr_written; /* messages that are in the ring */
	__u64 nr_refused; /* by a full ring: the kernel tells the reader how many */
	__u64 written_ns; /* of the measures that were written */
	__u32 seq;
	__u32 running; /* which of its processes */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SS_WIDE_RINGS);
	__type(key, __u32);
	__type(value, struct ss_wide_ring);
} ss_wide_rings SEC(".maps");

unsigned int ss_wide_processes; /* of each CPU */
unsigned int ss_wide_mute; /* CPUs before it write nothing, and say that they do */
unsigned long long ss_wide_period_ns;
/* [CPU that there is] the rings that it fills, and until when. */
unsigned int ss_wide_first[SS_WIDE_RINGS], ss_wide_end[SS_WIDE_RINGS];
unsigned long long ss_wide_until_ns[SS_WIDE_RINGS];

struct ss_wide_step {
	void *ctx;
	struct ss_wide_ring *ring;
	__u32 index;
	__u64 until_ns;
};

static __always_inline bool ss_wide_output(struct ss_wide_step *step, void *message, __u64 size)
{
	if (step->index >= ss_wide_mute &&
	    bpf_perf_event_output(step->ctx, &ss_events, step->index, message, size)) {
		step->ring->nr_refused++;
		return false;
	}
	step->ring->nr_written++;
	return true;
}

static __always_inline __s32 ss_wide_tgid(__u32 ring, __u32 process)
{
	return 1000000 + ring * ss_wide_processes + process;
}

/* One measure, and with it a tick if it ends at a border. */
static long ss_wide_measure(__u32 i, struct ss_wide_step *step)
{
	struct ss_wide_ring *ring = step->ring;
	__u64 border_ns = ring->last_ns - ring->last_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS;
	bool tick = border_ns < ring->switch_ns;
	__u64 end_ns = tick ? border_ns : ring->switch_ns;
	struct ss_measure measure = {};
	__u32 next = ring->running;

	if (end_ns > step->until_ns)
		return 1;
	if (!tick && ++next >= ss_wide_processes)
		next = 0;
	measure.hdr.ts_ns = end_ns;
	measure.hdr.type = SS_MEASURE;
	measure.hdr.size = sizeof(measure);
	measure.hdr.cpu = step->index;
	measure.start_ns = ring->last_ns;
	measure.tgid = ss_wide_tgid(step->index, ring->running);
	measure.start_time_ns = measure.tgid;
	measure.next_tgid = ss_wide_tgid(step->index, next);
	measure.seq = ring->seq++;
	measure.flags = tick ? SS_MEASURE_TICK : 0;
	measure.switches = !tick;
	for (int counter = 0; counter < SS_NR_COUNTERS; counter++) {
		measure.counters[counter].delta = (end_ns - ring->last_ns) * (3 - counter);
		measure.counters[counter].enabled_ns = end_ns - ring->last_ns;
		measure.counters[counter].running_ns = end_ns - ring->last_ns;
	}
	if (ss_wide_output(step, &measure, sizeof(measure)))
		ring->written_ns += end_ns - ring->last_ns;
	if (tick) {
		struct ss_tick message = {};

		message.hdr = measure.hdr;
		message.hdr.type = SS_TICK;
		message.hdr.size = sizeof(message);
		message.due_ns = end_ns;
		ss_wide_output(step, &message, sizeof(message));
	} else {
		ring->running = next;
		ring->switch_ns += ss_wide_period_ns;
	}
	ring->last_ns = end_ns;
	return 0;
}

static long ss_wide_one(__u32 i, struct ss_wide_step *run)
{
	struct ss_wide_step step = {.ctx = run->ctx, .until_ns = run->until_ns};

	step.index = (run->index + i) & (SS_WIDE_RINGS - 1);
	step.ring = bpf_map_lookup_elem(&ss_wide_rings, &step.index);
	if (!step.ring)
		return 1;
	if (!step.ring->last_ns) {
		struct ss_cpu_state state = {};

		state.hdr.ts_ns = step.until_ns;
		state.hdr.type = SS_CPU_STATE;
		state.hdr.size = sizeof(state);
		state.hdr.cpu = step.index;
		state.online = 1;
		ss_wide_output(&step, &state, sizeof(state));
		step.ring->last_ns = step.until_ns;
		/* Not all at the same time. */
		step.ring->switch_ns = step.until_ns + 1 + ss_wide_period_ns * step.index / SS_WIDE_RINGS;
	}
	bpf_loop(SS_WIDE_AT_ONCE, ss_wide_measure, &step, 0);
	return 0;
}

SEC("raw_tp/sys_enter")
int ss_wide_fill(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id() & (SS_WIDE_RINGS - 1);
	struct ss_wide_step step = {.ctx = ctx};

	step.index = ss_wide_first[cpu];
	step.until_ns = ss_wide_until_ns[cpu];
	bpf_loop(ss_wide_end[cpu] - ss_wide_first[cpu], ss_wide_one, &step, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
