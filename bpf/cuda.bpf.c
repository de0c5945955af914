// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls into CUDA's runtime and driver libraries, as uprobes. A message per successful call, written
 * when it returns; what each function means and where its values are says ss_cuda_probes[], at the
 * attach cookie.
 *
 * Nesting. The runtime calls the driver, and itself (__cudaLaunchKernel calls cudaLaunchKernel), and one
 * call may make several. Only the outermost counts. A stack of (stack pointer, function) per thread
 * tells them apart. It survives what skips returns (longjmp, exceptions, a probe that the kernel
 * missed): the stack grows downwards, so a frame whose stack pointer is below that of a new call, or is
 * the same with the same function, has ended. The same with another function is a tail call.
 */
#include "output.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <slotscope/cuda_probe.h>

#define SS_CUDA_MAX_DEPTH 8 /* CUDA 13 nests 3 deep; a power of two */
#define SS_CUDA_NR_ARGS 6
#define SS_CUDA_TOLD_AGAIN_NS 1000000000ull

struct ss_cuda_frame {
	__u64 sp;
	__u64 probe;
};

struct ss_cuda_open_call {
	__u64 start_ns; /* 0: none */
	__u64 values[SS_CUDA_NR_VALUES]; /* what is read at the return is still an address */
	bool unreadable;
};

struct ss_cuda_thread {
	__u64 depth; /* frames; those beyond SS_CUDA_MAX_DEPTH are not kept */
	struct ss_cuda_frame frames[SS_CUDA_MAX_DEPTH];
	struct ss_cuda_open_call outer;
	struct ss_cuda_open_call told; /* the latest one within it with SS_CUDA_COOKIE_TOLD */
	bool spoken; /* a message of it was sent */
	/* What it was last told of its device, and about when: some programs ask before each launch. */
	__u32 got_device; /* + 1; 0: nothing */
	__u64 got_ns;
	__u64 bypassed_by; /* ss_cuda_bypassed_by when it was last looked at */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ss_cuda_thread);
} ss_cuda_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SS_CUDA_MAX_CALLS);
	__type(key, __u32);
	__type(value, struct ss_cuda_probe);
} ss_cuda_probes SEC(".maps");

/* [enum ss_cuda_count] */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SS_CUDA_NR_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} ss_cuda_counts SEC(".maps");

/* [cpu] */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* whoever flushes looks first */
	__uint(max_entries, 1); /* as many CPUs as there may be: set before it is loaded */
	__type(key, __u32);
	__type(value, struct ss_cuda_queue);
} ss_cuda_queues SEC(".maps");

/* Whether somebody flushes the queues. */
bool ss_cuda_is_flushed;

/* [0] -> the latest heartbeat, CLOCK_BOOTTIME in ns; 0: there has never been one. See cuda_probe.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} ss_cuda_watchdog SEC(".maps");

const volatile bool ss_cuda_is_watched;
/* The heartbeat that was stale when the probes last did nothing. */
__u64 ss_cuda_bypassed_by;

/* Clang drops a mask where it knows the bound, and the verifier then does not. */
#define SS_CUDA_BOUNDED(i)                                               \
	({                                                               \
		__u64 _i = (i);                                          \
		asm volatile("%0 &= 7" : "+r"(_i));                      \
		_i;                                                      \
	})

static __always_inline void ss_cuda_count(__u32 which)
{
	__u64 *count = bpf_map_lookup_elem(&ss_cuda_counts, &which);

	if (count)
		(*count)++; /* per CPU, and uprobes run in task context: nobody else is at it */
}

static __always_inline bool ss_cuda_is_bypassed(void)
{
	__u64 heartbeat_ns;
	__u32 key = 0;
	__u64 *value;

	if (!ss_cuda_is_watched)
		return false;
	value = bpf_map_lookup_elem(&ss_cuda_watchdog, &key);
	heartbeat_ns = value ? *(volatile __u64 *)value : 0;
	if (heartbeat_ns == 0 || !ss_cuda_is_stale(heartbeat_ns, bpf_ktime_get_boot_ns()))
		return false;
	ss_cuda_count(SS_CUDA_NR_BYPASSED);
	if (ss_cuda_bypassed_by != heartbeat_ns)
		ss_cuda_bypassed_by = heartbeat_ns;
	return true;
}

