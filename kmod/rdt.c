// SPDX-License-Identifier: GPL-2.0-only
/*
 * The RDT hardware: is it there, is it free, and the CPUs' use of it. What a reading means is in
 * rdt_domain.c, what a CPU does in its tick in rdt_cpu.c; this file gives them the machine.
 *
 * We step aside, for good, as soon as somebody else uses the RMIDs: resctrl is mounted, or PQR_ASSOC
 * is not as we left it. Both are looked at before each write and in each tick. Stepping aside is one
 * flag: every CPU that sees it writes RMID 0, with the CLOSID that is there, and nothing after that;
 * an RMID that is not ours stays.
 */
#include <linux/cpufeature.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/reboot.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/suspend.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#ifdef SS_HAS_CPUID_API
#include <asm/cpuid/api.h>
#endif
#include <asm/msr.h>
#include <asm/processor.h>

#include "rdt_cpu.h"
#include "slotscope.h"
#include "trace.h"

#define SS_MSR_SNC_CONFIG 0xca0u /* of Intel CPUs with sub-NUMA clusters */
#define SS_SNC_NOT_SPLIT 1u
#define SS_MSR_ABMC_CONFIG 0xc00003ffu /* AMD L3_QOS_EXT_CFG */
#define SS_ABMC_ENABLED 1u
#define SS_CPUID_ABMC_LEAF 0x80000020u
#define SS_CPUID_ABMC_EBX (1u << 5)

struct ss_rdt_node {
	struct list_head list;
	struct cpumask cpus; /* that are online and use it */
	int numa; /* of all of them */
	struct ss_rdt_shared shared;
};

static bool ss_rdt_used; /* the hardware backend was chosen */
static char ss_rdt_why[96] = "not asked yet";
static struct ss_rdt_caps ss_rdt_caps;
static u64 ss_rdt_budget_ns;
/* Once set, never cleared: enum ss_rdt_aside. Written with cmpxchg() from any context. */
static int ss_rdt_aside_why;
static struct file_system_type *ss_resctrl; /* NULL: the kernel has none */
static DEFINE_PER_CPU(struct ss_rdt_cpu, ss_rdt_cpu);
static DEFINE_PER_CPU(u32, ss_rdt_l3); /* as surveyed */
static DEFINE_PER_CPU(struct ss_rdt_shared *, ss_rdt_mine); /* its domain's, while it is online */
static DEFINE_PER_CPU(u32, ss_rdt_runs); /* the RMID of who runs, programmed or not */
static DEFINE_MUTEX(ss_rdt_mutex); /* ss_rdt_nodes, their cpus; in process context */
static LIST_HEAD(ss_rdt_nodes);

enum ss_rdt_aside { SS_ASIDE_NOT, SS_ASIDE_RESCTRL, SS_ASIDE_FOREIGN, SS_ASIDE_REFUSED };

static const char *const ss_rdt_aside_texts[] = {
	[SS_ASIDE_RESCTRL] = "resctrl was mounted after the module was loaded",
	[SS_ASIDE_FOREIGN] = "somebody else writes RMIDs to the CPUs",
	[SS_ASIDE_REFUSED] = "a CPU refused an RDT register",
};

/* ---- The machine. */

/* By halves: the calls for all 64 bits were renamed in 6.16 (rdmsrl_safe, now rdmsrq_safe). */
static int ss_op_rdmsr(u32 msr, u64 *value)
{
	u32 low, high;
	int err = rdmsr_safe(msr, &low, &high);

	*value = (u64)high << 32 | low;
	return err;
}

static int ss_op_wrmsr(u32 msr, u64 value)
{
	return wrmsr_safe(msr, (u32)value, (u32)(value >> 32));
}

static u64 ss_op_now_ns(void)
{
	return ktime_get_mono_fast_ns();
}

