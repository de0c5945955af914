// SPDX-License-Identifier: GPL-2.0-only
/*
 * RDT on one CPU. Everything here runs on the CPU it is about, with interrupts off: its state needs no
 * lock. What a domain's CPUs share is claimed RMID by RMID, and nobody waits for a claim.
 *
 * Who reads what: in its tick a CPU reads the RMIDs that ran on it since they were last read, as long as
 * its budget lasts; what is left over goes to the whole domain, where any CPU that has time takes it. An
 * RMID that ran on several CPUs is read by each of them: the later reads are short deltas, and the last
 * is behind the last run wherever that was. With what is left of the budget the others are read in
 * turn, so that each has a base when it is handed out and no counter goes round unseen.
 */
#include "rdt_cpu.h"

#define SS_SWEEP_PER_TICK 2
#define SS_SILENCE_NS 100000000ull /* nobody read for so long: what was read then is no base */
#define SS_READ_STEP_NS 10000000ull /* how often a domain's CPUs write down that they read */

/* Farther from it than a clock may be from what it is the time of. */
static bool ss_rdt_is_far(__u64 since_ns, __u64 now_ns)
{
	return (__s64)(now_ns - since_ns) > (__s64)SS_RDT_SLOW_NS;
}

/* PQR_ASSOC as it should be, but for its CLOSID: that is taken as it is found. */
static enum ss_rdt_trouble ss_rdt_find_closid(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops)
{
	__u64 pqr;

	if (ops->rdmsr(SS_MSR_PQR_ASSOC, &pqr))
		return SS_RDT_REFUSED;
	if ((__u32)pqr != cpu->rmid)
		return SS_RDT_FOREIGN_WRITER;
	if ((__u32)(pqr >> 32) != cpu->closid) {
		cpu->closid = (__u32)(pqr >> 32);
		cpu->nr_adopted++;
	}
	return SS_RDT_NO_TROUBLE;
}

static int ss_rdt_write_pqr(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid)
{
	int err = ops->wrmsr(SS_MSR_PQR_ASSOC, (__u64)cpu->closid << 32 | rmid);

	if (!err)
		cpu->rmid = rmid;
	return err;
}

enum ss_rdt_trouble ss_rdt_cpu_begin(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops,
				     struct ss_rdt_shared *shared)
{
	__u64 pqr;

	cpu->shared = NULL;
	cpu->rmid = 0;
	cpu->leaves = false;
	memset(cpu->ran, 0, sizeof(cpu->ran));
	if (ops->rdmsr(SS_MSR_PQR_ASSOC, &pqr))
		return SS_RDT_REFUSED;
	if ((__u32)pqr)
		return SS_RDT_FOREIGN_WRITER;
	cpu->closid = (__u32)(pqr >> 32);
	/* Nothing changes by it: may we write at all? */
	if (ss_rdt_write_pqr(cpu, ops, 0))
		return SS_RDT_REFUSED;
	cpu->shared = shared;
	return SS_RDT_NO_TROUBLE;
}

void ss_rdt_cpu_find(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid)
{
	struct ss_rdt_domain *domain;
	__u64 selector, value = 0, now_ns;
	__u32 flags;

	if (!cpu->shared || !(cpu->shared->domain.caps.events & 1u << SS_RDT_LLC_OCCUPANCY))
		return;
	domain = &cpu->shared->domain;
	flags = cpu->assignable;
	selector = (__u64)(domain->first_rmid + rmid) << 32 | SS_RDT_LLC_OCCUPANCY;
	now_ns = ops->now_ns();
	if (ops->wrmsr(SS_MSR_QM_EVTSEL, selector) || ops->rdmsr(SS_MSR_QM_CTR, &value))
		flags |= SS_RDT_FAULT;
	ss_rdt_domain_found(domain, rmid, value, flags, now_ns);
}

void ss_rdt_cpu_end(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops)
{
	__u32 word;
	__u64 bits;

	if (!cpu->shared)
		return;
	if (ss_rdt_find_closid(cpu, ops) == SS_RDT_NO_TROUBLE)
		ss_rdt_write_pqr(cpu, ops, 0);
	/* What ran here since the last tick is read by others. */
	for (word = 0; word < SS_RDT_WORDS; word++)
		for (bits = cpu->ran[word]; bits; bits &= bits - 1)
			ops->claim(&cpu->shared->left[word], __builtin_ctzll(bits));
	cpu->shared = NULL;
	cpu->rmid = 0;
	cpu->leaves = false;
}