/* What was open when the probes began to do nothing may have ended since: it is left. */
static __always_inline void ss_cuda_resume(struct ss_cuda_thread *thread)
{
	if (!ss_cuda_is_watched || thread->bypassed_by == ss_cuda_bypassed_by)
		return;
	thread->bypassed_by = ss_cuda_bypassed_by;
	thread->depth = 0;
	thread->told.start_ns = 0;
}

static __always_inline struct ss_cuda_frame *ss_cuda_top(struct ss_cuda_thread *thread)
{
	return &thread->frames[SS_CUDA_BOUNDED(thread->depth - 1)];
}

/* Leaves the frames of calls that have ended, as a call that begins with this stack pointer shows. */
static __always_inline void ss_cuda_drop_ended(struct ss_cuda_thread *thread, __u64 sp, __u64 probe)
{
	if (thread->depth > SS_CUDA_MAX_DEPTH && thread->frames[0].sp < sp)
		thread->depth = 0; /* the outermost one, so all of them */
	for (int i = 0; i < SS_CUDA_MAX_DEPTH; i++) {
		struct ss_cuda_frame *top = ss_cuda_top(thread);

		if (thread->depth == 0 || thread->depth > SS_CUDA_MAX_DEPTH)
			break;
		if (top->sp > sp || (top->sp == sp && top->probe != probe))
			break;
		thread->depth--;
		ss_cuda_count(SS_CUDA_NR_UNRETURNED);
	}
}

/* The value, or for SS_FROM_RESULT* its address. args has SS_CUDA_NR_ARGS + 2 words. */
static __always_inline __u64 ss_cuda_read_value(struct pt_regs *ctx,
						const struct ss_cuda_value *value, const __u64 *args,
						bool *unreadable)
{
	__u64 arg = args[SS_CUDA_BOUNDED(value->index)];
	__u64 at, read = 0;
	__u32 read32 = 0;
	bool is32 = false;

	switch (value->from) {
	case SS_FROM_NOTHING:
		return 0;
	case SS_FROM_CONSTANT:
		return value->offset;
	case SS_FROM_ARG:
		return arg;
	case SS_FROM_ARG32:
		return (__u32)arg;
	case SS_FROM_ARG32_PAIR:
		return (__u32)arg | args[SS_CUDA_BOUNDED(value->index + 1)] << 32;
	case SS_FROM_STACK32:
		is32 = true;
		/* fall through */
	case SS_FROM_STACK:
		at = ctx->sp + 8 + 8 * (__u64)value->index;
		break;
	case SS_FROM_MEMORY32:
		is32 = true;
		/* fall through */
	case SS_FROM_MEMORY:
		at = arg + value->offset;
		break;
	default:
		return arg ? arg + value->offset : 0;
	}
	if (is32) {
		*unreadable |= bpf_probe_read_user(&read32, sizeof(read32), (void *)at) != 0;
		return read32;
	}
	*unreadable |= bpf_probe_read_user(&read, sizeof(read), (void *)at) != 0;
	return read;
}

static __always_inline void ss_cuda_open(struct pt_regs *ctx, struct ss_cuda_open_call *call,
					 __u64 cookie)
{
	__u64 args[SS_CUDA_NR_ARGS + 2] = { ctx->di, ctx->si, ctx->dx, ctx->cx, ctx->r8, ctx->r9 };
	struct ss_cuda_probe *probe;
	__u32 index = cookie;

	probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);
	if (!probe)
		return;
	call->unreadable = false;
	__builtin_memset(call->values, 0, sizeof(call->values));
	for (int i = 0; i < SS_CUDA_NR_VALUES && i < probe->nr_values; i++)
		call->values[i] = ss_cuda_read_value(ctx, &probe->values[i], args, &call->unreadable);
	call->start_ns = bpf_ktime_get_ns();
}

SEC("uprobe")
int ss_cuda_enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct ss_cuda_thread *thread;

	if (ss_cuda_is_bypassed())
		return 0;
	thread = bpf_task_storage_get(&ss_cuda_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ss_cuda_count(SS_CUDA_NR_UNTRACKED);
		return 0;
	}
	ss_cuda_resume(thread);
	ss_cuda_drop_ended(thread, ctx->sp, cookie);
	if (thread->depth < SS_CUDA_MAX_DEPTH) {
		struct ss_cuda_frame *frame = &thread->frames[SS_CUDA_BOUNDED(thread->depth)];

		frame->sp = ctx->sp;
		frame->probe = cookie;
	}
	if (thread->depth++ == 0)
		ss_cuda_open(ctx, &thread->outer, cookie);
	else if (cookie & SS_CUDA_COOKIE_TOLD)
		ss_cuda_open(ctx, &thread->told, cookie);
	return 0;
}