static void ss_op_emit(struct ss_rdt_sample *sample)
{
	sample->hdr.cpu = raw_smp_processor_id();
	trace_ss_rdt_sample(sample);
}

static bool ss_op_claim(u64 *word, u32 bit)
{
	return !test_and_set_bit_lock(bit, (unsigned long *)word);
}

static void ss_op_unclaim(u64 *word, u32 bit)
{
	clear_bit_unlock(bit, (unsigned long *)word);
}

static bool ss_op_is_leaving(const struct ss_rdt_shared *shared, u32 rmid, u64 now_ns)
{
	const struct ss_rdt_node *node = container_of(shared, struct ss_rdt_node, shared);
	unsigned int cpu;

	for_each_cpu(cpu, &node->cpus)
		if (ss_rdt_cpu_is_leaving(per_cpu_ptr(&ss_rdt_cpu, cpu), rmid, now_ns))
			return true;
	return false;
}

static const struct ss_rdt_ops ss_rdt_ops = {
	.rdmsr = ss_op_rdmsr,
	.wrmsr = ss_op_wrmsr,
	.now_ns = ss_op_now_ns,
	.owner = ss_rmid_get_owner,
	.emit = ss_op_emit,
	.claim = ss_op_claim,
	.unclaim = ss_op_unclaim,
	.is_leaving = ss_op_is_leaving,
};

/* Unlocked: the list is only looked at, and the superblock that makes it non-empty is not. */
static bool ss_resctrl_is_mounted(void)
{
	return ss_resctrl && !hlist_empty(&ss_resctrl->fs_supers);
}

static void ss_cpuid(u32 leaf, u32 subleaf, struct ss_cpuid_regs *regs)
{
	cpuid_count(leaf, subleaf, &regs->eax, &regs->ebx, &regs->ecx, &regs->edx);
}

/* Of this CPU. */
static void ss_rdt_read_cpuid(struct ss_rdt_cpuid *cpuid)
{
	u32 leaf, subleaf, max_leaf = cpuid_eax(0);

	memset(cpuid, 0, sizeof(*cpuid));
	switch (boot_cpu_data.x86_vendor) {
	case X86_VENDOR_INTEL:
		cpuid->vendor = SS_VENDOR_INTEL;
		break;
	case X86_VENDOR_AMD:
	case X86_VENDOR_HYGON:
		cpuid->vendor = SS_VENDOR_AMD;
		break;
	}
	cpuid->family = boot_cpu_data.x86;
	cpuid->model = boot_cpu_data.x86_model;
	cpuid->stepping = boot_cpu_data.x86_stepping;
	if (max_leaf < 0xf)
		return;
	ss_cpuid(0x7, 0, &cpuid->features);
	cpuid->apic_id = cpuid_edx(0xb);
	ss_cpuid(0xf, 0, &cpuid->monitoring);
	ss_cpuid(0xf, 1, &cpuid->l3);
	leaf = cpuid->vendor == SS_VENDOR_AMD ? 0x8000001d : 4;
	for (subleaf = 0; subleaf < 16; subleaf++) {
		struct ss_cpuid_regs cache;

		ss_cpuid(leaf, subleaf, &cache);
		if (!(cache.eax & 0x1f)) /* no more caches */
			break;
		if (((cache.eax >> 5) & 7) == 3)
			cpuid->cache = cache;
	}
}

/* Does this CPU count only RMIDs that were assigned a counter? */
static u32 ss_rdt_is_assignable(void)
{
	u64 config;

	if (boot_cpu_data.extended_cpuid_level < SS_CPUID_ABMC_LEAF ||
	    !(cpuid_ebx(SS_CPUID_ABMC_LEAF) & SS_CPUID_ABMC_EBX) ||
	    ss_op_rdmsr(SS_MSR_ABMC_CONFIG, &config))
		return 0;
	return config & SS_ABMC_ENABLED ? SS_RDT_ASSIGNABLE : 0;
}

/* ---- Stepping aside. Interrupts off. */

