// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls into CUDA's runtime and driver libraries, as uprobes. A message per successful call, written
 * when it returns; what each function means and where its values are says ss_cuda_probes[], at the
 * attach cookie.
 *
 * Nesting. The runtime calls the driver, and itself (__cudaLaunchKernel calls cudaLaunchKernel), and one
 * call may make several. Only the outermost counts. A stack of (stack pointer, function) per thread
 * tells them apart. It survives what skips returns (longjmp, exceptions, a probe that the kernel
 * missed): the stack grows downwards, so a frame whose stack pointer is below that of a new call has
 * ended, and one that has the same, but for a tail call. One that is above has ended if its return
 * address is not the kernel's trampoline any more. A call far below is on another stack (a coroutine's),
 * and what is open there has not made it; neither has a call that is open for longer than any.
 *
 * Preemption. A program of a uprobe may be preempted, and since 6.13 the kernel gives it a stack that it
 * shares with all that run it on the same CPU: who comes between would overwrite it. So what uses a
 * stack runs without preemption there.
 *
 * What is lost is lost of one process, whose name waits in ss_cuda_losers.
 *
 * Turns. Why a GPU has nothing to do is asked of the thread that launches: of each thread that has made
 * a call it is told when it runs, leaves its CPU, and is woken. Of others a switch looks up that they
 * have made none, while there are processes that use CUDA at all.
 */
#include "cost.bpf.h"
#include "output.bpf.h"
#include "task.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <slotscope/cuda_probe.h>

#define SS_CUDA_MAX_DEPTH 8 /* CUDA 13 nests 3 deep; a power of two */
#define SS_CUDA_NR_ARGS 6
#define SS_CUDA_TOLD_AGAIN_NS 1000000000ull
#define SS_CUDA_STACK_BYTES (256ull << 10) /* that CUDA's libraries take, several times */
#define SS_CUDA_LONGEST_NS 300000000000ull /* a first launch compiles, a wait waits */
#define SS_CUDA_SHORT_NS 100000ull /* what a call makes itself it mostly makes at once */
#define SS_CUDA_TURNS_PER_MS 64 /* that are told of a thread */

/* What we read of the kernel's uprobes, whose names are not in any header. */
struct xol_area___uprobes {
	unsigned long vaddr; /* the trampoline's, to which probed functions return */
} __attribute__((preserve_access_index));
struct uprobes_state___uprobes {
	struct xol_area___uprobes *xol_area;
} __attribute__((preserve_access_index));
struct mm_struct___uprobes {
	struct uprobes_state___uprobes uprobes_state;
} __attribute__((preserve_access_index));

struct ss_cuda_frame {
	__u64 sp;
	__u64 probe;
};

struct ss_cuda_open_call {
	__u64 start_ns; /* 0: none */
	__u64 values[SS_CUDA_NR_VALUES]; /* what is read at the return is still an address */
	bool unreadable; /* then the rest is for another try, at the return: by then it has been read */
	__u64 sp;
	__u64 args[SS_CUDA_NR_ARGS + 2];
};

struct ss_cuda_thread {
	__u64 depth; /* frames; those beyond SS_CUDA_MAX_DEPTH are not kept */
	struct ss_cuda_frame frames[SS_CUDA_MAX_DEPTH];
	struct ss_cuda_open_call outer;
	struct ss_cuda_open_call told; /* the latest one within it with SS_CUDA_COOKIE_TOLD */
	__u64 told_probe; /* its cookie: another such call may return first */
	bool spoken; /* a message of it was sent */
	bool doubted; /* its outermost call was taken for ended, by a guess */
	bool has_nested; /* its outermost call has made one that returned */
	/* What it was last told of its device, and about when: some programs ask before each launch. */
	__u32 got_device; /* + 1; 0: nothing */
	__u64 got_ns;
	__u64 bypassed_by; /* ss_cuda_bypassed_by when it was last looked at */
	__u64 turns_ms; /* the millisecond of the next one */
	__u32 nr_turns; /* told in it */
	__u32 missed_turns; /* since the last one that was told */
	__u32 follows; /* ss_cuda_follows when its turns began to be told */
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SS_CUDA_MAX_LOSERS);
	__type(key, struct ss_cuda_loser);
	__type(value, __u64);
} ss_cuda_losers SEC(".maps");

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
/* Not 0: turns are told, from when this became another number. */
unsigned int ss_cuda_follows;

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

