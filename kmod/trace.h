/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The module's tracepoints: one per message of <slotscope/events.h>, each with a pointer to the whole
 * message, so that a raw tracepoint program copies it in one go. What follows TP_fast_assign is for
 * people who read them with tracefs or perf. All are emitted with interrupts off.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM slotscope

#if !defined(SLOTSCOPE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLOTSCOPE_TRACE_H

#include <linux/tracepoint.h>

#include <slotscope/events.h>

/* tick.c: what a tick emits makes it tick while somebody listens to it. */
int ss_tick_listen(void);
void ss_tick_ignore(void);
/* waits.c: what was told to who listened before counts no more. */
int ss_waits_listen(void);
void ss_waits_ignore(void);

TRACE_EVENT_FN(ss_measure,
	TP_PROTO(const struct ss_measure *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, start_ns)
		__field(u64, ts_ns)
		__field(u64, wait_ns)
		__field(s32, tgid)
		__field(s32, next_tgid)
		__field(u32, rmid)
		__field(u32, generation)
		__field(u32, flags)
		__field(u32, switches)
		__field(u32, preemptions)
	),
	TP_fast_assign(
		__entry->start_ns = msg->start_ns;
		__entry->ts_ns = msg->hdr.ts_ns;
		__entry->wait_ns = msg->wait_ns;
		__entry->tgid = msg->tgid;
		__entry->next_tgid = msg->next_tgid;
		__entry->rmid = msg->rmid;
		__entry->generation = msg->generation;
		__entry->flags = msg->flags;
		__entry->switches = msg->switches;
		__entry->preemptions = msg->preemptions;
	),
	TP_printk("tgid=%d rmid=%u generation=%u start_ns=%llu ts_ns=%llu wait_ns=%llu switches=%u preemptions=%u next_tgid=%d flags=%#x",
		__entry->tgid, __entry->rmid, __entry->generation, __entry->start_ns,
		__entry->ts_ns, __entry->wait_ns, __entry->switches, __entry->preemptions,
		__entry->next_tgid, __entry->flags),
	ss_tick_listen, ss_tick_ignore
);

TRACE_EVENT(ss_task_meta,
	TP_PROTO(const struct ss_task_meta *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, start_time_ns)
		__field(s32, tgid)
		__field(s32, ppid)
		__field(u32, rmid)
		__field(u32, flags)
		__array(char, comm, SS_COMM_LEN)
	),
	TP_fast_assign(
		__entry->start_time_ns = msg->start_time_ns;
		__entry->tgid = msg->tgid;
		__entry->ppid = msg->ppid;
		__entry->rmid = msg->rmid;
		__entry->flags = msg->flags;
		memcpy(__entry->comm, msg->comm, SS_COMM_LEN);
	),
	TP_printk("tgid=%d comm=%s ppid=%d start_time_ns=%llu rmid=%u flags=%#x", __entry->tgid,
		__entry->comm, __entry->ppid, __entry->start_time_ns, __entry->rmid,
		__entry->flags)
);

DECLARE_EVENT_CLASS(ss_rmid_event,
	TP_PROTO(const struct ss_rmid_event *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, ts_ns)
		__field(u64, seq)
		__field(s32, tgid)
		__field(u32, rmid)
		__field(u32, generation)
		__field(s32, reason)
	),
	TP_fast_assign(
		__entry->ts_ns = msg->hdr.ts_ns;
		__entry->seq = msg->seq;
		__entry->tgid = msg->tgid;
		__entry->rmid = msg->rmid;
		__entry->generation = msg->generation;
		__entry->reason = msg->reason;
	),
	TP_printk("rmid=%u generation=%u tgid=%d ts_ns=%llu seq=%llu reason=%d", __entry->rmid,
		__entry->generation, __entry->tgid, __entry->ts_ns, __entry->seq,
		__entry->reason)
);

DEFINE_EVENT(ss_rmid_event, ss_rmid_alloc,
	TP_PROTO(const struct ss_rmid_event *msg),
	TP_ARGS(msg));

DEFINE_EVENT(ss_rmid_event, ss_rmid_free,
	TP_PROTO(const struct ss_rmid_event *msg),
	TP_ARGS(msg));

DEFINE_EVENT(ss_rmid_event, ss_rmid_alloc_failed,
	TP_PROTO(const struct ss_rmid_event *msg),
	TP_ARGS(msg));

DEFINE_EVENT(ss_rmid_event, ss_rmid_existing,
	TP_PROTO(const struct ss_rmid_event *msg),
	TP_ARGS(msg));

TRACE_EVENT_FN(ss_rdt_sample,
	TP_PROTO(const struct ss_rdt_sample *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, since_ns)
		__field(u64, ts_ns)
		__field(u64, value)
		__field(u32, rmid)
		__field(u32, generation)
		__field(u32, domain)
		__field(u16, event)
		__field(u16, status)
	),
	TP_fast_assign(
		__entry->since_ns = msg->since_ns;
		__entry->ts_ns = msg->hdr.ts_ns;
		__entry->value = msg->value;
		__entry->rmid = msg->rmid;
		__entry->generation = msg->generation;
		__entry->domain = msg->domain;
		__entry->event = msg->event;
		__entry->status = msg->status;
	),
	TP_printk("rmid=%u generation=%u domain=%u event=%u value=%llu status=%u since_ns=%llu ts_ns=%llu",
		__entry->rmid, __entry->generation, __entry->domain, __entry->event,
		__entry->value, __entry->status, __entry->since_ns, __entry->ts_ns),
	ss_tick_listen, ss_tick_ignore
);

TRACE_EVENT_FN(ss_tick,
	TP_PROTO(const struct ss_tick *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, ts_ns)
		__field(u64, due_ns)
		__field(u32, missed)
	),
	TP_fast_assign(
		__entry->ts_ns = msg->hdr.ts_ns;
		__entry->due_ns = msg->due_ns;
		__entry->missed = msg->missed;
	),
	TP_printk("ts_ns=%llu due_ns=%llu missed=%u", __entry->ts_ns, __entry->due_ns,
		__entry->missed),
	ss_tick_listen, ss_tick_ignore
);

TRACE_EVENT(ss_cpu_state,
	TP_PROTO(const struct ss_cpu_state *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, ts_ns)
		__field(u32, online)
	),
	TP_fast_assign(
		__entry->ts_ns = msg->hdr.ts_ns;
		__entry->online = msg->online;
	),
	TP_printk("ts_ns=%llu online=%u", __entry->ts_ns, __entry->online)
);

TRACE_EVENT_FN(ss_wait,
	TP_PROTO(const struct ss_wait *msg),
	TP_ARGS(msg),
	TP_STRUCT__entry(
		__field(u64, end_ns)
		__field(u64, wait_ns)
		__field(s32, tgid)
		__field(u32, queue_cpu)
		__field(u32, flags)
	),
	TP_fast_assign(
		__entry->end_ns = msg->end_ns;
		__entry->wait_ns = msg->wait_ns;
		__entry->tgid = msg->tgid;
		__entry->queue_cpu = msg->queue_cpu;
		__entry->flags = msg->flags;
	),
	TP_printk("tgid=%d queue_cpu=%u end_ns=%llu wait_ns=%llu flags=%#x", __entry->tgid,
		__entry->queue_cpu, __entry->end_ns, __entry->wait_ns, __entry->flags),
	ss_waits_listen, ss_waits_ignore
);

#endif /* SLOTSCOPE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