/*
 * Between the clock of a switch and the RMID the counters went on for who ran before: into a millisecond
 * in which it did not run. Within one, what they counted stands in the row that it belongs to, if it was
 * read since that began: a delta is shared out by when its process ran.
 */
static bool ss_rdt_counted_on(const struct ss_rdt_shared *shared, __u32 rmid, __u64 since_ns,
			      __u64 now_ns)
{
	const __u64 slot_ns = since_ns / SS_TICK_PERIOD_NS * SS_TICK_PERIOD_NS;
	/* On a border it has not run in the slot behind it. */
	const __u64 border_ns = slot_ns == since_ns ? slot_ns : slot_ns + SS_TICK_PERIOD_NS;

	if (!ss_rdt_is_far(since_ns, now_ns))
		return false;
	return ss_rdt_is_far(border_ns, now_ns) ||
	       ss_rdt_domain_read_ns(&shared->domain, rmid) < slot_ns;
}

/* And who runs since then has time in a millisecond in which nothing was counted for it. */
static bool ss_rdt_counts_late(__u64 since_ns, __u64 now_ns)
{
	return ss_rdt_is_far(since_ns, now_ns / SS_TICK_PERIOD_NS * SS_TICK_PERIOD_NS);
}

/* What is counted under this RMID until it is read next is not what its owner's time says. */
static void ss_rdt_doubt(struct ss_rdt_shared *shared, const struct ss_rdt_ops *ops, __u32 rmid)
{
	if (rmid)
		ops->claim(&shared->domain.rmids[rmid].claimed, SS_RDT_DOUBT_BIT);
}

void ss_rdt_cpu_leave(struct ss_rdt_cpu *cpu)
{
	WRITE_ONCE(cpu->left_ns, 0); /* in this order */
	WRITE_ONCE(cpu->left_rmid, cpu->rmid);
	WRITE_ONCE(cpu->leaves, true);
}

void ss_rdt_cpu_left(struct ss_rdt_cpu *cpu, __u64 left_ns)
{
	WRITE_ONCE(cpu->left_ns, left_ns);
}

bool ss_rdt_cpu_is_leaving(const struct ss_rdt_cpu *cpu, __u32 rmid, __u64 now_ns)
{
	__u64 left_ns;

	if (!READ_ONCE(cpu->leaves) || READ_ONCE(cpu->left_rmid) != rmid)
		return false;
	left_ns = READ_ONCE(cpu->left_ns);
	return !left_ns || ss_rdt_counted_on(cpu->shared, rmid, left_ns, now_ns);
}

static enum ss_rdt_trouble ss_rdt_program(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops,
					  __u32 rmid, __u64 since_ns)
{
	const __u32 before = cpu->rmid;
	enum ss_rdt_trouble trouble = ss_rdt_find_closid(cpu, ops);
	__u64 now_ns;

	if (trouble)
		return trouble;
	if (ss_rdt_write_pqr(cpu, ops, rmid))
		return SS_RDT_REFUSED;
	cpu->nr_programmed++;
	now_ns = ops->now_ns();
	if (!ss_rdt_is_far(since_ns, now_ns))
		return SS_RDT_NO_TROUBLE;
	cpu->stats.nr_slow_switches++;
	if (ss_rdt_counted_on(cpu->shared, before, since_ns, now_ns))
		ss_rdt_doubt(cpu->shared, ops, before);
	if (ss_rdt_counts_late(since_ns, now_ns))
		ss_rdt_doubt(cpu->shared, ops, rmid);
	return SS_RDT_NO_TROUBLE;
}

/* The CLOSID is looked up each time: somebody may have set it since, and it is not ours to undo. */
enum ss_rdt_trouble ss_rdt_cpu_run(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid,
				   __u64 since_ns)
{
	enum ss_rdt_trouble trouble = SS_RDT_NO_TROUBLE;

	if (!cpu->shared)
		return SS_RDT_NO_TROUBLE;
	if (rmid != cpu->rmid)
		trouble = ss_rdt_program(cpu, ops, rmid, since_ns);
	WRITE_ONCE(cpu->leaves, false); /* not before the doubt */
	if (rmid && !trouble)
		cpu->ran[rmid % SS_RMID_CAPACITY / 64] |= 1ull << rmid % 64;
	return trouble;
}

enum ss_rdt_trouble ss_rdt_cpu_check(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops)
{
	return cpu->shared ? ss_rdt_find_closid(cpu, ops) : SS_RDT_NO_TROUBLE;
}