/* Of kernels since 6.10. */
extern void bpf_preempt_disable(void) __weak __ksym;
extern void bpf_preempt_enable(void) __weak __ksym;
const volatile bool ss_cuda_shares_stack;

/* Clang drops a mask where it knows the bound, and the verifier then does not. */
#define SS_CUDA_MASKED(i, nr)                                            \
	({                                                               \
		__u64 _i = (i);                                          \
		asm volatile("%0 &= %1" : "+r"(_i) : "i"((nr) - 1));     \
		_i;                                                      \
	})
#define SS_CUDA_BOUNDED(i) SS_CUDA_MASKED(i, SS_CUDA_MAX_DEPTH)

static __always_inline void ss_cuda_count(__u32 which)
{
	__u64 *count = bpf_map_lookup_elem(&ss_cuda_counts, &which);

	if (count)
		(*count)++; /* a task that is preempted in it, and moved, may take one away */
}

static __always_inline void ss_cuda_count_loss(__u32 which)
{
	__u64 *count = bpf_map_lookup_elem(&ss_cuda_counts, &which);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* A call of that process is lost. Named first: who sees the count finds the name. */
static __always_inline void ss_cuda_lose(__u32 which, __s32 tgid, __u64 start_time_ns)
{
	struct ss_cuda_loser loser = { .tgid = tgid, .start_time_ns = start_time_ns };
	__u64 one = 1, *count;

	if (bpf_map_update_elem(&ss_cuda_losers, &loser, &one, BPF_NOEXIST)) {
		count = bpf_map_lookup_elem(&ss_cuda_losers, &loser);
		if (count)
			__sync_fetch_and_add(count, 1);
		else /* it has just been taken out, or there is no room */
			bpf_map_update_elem(&ss_cuda_losers, &loser, &one, BPF_NOEXIST);
	}
	ss_cuda_count_loss(which);
}

static __always_inline void ss_cuda_lose_mine(__u32 which, struct task_struct *task)
{
	ss_cuda_lose(which, task->tgid, ss_task_to_read(task)->group_leader->start_time);
}

/* Of the task that runs. Not inlined: it is seldom run. */
static __noinline int ss_cuda_lose_unreturned(void)
{
	ss_cuda_lose_mine(SS_CUDA_NR_RESUMED, bpf_get_current_task_btf());
	return 0;
}

/*
 * The outermost call has not returned. What it seemed to make itself was not told, and if it had been
 * left before that, by longjmp(), those were calls of their own.
 */
static __always_inline void ss_cuda_give_up(struct ss_cuda_thread *thread)
{
	if (thread->has_nested)
		ss_cuda_lose_unreturned();
	thread->has_nested = false;
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
	ss_cuda_count_loss(SS_CUDA_NR_BYPASSED);
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
	thread->has_nested = false;
	thread->told.start_ns = 0;
}

static __always_inline struct ss_cuda_frame *ss_cuda_top(struct ss_cuda_thread *thread)
{
	return &thread->frames[SS_CUDA_BOUNDED(thread->depth - 1)];
}

/* Will whoever has its return address at sp return by way of us? True if that cannot be known. */
static __always_inline bool ss_cuda_returns_to_us(struct task_struct *task, __u64 sp)
{
	struct mm_struct___uprobes *mm = (void *)ss_task_to_read(task)->mm;
	__u64 trampoline = 0, address = 0;

	if (bpf_core_field_exists(mm->uprobes_state.xol_area->vaddr))
		trampoline = BPF_CORE_READ(mm, uprobes_state.xol_area, vaddr);
	if (!trampoline)
		return true;
	return !bpf_probe_read_user(&address, sizeof(address), (void *)sp) && address == trampoline;
}

/* Leaves the outermost call if it cannot have made one that begins with this stack pointer. */
static __always_inline void ss_cuda_leave_outer(struct ss_cuda_thread *thread,
						struct task_struct *task, __u64 sp)
{
	const __u64 outer = thread->frames[0].sp;
	const __u64 open_ns = bpf_ktime_get_ns() - thread->outer.start_ns;
	const bool guessed = outer - sp > SS_CUDA_STACK_BYTES || open_ns > SS_CUDA_LONGEST_NS;

	if (!guessed && (open_ns < SS_CUDA_SHORT_NS || ss_cuda_returns_to_us(task, outer)))
		return;
	thread->depth = 0;
	thread->doubted = guessed; /* if it goes on after all, it is lost */
	ss_cuda_count(SS_CUDA_NR_UNRETURNED);
	ss_cuda_give_up(thread);
}

/* Leaves the frames of calls that have ended, as a call that begins with this stack pointer shows. */
static __always_inline void ss_cuda_drop_ended(struct ss_cuda_thread *thread,
					       struct task_struct *task, __u64 sp, __u64 probe)
{
	if (thread->depth > 0 && thread->frames[0].sp > sp)
		ss_cuda_leave_outer(thread, task, sp);
	if (thread->depth > SS_CUDA_MAX_DEPTH && thread->frames[0].sp < sp)
		thread->depth = 0; /* the outermost one, so all of them */
	for (int i = 0; i < SS_CUDA_MAX_DEPTH; i++) {
		struct ss_cuda_frame *top = ss_cuda_top(thread);

		if (thread->depth == 0 || thread->depth > SS_CUDA_MAX_DEPTH)
			break;
		if (top->sp > sp)
			break;
		if (top->sp == sp && top->probe != probe && ss_cuda_returns_to_us(task, sp))
			break; /* a tail call */
		thread->depth--;
		ss_cuda_count(SS_CUDA_NR_UNRETURNED);
	}
	if (thread->depth == 0)
		ss_cuda_give_up(thread);
}

/* The value, or for SS_FROM_RESULT* its address. args has SS_CUDA_NR_ARGS + 2 words. */
static __always_inline __u64 ss_cuda_read_value(__u64 sp, const struct ss_cuda_value *value,
						const __u64 *args, bool *unreadable)
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
		at = sp + 8 + 8 * (__u64)value->index;
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

static __always_inline void ss_cuda_read_values(struct ss_cuda_open_call *call,
						const struct ss_cuda_probe *probe, __u64 sp,
						const __u64 *args)
{
	call->unreadable = false;
	for (int i = 0; i < SS_CUDA_NR_VALUES && i < probe->nr_values; i++)
		call->values[i] = ss_cuda_read_value(sp, &probe->values[i], args, &call->unreadable);
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
	__builtin_memset(call->values, 0, sizeof(call->values));
	ss_cuda_read_values(call, probe, ctx->sp, args);
	if (call->unreadable) {
		call->sp = ctx->sp;
		__builtin_memcpy(call->args, args, sizeof(call->args));
	}
	call->start_ns = bpf_ktime_get_ns();
}

/* Of the outermost call that the thread is in; 0: it is in none. */
static __always_inline __u32 ss_cuda_open_op(const struct ss_cuda_thread *thread)
{
	__u32 index = thread->frames[0].probe;
	struct ss_cuda_probe *probe;

	if (thread->depth == 0)
		return 0;
	probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);
	return probe ? probe->op : 0;
}