/* Is there still something to do on this CPU? */
static bool ss_rdt_may_go_on(struct ss_rdt_cpu *cpu)
{
	if (unlikely(ss_resctrl_is_mounted()))
		cmpxchg(&ss_rdt_aside_why, SS_ASIDE_NOT, SS_ASIDE_RESCTRL);
	if (likely(!READ_ONCE(ss_rdt_aside_why)))
		return true;
	ss_rdt_cpu_end(cpu, &ss_rdt_ops);
	return false;
}

/* False: we step aside. */
static bool ss_rdt_accept(struct ss_rdt_cpu *cpu, enum ss_rdt_trouble trouble)
{
	if (likely(trouble == SS_RDT_NO_TROUBLE))
		return true;
	cmpxchg(&ss_rdt_aside_why, SS_ASIDE_NOT,
		trouble == SS_RDT_REFUSED ? SS_ASIDE_REFUSED : SS_ASIDE_FOREIGN);
	return ss_rdt_may_go_on(cpu);
}

/* The use of a CPU begins. False: it does not. */
static bool ss_rdt_begin(struct ss_rdt_cpu *cpu, struct ss_rdt_shared *shared)
{
	return ss_rdt_may_go_on(cpu) && ss_rdt_accept(cpu, ss_rdt_cpu_begin(cpu, &ss_rdt_ops, shared));
}

/*
 * Looks for resctrl from time to time: without a listener nothing ticks, and a CPU that never switches
 * would keep its RMID.
 */
#define SS_RDT_LOOK_PERIOD (HZ / 2)

static void ss_rdt_leave_cpu(void *unused)
{
	struct ss_rdt_cpu *cpu = this_cpu_ptr(&ss_rdt_cpu);

	if (cpu->shared)
		ss_rdt_may_go_on(cpu);
}

static void ss_rdt_look(struct work_struct *work)
{
	if (ss_resctrl_is_mounted() || READ_ONCE(ss_rdt_aside_why)) {
		on_each_cpu(ss_rdt_leave_cpu, NULL, 1);
		return;
	}
	schedule_delayed_work(to_delayed_work(work), SS_RDT_LOOK_PERIOD);
}

static DECLARE_DELAYED_WORK(ss_rdt_look_work, ss_rdt_look);

/* ---- Suspend. */

/*
 * A suspend forgets the registers. Before it every CPU gives its RMID back, after it each that is online
 * begins anew; those that hotplug takes down and brings up meanwhile do so by themselves.
 */
static void ss_rdt_pause_cpu(void *unused)
{
	ss_rdt_cpu_end(this_cpu_ptr(&ss_rdt_cpu), &ss_rdt_ops);
}

static void ss_rdt_resume_cpu(void *unused)
{
	struct ss_rdt_shared *mine = this_cpu_read(ss_rdt_mine);
	struct ss_rdt_cpu *cpu = this_cpu_ptr(&ss_rdt_cpu);

	/* Who runs may not be switched for long. */
	if (mine && !cpu->shared && ss_rdt_begin(cpu, mine))
		ss_rdt_accept(cpu, ss_rdt_cpu_run(cpu, &ss_rdt_ops, this_cpu_read(ss_rdt_runs),
						  ss_op_now_ns()));
}

/* No counter is a base for what comes: it may lose its power. */
static void ss_rdt_forget_bases(void)
{
	struct ss_rdt_node *node;

	mutex_lock(&ss_rdt_mutex);
	list_for_each_entry(node, &ss_rdt_nodes, list)
		node->shared.domain.epoch++;
	mutex_unlock(&ss_rdt_mutex);
}