/* All events of one RMID, at one moment. */
struct ss_rdt_reading {
	struct ss_rdt_owner owner;
	__u64 now_ns;
	__u64 values[SS_RDT_NR_EVENTS]; /* by event - 1; 0: not read */
	__u32 faults; /* bits by event: the CPU refused */
};

/* False: it took long, and nobody knows when each of the values was. */
static bool ss_rdt_read_values(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid,
			       struct ss_rdt_reading *reading)
{
	const struct ss_rdt_domain *domain = &cpu->shared->domain;
	const __u64 begin_ns = ops->now_ns();
	__u32 event;
	__u64 selector;

	memset(reading, 0, sizeof(*reading));
	/* In this order: an owner that comes or goes meanwhile is seen by the next read. */
	ops->owner(rmid, &reading->owner);
	reading->now_ns = ops->now_ns();
	for (event = SS_RDT_MBM_LOCAL; event >= SS_RDT_LLC_OCCUPANCY; event--) {
		if (!(domain->caps.events & 1u << event))
			continue;
		selector = (__u64)(domain->first_rmid + rmid) << 32 | event;
		if (ops->wrmsr(SS_MSR_QM_EVTSEL, selector) ||
		    ops->rdmsr(SS_MSR_QM_CTR, &reading->values[event - 1]))
			reading->faults |= 1u << event;
	}
	return !ss_rdt_is_far(begin_ns, ops->now_ns());
}

/*
 * A CPU that is taken away between the clock of a switch and PQR_ASSOC counts on for who does not run
 * any more. It says so itself only when it is back: whoever reads meanwhile has to look.
 */
static bool ss_rdt_is_doubtful(const struct ss_rdt_shared *shared, const struct ss_rdt_ops *ops,
			       __u32 rmid, const struct ss_rdt_reading *reading, __u32 flags)
{
	/* What ran here is read in each tick; of what nobody says that it ran no delta is too short. */
	const __u64 long_ns = flags & SS_RDT_RAN ? SS_RDT_LONG_NS : 0;

	if (!ss_rdt_domain_is_long(&shared->domain, rmid, reading->values, reading->now_ns, long_ns))
		return false;
	/* In this order: who is back has doubted before it ceased to leave. */
	return ops->is_leaving(shared, rmid, reading->now_ns) ||
	       READ_ONCE(shared->domain.rmids[rmid].claimed) & 1ull << SS_RDT_DOUBT_BIT;
}

/* False: another CPU reads it just now, or it took long twice; it is to be read later. */
static bool ss_rdt_read_rmid(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid,
			     __u32 flags)
{
	struct ss_rdt_shared *shared = cpu->shared;
	struct ss_rdt_rmid *one = &shared->domain.rmids[rmid];
	struct ss_rdt_reading reading;
	struct ss_rdt_sample sample;
	__u32 event, how;
	__u64 value;
	bool in_time;

	if (!ops->claim(&one->claimed, SS_RDT_CLAIM_BIT))
		return false;
	flags |= cpu->assignable;
	/* Before it is read: what is doubted from here on is in the next delta as well. */
	if (one->claimed & 1ull << SS_RDT_DOUBT_BIT) {
		ops->unclaim(&one->claimed, SS_RDT_DOUBT_BIT);
		flags |= SS_RDT_DOUBTED;
	}
	in_time = ss_rdt_read_values(cpu, ops, rmid, &reading);
	if (!in_time) {
		cpu->stats.nr_slow_reads++;
		in_time = ss_rdt_read_values(cpu, ops, rmid, &reading);
	}
	if (!in_time) {
		if (flags & SS_RDT_DOUBTED)
			ss_rdt_doubt(shared, ops, rmid);
		ops->unclaim(&one->claimed, SS_RDT_CLAIM_BIT);
		return false;
	}
	if (ss_rdt_is_doubtful(shared, ops, rmid, &reading, flags))
		flags |= SS_RDT_DOUBTED;
	for (event = SS_RDT_MBM_LOCAL; event >= SS_RDT_LLC_OCCUPANCY; event--) {
		if (!(shared->domain.caps.events & 1u << event))
			continue;
		value = reading.values[event - 1];
		how = flags | (reading.faults & 1u << event ? SS_RDT_FAULT : 0);
		cpu->stats.nr_errors += how & SS_RDT_FAULT || value >> 62;
		if (ss_rdt_domain_take(&shared->domain, rmid, event, value, how, &reading.owner,
				       reading.now_ns, &cpu->stats, &sample))
			ops->emit(&sample);
	}
	ops->unclaim(&one->claimed, SS_RDT_CLAIM_BIT);
	cpu->stats.nr_reads++;
	return true;
}