/*
 * The thread is p's, which runs, or has the lock of the run queue that it is on, or that of its wake-up.
 * One that is woken while it runs may lose a count.
 */
static __always_inline void ss_cuda_tell_turn(void *ctx, struct task_struct *p,
					      struct ss_cuda_thread *thread, __u32 turn, __u32 left)
{
	const __u64 now_ns = bpf_ktime_get_ns(), now_ms = now_ns / 1000000;
	struct ss_cuda_turn msg = {};

	thread->follows = ss_cuda_follows;
	if (thread->turns_ms != now_ms) {
		thread->turns_ms = now_ms;
		thread->nr_turns = 0;
	}
	if (thread->nr_turns >= SS_CUDA_TURNS_PER_MS) {
		thread->missed_turns++;
		return;
	}
	thread->nr_turns++;
	p = ss_task_to_read(p);
	ss_fill_hdr(&msg.hdr, SS_CUDA_TURN, sizeof(msg), now_ns);
	msg.start_time_ns = p->group_leader->start_time;
	msg.tgid = p->tgid;
	msg.tid = p->pid;
	msg.turn = turn;
	msg.left = left;
	msg.op = ss_cuda_open_op(thread);
	msg.missed = thread->missed_turns;
	if (ss_output(ctx, &msg.hdr, sizeof(msg)))
		thread->missed_turns++;
	else
		thread->missed_turns = 0;
}

