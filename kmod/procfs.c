// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/slotscope/rmids  read: the RMID table, one snapshot taken at open. Write "dump": emit
 *                        rmid_existing and task_meta for all that is there now. Write "first TGID": that
 *                        process and its children get RMIDs before others, until the file is closed.
 *                        Else -EINVAL.
 * /proc/slotscope/info   read: what this module is, decided and counted, "key: value" lines.
 *
 * Names and ids of all processes are nothing for everybody: whoever opens a file must be allowed to
 * watch the machine (CAP_PERFMON in the initial user namespace, as perf asks for it; being root in a
 * container is not enough). Reads and writes then go by who opened it.
 */
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/kstrtox.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "slotscope.h"

static struct proc_dir_entry *ss_proc_dir;

static const char *const ss_rmid_state_names[] = {
	[SS_RMID_FREE_STATE] = "free",
	[SS_RMID_LIMBO_STATE] = "limbo",
	[SS_RMID_LIVE_STATE] = "live",
};

#define SS_NR_SELECTORS 8

/* An open /proc/slotscope/rmids. */
struct ss_rmids_file {
	unsigned long selector; /* + 1 of "first"; 0: none yet */
	struct ss_rmid_line lines[SS_RMID_CAPACITY];
};

static unsigned long ss_selectors; /* bits that are in use */

static int ss_rmids_show(struct seq_file *m, void *v)
{
	const struct ss_rmid_line *lines = ((struct ss_rmids_file *)m->private)->lines;
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
	struct ss_rmids_file *opened;
	int err;

	if (!perfmon_capable())
		return -EPERM;
	opened = vzalloc(sizeof(*opened));
	if (!opened)
		return -ENOMEM;
	err = ss_rmid_snapshot(opened->lines);
	/* The whole table fits one buffer, so it is never formatted twice. */
	if (!err)
		err = single_open_size(file, ss_rmids_show, opened, SS_RMID_CAPACITY * 160);
	if (err)
		vfree(opened);
	return err;
}

static int ss_rmids_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;
	struct ss_rmids_file *opened = m->private;

	if (opened->selector) {
		ss_process_deselect(opened->selector - 1);
		clear_bit_unlock(opened->selector - 1, &ss_selectors);
	}
	vfree(opened);
	return single_release(inode, file);
}

/* Two writers of one open file may both get one: the second gives it back. */
static int ss_rmids_take_selector(struct ss_rmids_file *opened)
{
	unsigned long selector;

	if (READ_ONCE(opened->selector))
		return 0;
	for (selector = 0; selector < SS_NR_SELECTORS; selector++) {
		if (test_and_set_bit_lock(selector, &ss_selectors))
			continue;
		if (cmpxchg(&opened->selector, 0, selector + 1))
			clear_bit_unlock(selector, &ss_selectors);
		return 0;
	}
	return -EBUSY;
}

static int ss_rmids_first(struct ss_rmids_file *opened, const char *tgid)
{
	int number, err = kstrtoint(tgid, 10, &number);

	if (err || number <= 0)
		return -EINVAL;
	err = ss_rmids_take_selector(opened);
	return err ?: ss_process_select(number, READ_ONCE(opened->selector) - 1);
}

static ssize_t ss_rmids_write(struct file *file, const char __user *ubuf, size_t count, loff_t *ppos)
{
	struct seq_file *m = file->private_data;
	char command[24];
	size_t length = count;
	int err;

	if (count == 0 || count >= sizeof(command))
		return -EINVAL;
	if (copy_from_user(command, ubuf, count))
		return -EFAULT;
	if (command[length - 1] == '\n')
		length--;
	command[length] = '\0';
	if (strlen(command) != length)
		err = -EINVAL;
	else if (!strcmp(command, "dump"))
		err = ss_process_dump();
	else if (!strncmp(command, "first ", 6) && command[6] != '+')
		err = ss_rmids_first(m->private, command + 6);
	else
		err = -EINVAL;
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
	seq_printf(m, "probe_ns: %llu\n", ss_cpu_probe_ns());
	seq_printf(m, "rmid_allocs: %llu\n", stats.nr_alloc);
	seq_printf(m, "rmid_frees: %llu\n", stats.nr_free);
	seq_printf(m, "rmid_retried_allocs: %llu\n", stats.nr_retried);
	seq_printf(m, "rmid_failed_none_free: %llu\n", stats.nr_failed_none);
	seq_printf(m, "rmid_failed_in_limbo: %llu\n", stats.nr_failed_limbo);
	seq_printf(m, "rmid_failed_over_share: %llu\n", stats.nr_failed_share);
	seq_printf(m, "rmid_taken_back: %llu\n", stats.nr_taken_back);
	seq_printf(m, "rmid_bad_frees: %llu\n", stats.nr_bad_free);
	ss_pressure_show(m);
	ss_process_show(m);
	ss_population_show(m);
	return 0;
}

static int ss_info_open(struct inode *inode, struct file *file)
{
	return perfmon_capable() ? single_open(file, ss_info_show, NULL) : -EPERM;
}

static const struct proc_ops ss_info_ops = {
	.proc_open = ss_info_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

int ss_procfs_init(void)
{
	ss_proc_dir = ss_fault_here() ? NULL : proc_mkdir("slotscope", NULL);
	if (!ss_proc_dir)
		return -ENOMEM;
	if (!ss_fault_here() && proc_create("rmids", 0666, ss_proc_dir, &ss_rmids_ops) &&
	    !ss_fault_here() && proc_create("info", 0444, ss_proc_dir, &ss_info_ops))
		return 0;
	ss_procfs_exit();
	return -ENOMEM;
}

/* Waits for readers and writers that are inside. */
void ss_procfs_exit(void)
{
	proc_remove(ss_proc_dir);
}