/* The bits of a round over all RMIDs that begins at `from`: its first word comes twice, in two parts. */
static __u64 ss_rdt_round_mask(__u32 step, __u32 from)
{
	const __u64 upper = ~0ull << from % 64;

	if (step == 0)
		return upper;
	return step == SS_RDT_WORDS ? ~upper : ~0ull;
}

/* What ran on this CPU; what there is no time for is left to all, and comes first next time. */
static void ss_rdt_read_own(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 until_ns)
{
	const __u32 from = cpu->cursor;
	bool in_time = true;
	__u32 step, word, bit;
	__u64 bits, again;

	for (step = 0; step <= SS_RDT_WORDS; step++) {
		word = (from / 64 + step) % SS_RDT_WORDS;
		bits = cpu->ran[word] & ss_rdt_round_mask(step, from);
		cpu->ran[word] &= ~bits;
		again = 0;
		for (; bits; bits &= bits - 1) {
			bit = __builtin_ctzll(bits);
			if (in_time && ops->now_ns() >= until_ns) {
				in_time = false;
				cpu->cursor = word * 64 + bit;
			}
			if (!in_time) {
				ops->claim(&cpu->shared->left[word], bit);
				cpu->stats.nr_skipped++;
			} else if (!ss_rdt_read_rmid(cpu, ops, word * 64 + bit, SS_RDT_RAN)) {
				again |= 1ull << bit;
			}
		}
		cpu->ran[word] |= again;
	}
	/* It runs on. */
	if (cpu->rmid)
		cpu->ran[cpu->rmid / 64] |= 1ull << cpu->rmid % 64;
}

static void ss_rdt_read_left(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 until_ns)
{
	const __u32 from = cpu->cursor;
	__u32 step, word, bit;
	__u64 bits;

	for (step = 0; step <= SS_RDT_WORDS; step++) {
		word = (from / 64 + step) % SS_RDT_WORDS;
		bits = cpu->shared->left[word] & ss_rdt_round_mask(step, from);
		for (; bits; bits &= bits - 1) {
			if (ops->now_ns() >= until_ns)
				return;
			bit = __builtin_ctzll(bits);
			ops->unclaim(&cpu->shared->left[word], bit);
			if (!ss_rdt_read_rmid(cpu, ops, word * 64 + bit, SS_RDT_RAN))
				ops->claim(&cpu->shared->left[word], bit);
		}
	}
}

/*
 * Each CPU goes round by itself, in a quarter of a second: a cursor for all of a domain would be a line
 * that all of them write in each tick.
 */
static void ss_rdt_sweep(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 until_ns)
{
	__u32 i;

	for (i = 0; i < SS_SWEEP_PER_TICK && ops->now_ns() < until_ns; i++) {
		cpu->sweep++;
		if (cpu->sweep >= cpu->shared->domain.caps.nr_rmids)
			cpu->sweep = 1;
		ss_rdt_read_rmid(cpu, ops, cpu->sweep, 0);
	}
}

void ss_rdt_cpu_read(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 budget_ns)
{
	__u64 now_ns, until_ns, selected;

	if (!cpu->shared)
		return;
	now_ns = ops->now_ns();
	until_ns = now_ns + budget_ns;
	if (now_ns - cpu->shared->read_ns > SS_SILENCE_NS && now_ns > cpu->shared->read_ns)
		cpu->shared->domain.epoch++;
	if (now_ns - cpu->shared->read_ns > SS_READ_STEP_NS)
		cpu->shared->read_ns = now_ns;
	/* Somebody else may have chosen a counter and not read it yet. */
	if (ops->rdmsr(SS_MSR_QM_EVTSEL, &selected))
		return;
	/* By turns, so that neither waits for ever while there is too much of the other. */
	if (cpu->left_first)
		ss_rdt_read_left(cpu, ops, until_ns);
	ss_rdt_read_own(cpu, ops, until_ns);
	if (!cpu->left_first)
		ss_rdt_read_left(cpu, ops, until_ns);
	cpu->left_first = !cpu->left_first;
	ss_rdt_sweep(cpu, ops, until_ns);
	ops->wrmsr(SS_MSR_QM_EVTSEL, selected);
}