static int ss_rdt_pm(struct notifier_block *block, unsigned long action, void *unused)
{
	switch (action) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
		on_each_cpu(ss_rdt_pause_cpu, NULL, 1);
		ss_rdt_forget_bases();
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
		ss_rdt_forget_bases(); /* CPUs that came back meanwhile may have read some */
		on_each_cpu(ss_rdt_resume_cpu, NULL, 1);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block ss_rdt_pm_block = { .notifier_call = ss_rdt_pm };

/* The next kernel, which kexec starts without a reset, finds RMID 0 everywhere. */
static int ss_rdt_reboot(struct notifier_block *block, unsigned long action, void *unused)
{
	on_each_cpu(ss_rdt_pause_cpu, NULL, 1);
	return NOTIFY_OK;
}

static struct notifier_block ss_rdt_reboot_block = { .notifier_call = ss_rdt_reboot };

/* ---- The choice, at load. */

/*
 * Counters that somebody does not want to be used: by clearcpuid= (the kernel then says that the CPU has
 * none), or by rdt=!NAME, which is resctrl's own and which nothing but the command line shows.
 */
static const struct {
	const char *rdt_name;
	u32 feature;
	u32 event;
} ss_rdt_features[] = {
	{ "cmt", X86_FEATURE_CQM_OCCUP_LLC, SS_RDT_LLC_OCCUPANCY },
	{ "mbmtotal", X86_FEATURE_CQM_MBM_TOTAL, SS_RDT_MBM_TOTAL },
	{ "mbmlocal", X86_FEATURE_CQM_MBM_LOCAL, SS_RDT_MBM_LOCAL },
};

/* Is that one of the words, up to a blank, that are separated by commas? */
static bool ss_has_word(const char *words, bool negated, const char *name)
{
	const char *word = words;

	for (;;) {
		const bool is_negated = *word == '!';

		word += is_negated;
		if (is_negated == negated && !strncmp(word, name, strlen(name)) &&
		    strchr(", \n", word[strlen(name)]))
			return true;
		word += strcspn(word, ", \n");
		if (*word++ != ',')
			return false;
	}
}

/* As in the kernel: each rdt= adds to the others, and who is wanted by one is wanted. */
static bool ss_rdt_is_off(const char *command_line, const char *name)
{
	const char *at = command_line;
	bool is_off = false;

	while ((at = strstr(at, "rdt="))) {
		const bool is_option = at == command_line || at[-1] == ' ';

		at += strlen("rdt=");
		if (is_option && ss_has_word(at, false, name))
			return false;
		is_off |= is_option && ss_has_word(at, true, name);
	}
	return is_off;
}

/* Of this kernel. Returns "" if it cannot be read. To be freed. */
static char *ss_read_command_line(void)
{
	char *text = kzalloc(PAGE_SIZE, GFP_KERNEL);
	struct file *file;
	loff_t at = 0;

	if (!text)
		return NULL;
	file = filp_open("/proc/cmdline", O_RDONLY, 0);
	if (IS_ERR(file))
		return text;
	if (kernel_read(file, text, PAGE_SIZE - 1, &at) < 0)
		text[0] = '\0';
	filp_close(file, NULL);
	return text;
}

/* Takes out of *events those that are not wanted. */
static void ss_rdt_drop_events(u32 *events)
{
	char *command_line = ss_read_command_line();
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ss_rdt_features); i++)
		if (!boot_cpu_has(ss_rdt_features[i].feature) ||
		    (command_line && ss_rdt_is_off(command_line, ss_rdt_features[i].rdt_name)))
			*events &= ~(1u << ss_rdt_features[i].event);
	kfree(command_line);
}

struct ss_rdt_survey {
	raw_spinlock_t lock;
	struct ss_rdt_caps caps;
	bool any;
	const char *why;
};