/* Replaces the addresses of results by what is there. */
static __always_inline void ss_cuda_read_results(struct ss_cuda_open_call *call,
						 const struct ss_cuda_probe *probe)
{
	__u32 results = probe->results;

	for (int i = 0; i < SS_CUDA_NR_VALUES && results >> i; i++) {
		void *at = (void *)call->values[i];
		__u64 value = 0;
		__u32 value32 = 0;
		long err = 0;

		if (!(results >> i & 1))
			continue;
		/* Without an address nobody wants to know. */
		if (at && probe->values[i].from == SS_FROM_RESULT32) {
			err = bpf_probe_read_user(&value32, sizeof(value32), at);
			value = value32;
		} else if (at) {
			err = bpf_probe_read_user(&value, sizeof(value), at);
		}
		call->unreadable |= err != 0;
		call->values[i] = value;
	}
}

/* The kernel counts what a full buffer refuses (ENOSPC) by record; this counts by call. */
static __always_inline void ss_cuda_output(void *ctx, struct ss_hdr *message, __u64 size, __u32 nr)
{
	__u32 which = SS_CUDA_NR_UNWRITTEN;
	__u64 *count;

	if (!ss_output(ctx, message, size))
		return;
	count = bpf_map_lookup_elem(&ss_cuda_counts, &which);
	if (count)
		__sync_fetch_and_add(count, nr); /* a flush may interrupt */
}

static __always_inline void ss_cuda_write(void *ctx, struct ss_cuda_queue *queue, __u64 ts_ns)
{
	__u32 nr = queue->nr;
	__u64 size = sizeof(struct ss_hdr) + nr * sizeof(struct ss_cuda_call);

	queue->nr = 0;
	if (size > sizeof(queue->batch))
		return; /* never: the verifier does not know */
	ss_fill_hdr(&queue->batch.hdr, SS_CUDA_CALLS, size, ts_ns);
	ss_cuda_output(ctx, &queue->batch.hdr, size, nr);
}

/* Null: somebody else is at it, whom we have interrupted or who has been preempted. */
static __always_inline struct ss_cuda_queue *ss_cuda_take_queue(__u32 cpu)
{
	struct ss_cuda_queue *queue;

	if (!ss_cuda_is_flushed)
		return NULL;
	queue = bpf_map_lookup_elem(&ss_cuda_queues, &cpu);
	if (!queue || __sync_val_compare_and_swap(&queue->taken, 0, 1) != 0)
		return NULL;
	return queue;
}

/* To others on this CPU only, who see our stores in their order. */
static __always_inline void ss_cuda_release_queue(struct ss_cuda_queue *queue)
{
	barrier();
	*(volatile __u32 *)&queue->taken = 0;
}

/* All of it. */
static __always_inline void ss_cuda_fill(struct ss_cuda_call *call, struct task_struct *task,
					 struct ss_cuda_thread *thread,
					 const struct ss_cuda_probe *probe,
					 const struct ss_cuda_open_call *open_call, __u64 ts_ns)
{
	ss_fill_hdr(&call->hdr, SS_CUDA_CALL, sizeof(*call), ts_ns);
	call->start_ns = open_call->start_ns;
	call->start_time_ns = task->group_leader->start_time;
	call->tgid = task->tgid;
	call->tid = task->pid;
	call->op = probe->op;
	call->flags = probe->flags | (thread->spoken ? 0 : SS_CUDA_FIRST);
	thread->spoken = true;
	__builtin_memcpy(call->values, open_call->values, sizeof(call->values));
}

static __always_inline void ss_cuda_send(struct pt_regs *ctx, struct task_struct *task,
					 struct ss_cuda_thread *thread,
					 const struct ss_cuda_probe *probe,
					 const struct ss_cuda_open_call *open_call)
{
	struct ss_cuda_queue *queue = ss_cuda_take_queue(bpf_get_smp_processor_id());
	__u64 now_ns = bpf_ktime_get_ns();
	struct ss_cuda_call call;

	if (!queue) {
		ss_cuda_fill(&call, task, thread, probe, open_call, now_ns);
		ss_cuda_output(ctx, &call.hdr, sizeof(call), 1);
		return;
	}
	if (queue->nr == 0)
		queue->first_ns = now_ns;
	ss_cuda_fill(&queue->batch.calls[SS_CUDA_BOUNDED(queue->nr)], task, thread, probe, open_call,
		     now_ns);
	if (++queue->nr >= SS_CUDA_BATCH || now_ns - queue->first_ns > SS_CUDA_QUEUE_NS)
		ss_cuda_write(ctx, queue, now_ns);
	ss_cuda_release_queue(queue);
}

