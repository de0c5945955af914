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
}

/* The CLOSID is looked up each time: somebody may have set it since, and it is not ours to undo. */
enum ss_rdt_trouble ss_rdt_cpu_run(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid)
{
	enum ss_rdt_trouble trouble;

	if (!cpu->shared)
		return SS_RDT_NO_TROUBLE;
	if (rmid != cpu->rmid) {
		trouble = ss_rdt_find_closid(cpu, ops);
		if (trouble)
			return trouble;
		if (ss_rdt_write_pqr(cpu, ops, rmid))
			return SS_RDT_REFUSED;
		cpu->nr_programmed++;
	}
	if (rmid)
		cpu->ran[rmid % SS_RMID_CAPACITY / 64] |= 1ull << rmid % 64;
	return SS_RDT_NO_TROUBLE;
}

enum ss_rdt_trouble ss_rdt_cpu_check(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops)
{
	return cpu->shared ? ss_rdt_find_closid(cpu, ops) : SS_RDT_NO_TROUBLE;
}

/* All events of one RMID. False: another CPU reads it just now. */
static bool ss_rdt_read_rmid(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u32 rmid,
			     __u32 flags)
{
	struct ss_rdt_shared *shared = cpu->shared;
	struct ss_rdt_owner owner;
	struct ss_rdt_sample sample;
	__u32 event, how;
	__u64 selector, value, now_ns;

	if (!ops->claim(&shared->claimed[rmid / 64], rmid % 64))
		return false;
	/* In this order: an owner that comes or goes meanwhile is seen by the next read. */
	ops->owner(rmid, &owner);
	now_ns = ops->now_ns();
	/* Bandwidth first: it says how much of the cache has been filled anew. */
	for (event = SS_RDT_MBM_LOCAL; event >= SS_RDT_LLC_OCCUPANCY; event--) {
		if (!(shared->domain.caps.events & 1u << event))
			continue;
		how = flags | cpu->assignable;
		value = 0;
		selector = (__u64)(shared->domain.first_rmid + rmid) << 32 | event;
		if (ops->wrmsr(SS_MSR_QM_EVTSEL, selector) ||
		    ops->rdmsr(SS_MSR_QM_CTR, &value))
			how |= SS_RDT_FAULT;
		cpu->stats.nr_errors += how & SS_RDT_FAULT || value >> 62;
		if (ss_rdt_domain_take(&shared->domain, rmid, event, value, how, &owner, now_ns,
				       &cpu->stats, &sample))
			ops->emit(&sample);
	}
	ops->unclaim(&shared->claimed[rmid / 64], rmid % 64);
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

/* Races with other CPUs' sweeps only make it read one twice, or a round later. */
static void ss_rdt_sweep(struct ss_rdt_cpu *cpu, const struct ss_rdt_ops *ops, __u64 until_ns)
{
	const __u32 nr_rmids = cpu->shared->domain.caps.nr_rmids;
	__u32 i, rmid;

	for (i = 0; i < SS_SWEEP_PER_TICK && ops->now_ns() < until_ns; i++) {
		rmid = cpu->shared->sweep + 1;
		if (rmid >= nr_rmids)
			rmid = 1;
		cpu->shared->sweep = rmid;
		ss_rdt_read_rmid(cpu, ops, rmid, 0);
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