static void ss_rdt_survey_cpu(void *arg)
{
	struct ss_rdt_survey *survey = arg;
	struct ss_rdt_cpuid cpuid;
	struct ss_rdt_caps caps;
	const char *why;

	ss_rdt_read_cpuid(&cpuid);
	why = ss_rdt_decode_caps(&cpuid, &caps);
	this_cpu_write(ss_rdt_l3, ss_rdt_decode_l3(&cpuid));
	raw_spin_lock(&survey->lock);
	if (why)
		survey->why = why;
	else if (!survey->any)
		survey->caps = caps;
	else if (!ss_rdt_caps_intersect(&survey->caps, &caps))
		survey->why = "the CPUs' RDT counters differ";
	survey->any = true;
	raw_spin_unlock(&survey->lock);
}

static int ss_node_of(unsigned int cpu)
{
	return max(cpu_to_node(cpu), 0);
}

/*
 * NUMA nodes of each L3 cache: more than one are sub-NUMA clusters. 0: the caches differ, or the nodes
 * of one do not follow each other, as the hardware's numbering of clusters needs.
 */
static u32 ss_rdt_count_clusters(void)
{
	unsigned int cpu, other;
	u32 nr_clusters = 0;

	for_each_online_cpu(cpu) {
		nodemask_t nodes = NODE_MASK_NONE;
		u32 nr;

		for_each_online_cpu(other)
			if (per_cpu(ss_rdt_l3, cpu) == per_cpu(ss_rdt_l3, other))
				node_set(ss_node_of(other), nodes);
		nr = nodes_weight(nodes);
		if (nr_clusters && nr != nr_clusters)
			return 0;
		if (find_last_bit(nodes.bits, MAX_NUMNODES) - first_node(nodes) >= nr)
			return 0;
		nr_clusters = nr;
	}
	return nr_clusters;
}

/* A node of which no CPU is online may be one more cluster of somebody's L3 cache. */
static bool ss_rdt_sees_all_nodes(void)
{
	nodemask_t present = NODE_MASK_NONE, online = NODE_MASK_NONE;
	unsigned int cpu;

	for_each_present_cpu(cpu)
		node_set(ss_node_of(cpu), present);
	for_each_online_cpu(cpu)
		node_set(ss_node_of(cpu), online);
	return nodes_equal(present, online);
}

static void ss_rdt_survey_split(void *arg)
{
	bool *is_split = arg;
	u64 config;

	if (ss_op_rdmsr(SS_MSR_SNC_CONFIG, &config) || config & SS_SNC_NOT_SPLIT)
		WRITE_ONCE(*is_split, false);
}

static const char *ss_rdt_survey_clusters(void)
{
	u32 nr_clusters = ss_rdt_count_clusters();
	bool is_split = nr_clusters > 1 && ss_rdt_caps.may_split;

	if (!ss_rdt_sees_all_nodes())
		return "a NUMA node has no CPU online: sub-NUMA clusters cannot be told";
	if (is_split)
		on_each_cpu(ss_rdt_survey_split, &is_split, 1);
	return ss_rdt_caps_divide(&ss_rdt_caps, nr_clusters, is_split);
}

static const char *ss_rdt_survey_machine(void)
{
	struct ss_rdt_survey survey = {};
	const char *why;

	if (!boot_cpu_has(X86_FEATURE_CQM))
		return "the kernel sees no RDT monitoring in the CPU (it has none, or clearcpuid= says so)";
	raw_spin_lock_init(&survey.lock);
	cpus_read_lock();
	on_each_cpu(ss_rdt_survey_cpu, &survey, 1);
	why = survey.why;
	if (!why) {
		ss_rdt_caps = survey.caps;
		why = ss_rdt_survey_clusters();
	}
	cpus_read_unlock();
	if (why)
		return why;
	ss_rdt_drop_events(&ss_rdt_caps.events);
	if (!ss_rdt_caps.events)
		return "the kernel's command line forbids all RDT counters (rdt=, clearcpuid=)";
	/* Asks for a module if there is none: only where the kernel has it built in. */
	if (IS_ENABLED(CONFIG_X86_CPU_RESCTRL))
		ss_resctrl = get_fs_type("resctrl");
	if (ss_resctrl_is_mounted())
		return "resctrl is mounted";
	return NULL;
}