static __noinline int ss_cuda_called(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct ss_cuda_thread *thread;

	if (ss_cuda_is_bypassed())
		return 0;
	thread = bpf_task_storage_get(&ss_cuda_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ss_cuda_lose_mine(SS_CUDA_NR_UNTRACKED, task);
		return 0;
	}
	ss_cuda_resume(thread);
	if (ss_cuda_follows && thread->follows != ss_cuda_follows)
		ss_cuda_tell_turn(ctx, task, thread, SS_TURN_RUNS, 0);
	ss_cuda_drop_ended(thread, task, ctx->sp, cookie);
	if (thread->depth < SS_CUDA_MAX_DEPTH) {
		struct ss_cuda_frame *frame = &thread->frames[SS_CUDA_BOUNDED(thread->depth)];

		frame->sp = ctx->sp;
		frame->probe = cookie;
	}
	if (thread->depth++ == 0) {
		ss_cuda_open(ctx, &thread->outer, cookie);
	} else if (cookie & SS_CUDA_COOKIE_TOLD) {
		thread->told_probe = cookie;
		ss_cuda_open(ctx, &thread->told, cookie);
	}
	return 0;
}

/* A page that was not there at the call may be now. Not inlined: it is there twice, and seldom run. */
static __noinline void ss_cuda_read_again(struct ss_cuda_open_call *call, struct ss_cuda_probe *probe)
{
	if (call && probe)
		ss_cuda_read_values(call, probe, call->sp, call->args);
}

/* Replaces the addresses of results by what is there. */
static __always_inline void ss_cuda_read_results(struct ss_cuda_open_call *call,
						 struct ss_cuda_probe *probe)
{
	__u32 results = probe->results;

	if (call->unreadable)
		ss_cuda_read_again(call, probe);

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

static __always_inline void ss_cuda_write(void *ctx, struct ss_cuda_queue *queue, __u64 ts_ns)
{
	__u32 nr = queue->nr;
	__u64 size = sizeof(struct ss_hdr) + nr * sizeof(struct ss_cuda_call);

	queue->nr = 0;
	if (size > sizeof(queue->batch))
		return; /* never: the verifier does not know */
	ss_fill_hdr(&queue->batch.hdr, SS_CUDA_CALLS, size, ts_ns);
	if (!ss_output(ctx, &queue->batch.hdr, size))
		return;
	/* The kernel counts what a full buffer refuses by record; this counts by call. */
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < SS_CUDA_BATCH && i < nr; i++)
		ss_cuda_lose(SS_CUDA_NR_UNWRITTEN, queue->batch.calls[i].tgid,
			     queue->batch.calls[i].start_time_ns);
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
	call->start_time_ns = ss_task_to_read(task)->group_leader->start_time;
	call->tgid = task->tgid;
	call->tid = task->pid;
	call->op = probe->op;
	call->flags = probe->flags | (thread->spoken ? 0 : SS_CUDA_FIRST);
	thread->spoken = true;
	__builtin_memcpy(call->values, open_call->values, sizeof(call->values));
}

/* Returns the queue if it is to be written, and released. */
static __always_inline struct ss_cuda_queue *ss_cuda_send(struct pt_regs *ctx,
							  struct task_struct *task,
							  struct ss_cuda_thread *thread,
							  const struct ss_cuda_probe *probe,
							  const struct ss_cuda_open_call *open_call)
{
	struct ss_cuda_queue *queue = ss_cuda_take_queue(bpf_get_smp_processor_id());
	__u64 now_ns = bpf_ktime_get_ns();
	struct ss_cuda_call call;

	if (!queue) {
		ss_cuda_fill(&call, task, thread, probe, open_call, now_ns);
		if (ss_output(ctx, &call.hdr, sizeof(call)))
			ss_cuda_lose(SS_CUDA_NR_UNWRITTEN, call.tgid, call.start_time_ns);
		return NULL;
	}
	if (queue->nr == 0)
		queue->first_ns = now_ns;
	ss_cuda_fill(&queue->batch.calls[SS_CUDA_MASKED(queue->nr, SS_CUDA_BATCH)], task, thread, probe,
		     open_call, now_ns);
	if (++queue->nr >= SS_CUDA_BATCH || now_ns - queue->first_ns > SS_CUDA_QUEUE_NS)
		return queue;
	ss_cuda_release_queue(queue);
	return NULL;
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

static __always_inline struct ss_cuda_queue *ss_cuda_returned(struct pt_regs *ctx,
							      struct task_struct *task,
							      struct ss_cuda_thread *thread,
							      __u32 index)
{
	struct ss_cuda_probe *probe;

	ss_cuda_count(SS_CUDA_NR_CALLED);
	if ((__s32)ctx->ax != 0) {
		ss_cuda_count(SS_CUDA_NR_FAILED);
		return NULL;
	}
	probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);
	if (!probe)
		return NULL;
	ss_cuda_read_results(&thread->outer, probe);
	if (thread->outer.unreadable) {
		ss_cuda_lose_mine(SS_CUDA_NR_UNREADABLE, task);
		return NULL;
	}
	if (probe->op == SS_CUDA_GOT_DEVICE && ss_cuda_is_known(thread))
		return NULL;
	return ss_cuda_send(ctx, task, thread, probe, &thread->outer);
}

