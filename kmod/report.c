// SPDX-License-Identifier: GPL-2.0-only
/*
 * Says in the kernel log what the probes could only count: they run under run-queue locks and must not
 * print. Looks every ten seconds and prints a counter when it has grown.
 */
#include <linux/printk.h>
#include <linux/workqueue.h>

#include "slotscope.h"

#define SS_REPORT_PERIOD (10 * HZ)

struct ss_reported {
	const char *what;
	u64 last;
};

static struct ss_reported ss_no_rmid = { "times no RMID was free: rows are without until one is" };
static struct ss_reported ss_untracked = { "processes found no room in the table: raise max_processes" };
static struct ss_reported ss_bad_bookkeeping = {
	"bookkeeping errors of RMIDs and processes; please report this"
};

static void ss_report(struct work_struct *work);
static void ss_report_backend(void);
static DECLARE_DELAYED_WORK(ss_report_work, ss_report);

static void ss_report_growth(struct ss_reported *reported, u64 now)
{
	if (now == reported->last)
		return;
	pr_warn("%llu %s\n", now - reported->last, reported->what);
	reported->last = now;
}

static void ss_report_all(void)
{
	struct ss_process_stats processes;
	struct ss_rmid_stats rmids;

	ss_rmid_get_stats(&rmids);
	ss_process_get_stats(&processes);
	ss_report_backend();
	ss_report_growth(&ss_no_rmid,
			 rmids.nr_failed_none + rmids.nr_failed_limbo + rmids.nr_failed_share);
	ss_report_growth(&ss_untracked, processes.nr_untracked);
	ss_report_growth(&ss_bad_bookkeeping, rmids.nr_bad_free + processes.nr_stale);
}

/* The backend changes at most once: RDT hardware is given up, never taken back. */
static void ss_report_backend(void)
{
	static bool said;

	if (said || !ss_rdt_stepped_aside())
		return;
	said = true;
	pr_warn("RDT hardware is not used any more: %s\n", ss_rdt_reason());
}

static void ss_report(struct work_struct *work)
{
	ss_report_all();
	schedule_delayed_work(&ss_report_work, SS_REPORT_PERIOD);
}

void ss_report_start(void)
{
	schedule_delayed_work(&ss_report_work, SS_REPORT_PERIOD);
}

/* What was counted since the last look is still said. */
void ss_report_stop(void)
{
	cancel_delayed_work_sync(&ss_report_work);
	ss_report_all();
}