/* A CPU that comes later is looked at when it does. */
u32 ss_rdt_init(bool wanted, u32 nr_rmids, u32 budget_us)
{
	const char *why = wanted ? ss_rdt_survey_machine() : "the parameter hardware=0 says so";

	if (why) {
		strscpy(ss_rdt_why, why, sizeof(ss_rdt_why));
		return nr_rmids;
	}
	ss_rdt_used = true;
	register_pm_notifier(&ss_rdt_pm_block);
	register_reboot_notifier(&ss_rdt_reboot_block);
	ss_rdt_budget_ns = budget_us * 1000ull;
	nr_rmids = min(nr_rmids, ss_rdt_caps.nr_rmids);
	ss_rdt_caps.nr_rmids = nr_rmids;
	strscpy(ss_rdt_why, "the CPUs have RDT monitoring, and nobody else uses it", sizeof(ss_rdt_why));
	schedule_delayed_work(&ss_rdt_look_work, SS_RDT_LOOK_PERIOD);
	return nr_rmids;
}

void ss_rdt_exit(void)
{
	struct ss_rdt_node *node, *next;

	if (ss_rdt_used) {
		cancel_delayed_work_sync(&ss_rdt_look_work);
		unregister_reboot_notifier(&ss_rdt_reboot_block);
		unregister_pm_notifier(&ss_rdt_pm_block);
	}
	list_for_each_entry_safe(node, next, &ss_rdt_nodes, list)
		kvfree(node);
	INIT_LIST_HEAD(&ss_rdt_nodes);
	if (ss_resctrl)
		module_put(ss_resctrl->owner);
}

/* ---- CPUs come and go. */

static struct ss_rdt_node *ss_rdt_find_node(u32 l3, int numa)
{
	const u32 nr_clusters = ss_rdt_caps.nr_clusters, cluster = numa % nr_clusters;
	const u32 id = l3 * nr_clusters + cluster;
	struct ss_rdt_node *node;

	list_for_each_entry(node, &ss_rdt_nodes, list)
		if (node->shared.domain.id == id)
			return node;
	node = ss_fault_here() ? NULL : kvzalloc(sizeof(*node), GFP_KERNEL);
	if (!node)
		return NULL;
	node->numa = numa;
	ss_rdt_domain_init(&node->shared.domain, id, cluster, &ss_rdt_caps);
	list_add_tail(&node->list, &ss_rdt_nodes);
	return node;
}

/*
 * Before anybody runs in this CPU's domain. Else who has an RMID from the start could not be told from
 * who had it before, as long as its own lines fill the cache. Interrupts are off for one RMID at a time.
 */
static void ss_rdt_find_lines(struct ss_rdt_cpu *cpu)
{
	unsigned long flags;
	u32 rmid;

	for (rmid = 1; rmid < ss_rdt_caps.nr_rmids; rmid++) {
		local_irq_save(flags);
		if (cpu->shared && ss_rdt_may_go_on(cpu))
			ss_rdt_cpu_find(cpu, &ss_rdt_ops, rmid);
		local_irq_restore(flags);
		cond_resched();
	}
}