/* Said again once in a while, because a message may be lost. */
static __always_inline bool ss_cuda_is_known(struct ss_cuda_thread *thread)
{
	__u32 device = (__u32)thread->outer.values[0] + 1;
	__u64 now_ns = thread->outer.start_ns;

	if (device == thread->got_device && now_ns - thread->got_ns < SS_CUDA_TOLD_AGAIN_NS)
		return true;
	thread->got_device = device;
	thread->got_ns = now_ns;
	return false;
}

static __always_inline void ss_cuda_returned(struct pt_regs *ctx, struct task_struct *task,
					     struct ss_cuda_thread *thread, __u32 index)
{
	struct ss_cuda_probe *probe;

	ss_cuda_count(SS_CUDA_NR_CALLED);
	if ((__s32)ctx->ax != 0) {
		ss_cuda_count(SS_CUDA_NR_FAILED);
		return;
	}
	probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);
	if (!probe)
		return;
	ss_cuda_read_results(&thread->outer, probe);
	if (thread->outer.unreadable) {
		ss_cuda_count(SS_CUDA_NR_UNREADABLE);
		return;
	}
	if (probe->op == SS_CUDA_GOT_DEVICE && ss_cuda_is_known(thread))
		return;
	ss_cuda_send(ctx, task, thread, probe, &thread->outer);
}

/*
 * Of a call within a call, only that the driver was initialized matters, as all is known since then, and
 * which device is which.
 */
static __always_inline void ss_cuda_nested(struct pt_regs *ctx, struct task_struct *task,
					   struct ss_cuda_thread *thread, __u64 cookie)
{
	struct ss_cuda_probe *probe;
	__u32 index = cookie;

	ss_cuda_count(SS_CUDA_NR_NESTED);
	if (!(cookie & SS_CUDA_COOKIE_TOLD) || (__s32)ctx->ax != 0 || thread->told.start_ns == 0)
		return;
	probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);
	if (!probe)
		return;
	ss_cuda_read_results(&thread->told, probe);
	if (!thread->told.unreadable)
		ss_cuda_send(ctx, task, thread, probe, &thread->told);
	thread->told.start_ns = 0; /* what called it may be one of these, too: once is enough */
}

SEC("uretprobe")
int ss_cuda_leave(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 sp = ctx->sp - 8; /* as it was when the function was called */
	struct ss_cuda_thread *thread;
	bool found = false;

	if (ss_cuda_is_bypassed())
		return 0;
	thread = bpf_task_storage_get(&ss_cuda_threads, task, 0, 0);
	if (thread)
		ss_cuda_resume(thread);
	if (!thread || thread->depth == 0) {
		ss_cuda_count(SS_CUDA_NR_HALF_SEEN);
		return 0;
	}
	if (thread->depth > SS_CUDA_MAX_DEPTH) {
		thread->depth--;
		ss_cuda_nested(ctx, task, thread, cookie);
		return 0;
	}
	for (int i = 0; i < SS_CUDA_MAX_DEPTH && !found; i++) {
		struct ss_cuda_frame *top = ss_cuda_top(thread);

		if (thread->depth == 0 || top->sp > sp)
			break;
		found = top->sp == sp && top->probe == cookie;
		thread->depth--;
		if (!found)
			ss_cuda_count(SS_CUDA_NR_UNRETURNED);
	}
	if (!found)
		ss_cuda_count(SS_CUDA_NR_HALF_SEEN);
	else if (thread->depth > 0)
		ss_cuda_nested(ctx, task, thread, cookie);
	else
		ss_cuda_returned(ctx, task, thread, cookie);
	return 0;
}

/*
 * Run by the collector, before it drains the buffers: writes what waits in the queue of CPU args[0]. On
 * that CPU, or on any if it is offline.
 */
SEC("raw_tp")
int ss_cuda_flush(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 cpu = ctx->args[0];
	struct ss_cuda_queue *queue = ss_cuda_take_queue(cpu);

	if (!queue)
		return 0;
	if (queue->nr > 0)
		ss_cuda_write(ctx, queue, bpf_ktime_get_ns());
	ss_cuda_release_queue(queue);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