/* A launch that sets up first what it needs is not on its way before that is done. */
static __always_inline void ss_cuda_begin_behind(struct ss_cuda_thread *thread)
{
	__u32 index = thread->frames[0].probe;
	struct ss_cuda_probe *probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);

	if (probe && (probe->op == SS_CUDA_LAUNCH || probe->op == SS_CUDA_GRAPH_LAUNCH))
		thread->outer.start_ns = bpf_ktime_get_ns();
}

/*
 * Of a call within a call, only that the driver was initialized matters, as all is known since then,
 * which device is which, and which context is whose: others may name it.
 */
static __always_inline struct ss_cuda_queue *ss_cuda_nested(struct pt_regs *ctx,
							    struct task_struct *task,
							    struct ss_cuda_thread *thread,
							    __u64 cookie)
{
	struct ss_cuda_queue *full = NULL;
	struct ss_cuda_probe *probe;
	__u32 index = cookie;

	ss_cuda_count(SS_CUDA_NR_NESTED);
	thread->has_nested = true;
	if (!(cookie & SS_CUDA_COOKIE_TOLD) || (__s32)ctx->ax != 0 || thread->told.start_ns == 0 ||
	    thread->told_probe != cookie)
		return NULL;
	probe = bpf_map_lookup_elem(&ss_cuda_probes, &index);
	if (!probe)
		return NULL;
	ss_cuda_read_results(&thread->told, probe);
	if (thread->told.unreadable)
		ss_cuda_lose_mine(SS_CUDA_NR_UNREADABLE, task);
	else
		full = ss_cuda_send(ctx, task, thread, probe, &thread->told);
	ss_cuda_begin_behind(thread);
	thread->told.start_ns = 0; /* what called it may be one of these, too: once is enough */
	return full;
}

/* The return of a call that is not open. */
static __always_inline void ss_cuda_unmatched(struct ss_cuda_thread *thread, struct task_struct *task)
{
	if (!thread->doubted) {
		ss_cuda_count(SS_CUDA_NR_HALF_SEEN);
		return;
	}
	thread->doubted = false;
	ss_cuda_lose_mine(SS_CUDA_NR_RESUMED, task);
}

/*
 * Returns the queue if it is to be written, and released: by who called this. What the verifier has to
 * look at where a batch may be lost is long, and would be looked at on each way here.
 */