void ss_rdt_cpu_online(void)
{
	struct ss_rdt_cpu *cpu = this_cpu_ptr(&ss_rdt_cpu);
	struct ss_rdt_node *node;
	struct ss_rdt_cpuid cpuid;
	struct ss_rdt_caps caps, common = ss_rdt_caps;
	const int numa = ss_node_of(raw_smp_processor_id());
	unsigned long flags;

	if (!ss_rdt_used || READ_ONCE(ss_rdt_aside_why))
		return;
	ss_rdt_read_cpuid(&cpuid);
	/* It came later, and is another kind of CPU: it runs under RMID 0. */
	if (ss_rdt_decode_caps(&cpuid, &caps) ||
	    ss_rdt_caps_divide(&caps, ss_rdt_caps.nr_clusters, true) ||
	    !ss_rdt_caps_intersect(&common, &caps) || common.nr_rmids < ss_rdt_caps.nr_rmids ||
	    common.nr_hardware_rmids < ss_rdt_caps.nr_hardware_rmids ||
	    common.events != ss_rdt_caps.events)
		return;
	mutex_lock(&ss_rdt_mutex);
	node = ss_rdt_find_node(ss_rdt_decode_l3(&cpuid), numa);
	if (node && node->numa != numa) {
		pr_warn_once("CPU %u is on another NUMA node than its L3 cache was: it runs under RMID 0\n",
			     raw_smp_processor_id());
	} else if (node) {
		const bool is_first = cpumask_empty(&node->cpus);

		if (is_first)
			ss_rdt_domain_reset(&node->shared.domain);
		local_irq_save(flags);
		cpu->assignable = ss_rdt_is_assignable();
		if (ss_rdt_begin(cpu, &node->shared)) {
			cpumask_set_cpu(raw_smp_processor_id(), &node->cpus);
			this_cpu_write(ss_rdt_mine, &node->shared);
		}
		local_irq_restore(flags);
		if (is_first)
			ss_rdt_find_lines(cpu);
	} else {
		pr_warn("no memory for the RDT counters of CPU %u's L3 cache: it runs under RMID 0\n",
			raw_smp_processor_id());
	}
	mutex_unlock(&ss_rdt_mutex);
}

void ss_rdt_cpu_offline(void)
{
	struct ss_rdt_node *node;
	unsigned long flags;

	mutex_lock(&ss_rdt_mutex);
	list_for_each_entry(node, &ss_rdt_nodes, list)
		cpumask_clear_cpu(raw_smp_processor_id(), &node->cpus);
	mutex_unlock(&ss_rdt_mutex);
	local_irq_save(flags);
	this_cpu_write(ss_rdt_mine, NULL);
	ss_rdt_cpu_end(this_cpu_ptr(&ss_rdt_cpu), &ss_rdt_ops);
	local_irq_restore(flags);
}

/* ---- Probes and ticks. Interrupts off. */

void ss_rdt_leave(void)
{
	ss_rdt_cpu_leave(this_cpu_ptr(&ss_rdt_cpu));
}

void ss_rdt_left(u64 left_ns)
{
	ss_rdt_cpu_left(this_cpu_ptr(&ss_rdt_cpu), left_ns);
}

void ss_rdt_run(u32 rmid, u64 since_ns)
{
	struct ss_rdt_cpu *cpu = this_cpu_ptr(&ss_rdt_cpu);

	this_cpu_write(ss_rdt_runs, rmid);
	if (cpu->shared && ss_rdt_may_go_on(cpu))
		ss_rdt_accept(cpu, ss_rdt_cpu_run(cpu, &ss_rdt_ops, rmid, since_ns));
}

void ss_rdt_tick(void)
{
	struct ss_rdt_cpu *cpu = this_cpu_ptr(&ss_rdt_cpu);

	if (!cpu->shared || !ss_rdt_may_go_on(cpu))
		return;
	if (!ss_rdt_accept(cpu, ss_rdt_cpu_check(cpu, &ss_rdt_ops)))
		return;
	/* While nobody listens, RMIDs are only programmed. */
	if (trace_ss_rdt_sample_enabled())
		ss_rdt_cpu_read(cpu, &ss_rdt_ops, ss_rdt_budget_ns);
}

/* ---- What it did, and why. */

const char *ss_rdt_backend(void)
{
	return ss_rdt_used && !READ_ONCE(ss_rdt_aside_why) ? "hardware" : "emulated";
}

bool ss_rdt_stepped_aside(void)
{
	return READ_ONCE(ss_rdt_aside_why);
}

