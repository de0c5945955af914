/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who a process is, in words: what it executes, and the paths of cgroups as they come, for the
 * shortest of lives too. For both sources. All of it is rare beside switches, and happens in the
 * context of whoever executes, or makes or fills a cgroup.
 */
#ifndef SLOTSCOPE_TEXT_BPF_H
#define SLOTSCOPE_TEXT_BPF_H

#include "output.bpf.h"
#include "task.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Set by the collector: 1 if arguments are wanted. */
const volatile unsigned int ss_has_arguments;

/* A message is too long for a program's stack. Each program has its own: one may interrupt another. */
enum ss_text_user {
	SS_TEXT_OF_EXEC,
	SS_TEXT_OF_MKDIR,
	SS_TEXT_OF_RENAME,
	SS_TEXT_OF_RMDIR,
	SS_TEXT_OF_MOVE,
	SS_NR_TEXT_USERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SS_NR_TEXT_USERS);
	__type(key, __u32);
	__type(value, struct ss_text);
} ss_texts SEC(".maps");

static __always_inline struct ss_text *ss_text_new(__u32 user, __u16 type)
{
	struct ss_text *msg = bpf_map_lookup_elem(&ss_texts, &user);

	if (!msg)
		return NULL;
	ss_fill_hdr(&msg->hdr, type, 0, bpf_ktime_get_ns());
	msg->start_time_ns = 0;
	msg->cgroup_id = 0;
	msg->tgid = 0;
	msg->flags = 0;
	return msg;
}

/* `len`: of its text, without the 0 at its end. */
static __always_inline void ss_text_output(void *ctx, struct ss_text *msg, __u64 len)
{
	__u64 size = (__builtin_offsetof(struct ss_text, text) + len + 8) & ~7ull;

	if (size > sizeof(*msg))
		size = sizeof(*msg);
	msg->hdr.size = size;
	msg->text_len = len;
	ss_output(ctx, &msg->hdr, size);
}

static __always_inline void ss_text_send(void *ctx, struct ss_text *msg, const void *text)
{
	long len = bpf_probe_read_kernel_str(msg->text, sizeof(msg->text), text);

	if (len < 1) {
		ss_count_output_error(msg->hdr.type);
		return;
	}
	if (len == sizeof(msg->text))
		msg->flags |= SS_TEXT_CUT; /* or it just fits */
	ss_text_output(ctx, msg, len - 1);
}

/* They lie one behind the other in the new program's memory. */
static __always_inline void ss_text_send_arguments(void *ctx, struct ss_text *msg,
						   struct task_struct *p)
{
	const struct mm_struct *mm = p->mm;
	__u64 start, len;

	if (!mm)
		return;
	start = mm->arg_start;
	len = mm->arg_end - start;
	msg->hdr.type = SS_ARGUMENTS;
	if (len > sizeof(msg->text) - 1) {
		len = sizeof(msg->text) - 1;
		msg->flags |= SS_TEXT_CUT;
	}
	if (bpf_probe_read_user(msg->text, len, (void *)start)) {
		ss_count_output_error(SS_ARGUMENTS);
		return;
	}
	ss_text_output(ctx, msg, len);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(ss_tell_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct ss_text *msg = ss_text_new(SS_TEXT_OF_EXEC, SS_EXEC);
	struct task_struct *p = ss_task_to_read(task);

	if (!msg)
		return 0;
	msg->start_time_ns = p->group_leader->start_time;
	msg->tgid = p->tgid;
	ss_text_send(ctx, msg, BPF_CORE_READ(bprm, filename));
	msg->flags = 0;
	if (ss_has_arguments)
		ss_text_send_arguments(ctx, msg, p);
	return 0;
}

/*
 * Of the hierarchy that a process's cgroup_id is of: the one that has the cpu controller, be it of v1 or
 * v2. Others number theirs anew.
 */
static __always_inline bool ss_is_told_of(struct cgroup *cgroup)
{
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return BPF_CORE_READ(cgroup, root, hierarchy_id) == 0;
	return BPF_CORE_READ(cgroup, root, subsys_mask) >>
		       bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id) &
	       1;
}

static __always_inline void ss_tell_cgroup(void *ctx, __u32 user, __u16 type, struct cgroup *cgroup,
					   const char *path)
{
	struct ss_text *msg;

	if (!ss_is_told_of(cgroup))
		return;
	msg = ss_text_new(user, type);
	if (!msg)
		return;
	msg->cgroup_id = BPF_CORE_READ(cgroup, kn, id);
	ss_text_send(ctx, msg, path);
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(ss_tell_cgroup_mkdir, struct cgroup *cgroup, const char *path)
{
	ss_tell_cgroup(ctx, SS_TEXT_OF_MKDIR, SS_CGROUP, cgroup, path);
	return 0;
}

/* Only v1 can. */
SEC("tp_btf/cgroup_rename")
int BPF_PROG(ss_tell_cgroup_rename, struct cgroup *cgroup, const char *path)
{
	ss_tell_cgroup(ctx, SS_TEXT_OF_RENAME, SS_CGROUP, cgroup, path);
	return 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(ss_tell_cgroup_rmdir, struct cgroup *cgroup, const char *path)
{
	ss_tell_cgroup(ctx, SS_TEXT_OF_RMDIR, SS_CGROUP_GONE, cgroup, path);
	return 0;
}

/* A thread by itself stays in its process's cgroup, as far as we can say: that of its leader. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(ss_tell_cgroup_move, struct cgroup *cgroup, const char *path, struct task_struct *task)
{
	struct task_struct *p = ss_task_to_read(task);
	struct ss_text *msg;

	if (p->pid != p->tgid || !ss_is_told_of(cgroup))
		return 0;
	msg = ss_text_new(SS_TEXT_OF_MOVE, SS_CGROUP_MOVE);
	if (!msg)
		return 0;
	msg->start_time_ns = p->start_time;
	msg->tgid = p->tgid;
	msg->cgroup_id = BPF_CORE_READ(cgroup, kn, id);
	ss_text_output(ctx, msg, 0);
	return 0;
}

#endif /* SLOTSCOPE_TEXT_BPF_H */