static __noinline struct ss_cuda_queue *ss_cuda_went_back(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 sp = ctx->sp - 8; /* as it was when the function was called */
	struct ss_cuda_thread *thread;
	bool found = false;

	if (ss_cuda_is_bypassed())
		return NULL;
	/* Made anew only if it was never entered; null: somebody else's look-up is in the way. */
	thread = bpf_task_storage_get(&ss_cuda_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ss_cuda_lose_mine(SS_CUDA_NR_UNTRACKED, task);
		return NULL;
	}
	ss_cuda_resume(thread);
	if (thread->depth == 0) {
		ss_cuda_unmatched(thread, task);
		return NULL;
	}
	if (thread->depth > SS_CUDA_MAX_DEPTH) {
		thread->depth--;
		return ss_cuda_nested(ctx, task, thread, cookie);
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
	if (found && thread->depth > 0)
		return ss_cuda_nested(ctx, task, thread, cookie);
	if (found) {
		thread->has_nested = false;
		return ss_cuda_returned(ctx, task, thread, cookie);
	}
	if (thread->depth == 0)
		ss_cuda_give_up(thread);
	ss_cuda_unmatched(thread, task);
	return NULL;
}

static __always_inline void ss_cuda_own_stack(void)
{
	if (ss_cuda_shares_stack && bpf_preempt_disable)
		bpf_preempt_disable();
}

static __always_inline void ss_cuda_share_stack(void)
{
	if (ss_cuda_shares_stack && bpf_preempt_enable)
		bpf_preempt_enable();
}

/* [enum ss_cuda_prologue]: timed runs of ss_cuda_enter, each of which stands for SS_TIMED_RUNS. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SS_NR_PROLOGUES);
	__type(key, __u32);
	__type(value, __u64);
} ss_cuda_entries SEC(".maps");

static __always_inline void ss_cuda_count_entry(__u64 cookie)
{
	__u32 prologue = cookie >> SS_CUDA_COOKIE_PROLOGUE_SHIFT & 3;
	__u64 *count = bpf_map_lookup_elem(&ss_cuda_entries, &prologue);

	if (count)
		(*count)++;
}

SEC("uprobe")
int ss_cuda_enter(struct pt_regs *ctx)
{
	__u64 begun_ns;

	ss_cuda_own_stack();
	begun_ns = ss_cost_begin();
	ss_cuda_called(ctx);
	if (begun_ns)
		ss_cuda_count_entry(bpf_get_attach_cookie(ctx));
	ss_cost_end(begun_ns);
	ss_cuda_share_stack();
	return 0;
}

SEC("uretprobe")
int ss_cuda_leave(struct pt_regs *ctx)
{
	struct ss_cuda_queue *full;
	__u64 begun_ns;

	ss_cuda_own_stack();
	begun_ns = ss_cost_begin();
	full = ss_cuda_went_back(ctx);
	if (full) {
		ss_cuda_write(ctx, full, bpf_ktime_get_ns());
		ss_cuda_release_queue(full);
	}
	ss_cost_end(begun_ns);
	ss_cuda_share_stack();
	return 0;
}

/* As ss_costs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ss_cost);
} ss_turn_costs SEC(".maps");

static __always_inline void ss_cuda_switch(void *ctx, bool preempt, struct task_struct *prev,
					   struct task_struct *next, unsigned int prev_state)
{
	struct ss_cuda_thread *thread;

	if (prev->pid) {
		thread = bpf_task_storage_get(&ss_cuda_threads, prev, 0, 0);
		if (thread)
			ss_cuda_tell_turn(ctx, prev, thread, SS_TURN_LEFT,
					  ss_left_of(preempt, prev, prev_state) >>
						  SS_MEASURE_LEFT_SHIFT);
	}
	if (next->pid) {
		thread = bpf_task_storage_get(&ss_cuda_threads, next, 0, 0);
		if (thread)
			ss_cuda_tell_turn(ctx, next, thread, SS_TURN_RUNS, 0);
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(ss_cuda_switched, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	const __u64 begun_ns = ss_cost_begin_in(&ss_turn_costs);

	ss_cuda_switch(ctx, preempt, prev, next, prev_state);
	ss_cost_end_in(&ss_turn_costs, begun_ns);
	return 0;
}

/* Of kernels before 5.18: see native.bpf.c. */
SEC("tp_btf/sched_switch")
int BPF_PROG(ss_cuda_switched_stateless, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	const __u64 begun_ns = ss_cost_begin_in(&ss_turn_costs);

	ss_cuda_switch(ctx, preempt, prev, next, prev->__state);
	ss_cost_end_in(&ss_turn_costs, begun_ns);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(ss_cuda_woken, struct task_struct *p)
{
	struct ss_cuda_thread *thread = bpf_task_storage_get(&ss_cuda_threads, p, 0, 0);
	__u64 begun_ns;

	if (!thread)
		return 0;
	begun_ns = ss_cost_begin_in(&ss_turn_costs);
	ss_cuda_tell_turn(ctx, p, thread, SS_TURN_WOKEN, 0);
	ss_cost_end_in(&ss_turn_costs, begun_ns);
	return 0;
}

/* The program that comes after is not in these calls, and is followed from its first one on. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(ss_cuda_executed, struct task_struct *task)
{
	bpf_task_storage_delete(&ss_cuda_threads, task);
	return 0;
}

/* What a trap costs without what runs behind it. */
SEC("uprobe")
int ss_cuda_nothing(struct pt_regs *ctx)
{
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