const char *ss_rdt_reason(void)
{
	int why = READ_ONCE(ss_rdt_aside_why);

	return why ? ss_rdt_aside_texts[why] : ss_rdt_why;
}

static void ss_rdt_show_counters(struct seq_file *m)
{
	struct ss_rdt_stats all = {};
	u64 nr_programmed = 0, nr_adopted = 0;
	unsigned int cpu;
	u32 i;

	for_each_possible_cpu(cpu) {
		const struct ss_rdt_cpu *one = per_cpu_ptr(&ss_rdt_cpu, cpu);

		nr_programmed += one->nr_programmed;
		nr_adopted += one->nr_adopted;
		all.nr_reads += one->stats.nr_reads;
		all.nr_skipped += one->stats.nr_skipped;
		all.nr_errors += one->stats.nr_errors;
		all.nr_slow_reads += one->stats.nr_slow_reads;
		all.nr_slow_switches += one->stats.nr_slow_switches;
		all.nr_unattributed += one->stats.nr_unattributed;
		for (i = 0; i < SS_RDT_NR_MBM; i++) {
			all.unattributed_bytes[i] += one->stats.unattributed_bytes[i];
			all.doubted_bytes[i] += one->stats.doubted_bytes[i];
		}
	}
	seq_printf(m, "rdt_programmed: %llu\n", nr_programmed);
	seq_printf(m, "rdt_adopted_closids: %llu\n", nr_adopted);
	seq_printf(m, "rdt_reads: %llu\n", all.nr_reads);
	seq_printf(m, "rdt_skipped_reads: %llu\n", all.nr_skipped);
	seq_printf(m, "rdt_read_errors: %llu\n", all.nr_errors);
	seq_printf(m, "rdt_slow_reads: %llu\n", all.nr_slow_reads);
	seq_printf(m, "rdt_slow_switches: %llu\n", all.nr_slow_switches);
	seq_printf(m, "rdt_unattributed_deltas: %llu\n", all.nr_unattributed);
	seq_printf(m, "rdt_unattributed_total_bytes: %llu\n", all.unattributed_bytes[0]);
	seq_printf(m, "rdt_unattributed_local_bytes: %llu\n", all.unattributed_bytes[1]);
	seq_printf(m, "rdt_doubted_total_bytes: %llu\n", all.doubted_bytes[0]);
	seq_printf(m, "rdt_doubted_local_bytes: %llu\n", all.doubted_bytes[1]);
}

void ss_rdt_show(struct seq_file *m)
{
	struct ss_rdt_node *node;

	seq_printf(m, "backend: %s\n", ss_rdt_backend());
	seq_printf(m, "backend_reason: %s\n", ss_rdt_reason());
	if (!ss_rdt_used)
		return;
	seq_printf(m, "rdt_events:%s%s%s\n",
		   ss_rdt_caps.events & 1u << SS_RDT_LLC_OCCUPANCY ? " llc_occupancy" : "",
		   ss_rdt_caps.events & 1u << SS_RDT_MBM_TOTAL ? " mbm_total" : "",
		   ss_rdt_caps.events & 1u << SS_RDT_MBM_LOCAL ? " mbm_local" : "");
	seq_printf(m, "rdt_clusters: %u\n", ss_rdt_caps.nr_clusters);
	seq_printf(m, "rdt_unit_bytes: %u\n", ss_rdt_caps.unit_bytes);
	seq_printf(m, "rdt_counter_bits: %u\n", ss_rdt_caps.width);
	seq_printf(m, "rdt_cache_bytes: %llu\n", ss_rdt_caps.cache_bytes);
	mutex_lock(&ss_rdt_mutex);
	list_for_each_entry(node, &ss_rdt_nodes, list)
		seq_printf(m, "l3_domain_%u: %*pbl\n", node->shared.domain.id,
			   cpumask_pr_args(&node->cpus));
	mutex_unlock(&ss_rdt_mutex);
	ss_rdt_show_counters(m);
}
