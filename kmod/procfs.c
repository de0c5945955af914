// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/slotscope/rmids  read: the RMID table, one snapshot taken at open. Write "dump": emit
 *                        rmid_existing and task_meta for all that is there now. Else -EINVAL.
 * /proc/slotscope/info   read: what this module is, decided and counted, "key: value" lines.
 *
 * Both are 0600: names and ids of all processes are nothing for everybody.
 */
#include <linux/math64.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "slotscope.h"

static struct proc_dir_entry *ss_proc_dir;

static const char *const ss_rmid_state_names[] = {
	[SS_RMID_FREE_STATE] = "free",
	[SS_RMID_LIMBO_STATE] = "limbo",
	[SS_RMID_LIVE_STATE] = "live",
};

static int ss_rmids_show(struct seq_file *m, void *v)
{
	const struct ss_rmid_line *lines = m->private;
	u32 rmid;

	seq_puts(m, "rmid state tgid generation since_ns start_time_ns comm\n");
	for (rmid = 1; rmid < ss_rmid_count(); rmid++) {
		const struct ss_rmid_line *line = &lines[rmid];

		seq_printf(m, "%u %s %d %u %llu %llu ", rmid, ss_rmid_state_names[line->state],
			   line->tgid, line->generation, line->since_ns, line->start_time_ns);
		/* One line per RMID, whatever is in the name. */
		seq_escape(m, line->comm, " \t\n\\\"\r\v\f\a\b\033");
		seq_putc(m, '\n');
	}
	return 0;
}

static int ss_rmids_open(struct inode *inode, struct file *file)
{
	struct ss_rmid_line *lines;
	int err;

	lines = vzalloc(array_size(SS_RMID_CAPACITY, sizeof(*lines)));
	if (!lines)
		return -ENOMEM;
	ss_rmid_snapshot(lines);
	/* The whole table fits one buffer, so it is never formatted twice. */
	err = single_open_size(file, ss_rmids_show, lines, SS_RMID_CAPACITY * 160);
	if (err)
		vfree(lines);
	return err;
}

static int ss_rmids_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;

	vfree(m->private);
	return single_release(inode, file);
}

static ssize_t ss_rmids_write(struct file *file, const char __user *ubuf, size_t count, loff_t *ppos)
{
	static const char wanted[] = { 'd', 'u', 'm', 'p', '\n' };
	char command[sizeof(wanted)];
	int err;

	if (count != sizeof(wanted) && count != sizeof(wanted) - 1) /* echo -n */
		return -EINVAL;
	if (copy_from_user(command, ubuf, count))
		return -EFAULT;
	if (memcmp(command, wanted, count))
		return -EINVAL;
	err = ss_process_dump();
	return err ?: count;
}

static const struct proc_ops ss_rmids_ops = {
	.proc_open = ss_rmids_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = ss_rmids_release,
	.proc_write = ss_rmids_write,
};

static int ss_info_show(struct seq_file *m, void *v)
{
	struct ss_rmid_stats stats;

	ss_rmid_get_stats(&stats);
	seq_printf(m, "abi: %d\n", SS_ABI_VERSION);
	seq_puts(m, "version: " SS_VERSION "\n");
	ss_rdt_show(m);
	seq_printf(m, "rmids: %u\n", ss_rmid_count());
	seq_printf(m, "limbo_ns: %llu\n", SS_RMID_LIMBO_NS);
	ss_tick_show(m);
	seq_printf(m, "rmid_allocs: %llu\n", stats.nr_alloc);
	seq_printf(m, "rmid_frees: %llu\n", stats.nr_free);
	seq_printf(m, "rmid_retried_allocs: %llu\n", stats.nr_retried);
	seq_printf(m, "rmid_failed_none_free: %llu\n", stats.nr_failed_none);
	seq_printf(m, "rmid_failed_in_limbo: %llu\n", stats.nr_failed_limbo);
	seq_printf(m, "rmid_bad_frees: %llu\n", stats.nr_bad_free);
	ss_process_show(m);
	ss_population_show(m);
	return 0;
}

int ss_procfs_init(void)
{
	ss_proc_dir = ss_fault_here() ? NULL : proc_mkdir("slotscope", NULL);
	if (!ss_proc_dir)
		return -ENOMEM;
	if (!ss_fault_here() && proc_create("rmids", 0600, ss_proc_dir, &ss_rmids_ops) &&
	    !ss_fault_here() && proc_create_single("info", 0400, ss_proc_dir, ss_info_show))
		return 0;
	ss_procfs_exit();
	return -ENOMEM;
}

/* Waits for readers and writers that are inside. */
void ss_procfs_exit(void)
{
	proc_remove(ss_proc_dir);
}
