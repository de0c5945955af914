#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py FOLDER MACHINE: what the module and the collector said in a guest, against what its CPUs really did.

FOLDER holds what run.sh has left there of the guest and of the emulator (see README.md). Prints one line per claim with
its numbers; exits with 1 if one does not hold. Then each mutant of what was said (see mutants.py) has to be found out by
some claim; it exits with 1 if one is not.
"""
import bisect
import collections
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # beside the sources

from clock import Clock
from emulator import COLUMN, EVENT, FOREVER, Emulator
from guest import Guest
from mutants import MUTANTS, OCCUPANCY_MUTANTS, hundredth_not_ok
from truth import Holders, Truth

LIMBO_NS = 2_000_000
SLOT_NS = 1_000_000
SLOW_NS = 100_000  # as in the module: so far may a clock be from what it is the time of
CLOCK_NS = 30_000  # as exactly the emulator's clock is known
BORDER_NS = 200_000  # from the scheduler's record of a switch to the RMID, on an emulated CPU that is not taken away
SHORT_NS = 20_000_000
# Of a kernel that takes so many times as long for everything, as one with KASAN and lockdep does.
SLOWER = int(sys.argv[3]) if len(sys.argv) > 3 else 1
LATE_NS = 15_000 * SLOWER  # of a mutant
# From the tracer's record of a switch to the module's, on an emulated CPU that is not taken away: 6,400 to 7,400 were seen alone, and
# 10,256 beside another guest.
BEHIND_NS = 13_000 * SLOWER


# What these machines need not have: where no lines survive their owner, few rows or none have a taint; where they survive all
# traffic, all processes have as many; and where each third read is in vain, that is the occupancy each time.
LACK = {
    "taint that is not seen": lambda machine: machine not in ("reuse", "partition"),
    "swapped occupancies": lambda machine: machine in ("partition", "unavailable3"),
    "lines of a dead owner": lambda machine: machine == "unavailable3",
    "doubled occupancy": lambda machine: machine == "unavailable3",
}


class Claims:
    def __init__(self, say):
        self.say, self.failed, self.broken = say, [], False

    def claim(self, holds, text):
        if not holds:
            self.failed.append(text)
        if self.say:
            print(("ok    " if holds else "WRONG ") + text)

    def law(self, holds, text):
        """What no host can break, however seldom it lets the guest run: see main()."""
        self.broken |= not holds
        self.claim(holds, text)


class Run:
    """All that is known of one run, and what its claims share."""

    def __init__(self, folder):
        self.emulator, self.guest = Emulator(folder), Guest(folder)
        self.clock = Clock(self.guest.module.samples, self.emulator.reads)
        self.truth = Truth(self.emulator, self.guest.switches, self.clock)
        self.unit, self.nr_cpus = self.emulator.config["scale"], len(self.emulator.domain_of)
        times = [sample["ts_ns"] for sample in self.guest.module.samples]
        self.begins_ns, self.ends_ns = self.clock.emulator(min(times)), self.clock.emulator(max(times))  # of what was read
        self.nr_short_sums = 0  # that were compared
        self.counts_bytes = bool(self.emulator.config["events"] & 6)
        self.nr_slow_said = int(self.guest.info["rdt_slow_switches"])
        self.nr_slow_true, self.nr_across, self.across_ns = self.count_slow()
        self.nr_slow = min(self.nr_slow_said, self.nr_slow_true)  # what it excuses
        # How long a delta is, of those who do not sleep: a slot, and more where a CPU has no time to read all.
        deltas = [sample["ts_ns"] - sample["since_ns"] for sample in self.guest.module.samples]
        deltas = [delta for delta in deltas if 0 < delta < 10 * SLOT_NS]
        self.delta_ns = max(SLOT_NS, sum(deltas) // max(1, len(deltas)))
        self._true_ns = {}  # tgid, slot -> ns
        self.find_borders()
        self.occupancies = collections.defaultdict(list)  # rmid, domain -> [(time, bytes)], as read
        for time, vcpu, rmid, event, value in self.emulator.reads:
            if EVENT[event] == "llc":
                self.occupancies[rmid, self.emulator.domain_of[vcpu]].append((time, (value & (1 << 61) - 1) * self.unit))

    def count_slow(self):
        """The host took the CPU away between the tracer's clock and the RMID in so many switches, and so many of them
        reach as far into another slot. The module's clock is between the two, and the emulator's is known to some microseconds: not
        less than the module has to find."""
        nr = nr_across = across_ns = 0
        for vcpu, writes in self.emulator.writes.items():
            switches = [ts for ts, _ in self.guest.switches[vcpu]]
            times = [self.clock.emulator(ts) for ts in switches]
            for time in writes:
                at = bisect.bisect_right(times, time) - 1
                if 0 <= at < len(times) - 1 and time - times[at] > SLOW_NS - CLOCK_NS:
                    nr += 1
                    border = self.clock.emulator((switches[at] // SLOT_NS + 1) * SLOT_NS)
                    last = border + (time - border) // SLOT_NS * SLOT_NS
                    if max(time - border, last - times[at]) > SLOW_NS - CLOCK_NS:
                        nr_across += 1
                        across_ns += time - times[at]
        return nr, nr_across, across_ns

    def find_borders(self):
        """Where who ran and under which RMID disagree, and for how long."""
        self.holders = Holders(self.guest.module, self.clock)
        self.borders, self.late, self.near_ns, self.all_ns = 0, [], 0, 0
        self.late_ns = collections.Counter()  # tgid -> ns, of late borders: what it did then counted for another, or another's for it
        for pieces in self.truth.pieces.values():
            run_ns, before, whose = 0, None, set()
            for begin, end, tgid, rmid in pieces + [(FOREVER, FOREVER, 0, 0)]:
                if begin < self.begins_ns or self.ends_ns < end < FOREVER:
                    continue
                self.all_ns += end - begin
                self.borders += tgid != before
                before = tgid
                middle = (begin + end) // 2
                said = self.holders.tgid(rmid, middle) if rmid else 0
                if begin < end and (said != tgid if rmid else self.holders.rmid(tgid, middle)):
                    run_ns += end - begin
                    whose |= {tgid, said}
                    continue
                if run_ns > BORDER_NS:
                    self.late.append(run_ns)
                    for one in whose:
                        self.late_ns[one] += run_ns
                else:
                    self.near_ns += run_ns
                run_ns, whose = 0, set()

    def all_true_ns(self):
        """Of all processes that ever had an RMID, from the first sample to the last."""
        return sum(self.truth.processes.ns(tgid, self.begins_ns, self.ends_ns) for tgid in self.holders.tgids)

    def slot(self, row):
        begin = self.clock.emulator(int(row["slot_start_ns"]))
        return begin, begin + SLOT_NS

    def occupancy(self, rmid, guest_ns):
        """What was read last by then, of all domains."""
        total, end = 0, self.clock.emulator(guest_ns) + SLOT_NS
        for domain in set(self.emulator.domain_of.values()):
            mine = self.occupancies[rmid, domain]
            at = bisect.bisect_left(mine, (end, 0)) - 1
            total += mine[at][1] if at >= 0 else 0
        return total

    def true_ns(self, tgid, row):
        """Each mutant asks for the same ones."""
        key = tgid, row["slot_start_ns"]
        if key not in self._true_ns:
            self._true_ns[key] = self.truth.processes.ns(tgid, *self.slot(row))
        return self._true_ns[key]


def check_who(run, claims):
    """Each RMID is programmed for the process that the module says has it, but for the borders."""
    claims.law(run.guest.module.two_owners == 0, f"leases: {len(run.guest.module.leases)}, each of one process")
    claims.claim(run.near_ns < run.all_ns // 50,
                 f"who runs has its RMID: {100 * run.near_ns / run.all_ns:.2f}% of the time differ, at {run.borders} borders")
    claims.claim(len(run.late) <= 3 + run.nr_slow,
                 f"borders: {len(run.late)} are late, {sum(run.late)} ns in all, the longest {max(run.late, default=0)}; "
                 f"{run.nr_slow} switches of an RMID took long")


def check_bandwidth(run, claims, rows, event):
    """Per lease, and for short ones per process and per name: the bytes of all slots in which a value is shown."""
    column, rate = COLUMN[event], run.emulator.rate(event)
    shown = collections.defaultdict(list)
    for row in rows:
        if row["kind"] == "user" and row[column]:
            shown[row["tgid"], row["start_time_ns"], row["rmid"]].append(row)
    short, off, off_ns, all_got, all_true, worst = collections.defaultdict(lambda: [0, 0, set()]), [], 0, 0, 0, 0.0
    idle, above = [], []
    # And a percent, as everywhere here: the emulator's clock and the guest's drift apart.
    bound = rate * run.nr_cpus * (SLOT_NS + 2 * SLOW_NS) // 1000 * 101 // 100 + run.unit
    for (tgid, _, rmid), mine in shown.items():
        got = true = 0
        comm = mine[-1]["comm"]
        for row in mine:
            value, true_ns = int(row[column]), run.true_ns(int(tgid), row)
            got += value
            true += true_ns * rate // 1000
            off_ns += abs(value * 1000 // rate - true_ns)
            if value and not int(row["cpu_ns"]):
                idle.append(row)
            if value > bound:
                above.append(row)
        all_got, all_true = all_got + got, all_true + true
        apart_ns = run.guest.clocks_apart_ns[int(tgid)] + run.late_ns[int(tgid)]
        allowed = true // 100 + 2 * rate * SLOT_NS // 1000 + rate * apart_ns // 1000
        if abs(got - true) > allowed:
            off.append(f"{tgid} ({comm}, RMID {rmid}): {got}, in truth {true}, in {len(mine)} slots")
        if true * 1000 // rate < SHORT_NS:
            for name in (comm, f"process {tgid}"):
                short[name][0] += got
                short[name][1] += true
                short[name][2].add(int(tgid))
        else:
            worst = max(worst, abs(got - true) / true)
    for text in off[:5]:
        if claims.say:
            print(f"      {column} of {text}")
    claims.claim(shown and not off, f"{column}: {len(off)} of {len(shown)} leases are off; of the long ones {100 * worst:.2f}% at most")
    claims.claim(abs(all_got - all_true) < all_true / 100,
                 f"{column}: all {all_got}, in truth {all_true} ({100 * (all_got - all_true) / max(all_true, 1):+.3f}%)")
    for name, (got, true, tgids) in sorted(short.items()):
        apart = rate * sum(run.guest.clocks_apart_ns[tgid] for tgid in tgids) // 1000
        if true * 1000 // rate > 100 * SLOT_NS:
            run.nr_short_sums += 1
            claims.claim(abs(got - true) < true / 100 + apart,
                         f"{column} of short leases, {name}: {got}, in truth {true} ({100 * (got - true) / true:+.3f}%)")
    claims.claim(off_ns < all_true * 1000 // rate // 10,
                 f"{column}: {100 * off_ns * rate / 1000 / max(all_true, 1):.2f}% stand in another slot")
    claims.claim(not above, f"{column}: {len(above)} rows above what all CPUs can cause")
    claims.claim(not idle, f"{column}: {len(idle)} rows with bytes and without time on a CPU")


def check_counters(run, claims, rows):
    for event, column in COLUMN.items():
        bit = {"llc": 1, "total": 2, "local": 4}[event]
        if not run.emulator.config["events"] & bit:
            claims.claim(not any(row[column] for row in rows), f"{column}: not counted, and empty")
        elif event != "llc":
            check_bandwidth(run, claims, rows, event)


def check_readings(run, claims, rows):
    """Each occupancy shown is what the counters of the RMID said at about that time, added up over the domains."""
    nr, wrong = 0, []
    for row in rows:
        if not row["llc_occupancy_bytes"]:
            continue
        begin, _ = run.slot(row)
        sums = {0}
        for domain in set(run.emulator.domain_of.values()):
            mine = run.occupancies[int(row["rmid"]), domain]
            low = bisect.bisect_left(mine, (begin - 20 * SLOT_NS, 0))
            high = bisect.bisect_left(mine, (begin + 20 * SLOT_NS, 0))  # an emulated CPU may be late with its tick
            sums = {total + value for total in sums for value in {0} | {value for _, value in mine[low:high]}}
        nr += 1
        if int(row["llc_occupancy_bytes"]) not in sums:
            wrong.append(row)
    for row in wrong[:5]:
        if claims.say:
            print(f"      {row['comm']} (RMID {row['rmid']}): {row['llc_occupancy_bytes']} was never read in those milliseconds")
    claims.claim(not wrong, f"llc_occupancy_bytes: {nr - len(wrong)} of {nr} rows say what was read")


def check_occupancy(run, claims, rows):
    """No more than the owner can have filled since it got the RMID, but for what counts as none."""
    config = run.emulator.config
    limit = max(int(run.guest.info["rdt_cache_bytes"]) // 256, run.unit) * len(set(run.emulator.domain_of.values())) + run.unit
    nr, nr_reused, stale = 0, 0, []
    for row in rows:
        if row["rdt_status"] != "ok" or not row["llc_occupancy_bytes"]:
            continue
        begin, end = run.slot(row)
        got = run.holders.since(int(row["tgid"]), int(row["rmid"]), end)
        nr, nr_reused = nr + 1, nr_reused + (got > 0)
        own = run.emulator.rmids.ns(int(row["rmid"]), got, end + SLOT_NS) * config["local_rate"] // 1000
        if int(row["llc_occupancy_bytes"]) > min(own, config["llc_cap"] * run.nr_cpus) + limit:
            stale.append((int(row["llc_occupancy_bytes"]), own, row))
    for bytes_shown, own, row in stale[:5]:
        if claims.say:
            print(f"      {row['comm']} (RMID {row['rmid']}): {bytes_shown}, when it can have filled {own}")
    claims.claim(not stale, f"llc_occupancy_bytes: {len(stale)} of {nr} rows that are ok show an earlier owner's "
                 f"lines; {nr_reused} are of RMIDs that were handed out while we looked")


def check_reuse(run, claims):
    """No RMID changes hands inside its limbo, and while it is nobody's no CPU runs under it."""
    nr, shortest, unused_ns, idle_ns = 0, None, None, 0
    for rmid, leases in run.guest.module.leases_of().items():
        for lease, following in zip(leases, leases[1:]):
            if not lease.end or not following.begin:
                continue
            nr += 1
            shortest = min(shortest or FOREVER, following.begin - lease.end)
            # The last switch-out is written some microseconds after the free was stamped.
            freed, begin = run.clock.emulator(lease.end) + BORDER_NS, run.clock.emulator(following.begin) - 40_000
            unused_ns = min(unused_ns or FOREVER, run.emulator.rmids.gap_ns(rmid, freed))
            idle_ns = max(idle_ns, run.emulator.rmids.ns(rmid, freed, begin))
    claims.claim(idle_ns == 0, f"reuse: nobody runs under an RMID that is free ({idle_ns} ns)")
    claims.law(shortest is None or shortest >= LIMBO_NS, f"reuse: {nr} times, the soonest after {shortest} ns")
    claims.claim(unused_ns is None or unused_ns >= LIMBO_NS - BORDER_NS, f"reuse: in truth unused for {unused_ns} ns at least")
    return nr


def check_statuses(run, claims, rows, machine):
    """How much has a status, by bytes: what is not ok is said, and what was doubted is little."""
    count, rate = collections.Counter(), run.emulator.rate("total")
    for row in rows:
        if row["kind"] == "user":
            count[row["rdt_status"]] += run.true_ns(int(row["tgid"]), row) * rate // 1000
    shares = {status: f"{100 * value / max(1, sum(count.values())):.2f}%" for status, value in count.most_common()}
    expected = 0 if machine in ("unavailable3", "partition") else 20  # one of three counters never says; lines stay for seconds
    claims.claim(count["ok"] * expected >= sum(count.values()) * (expected > 0), f"bytes of user rows by rdt_status: {shares}")
    if machine == "counted":
        claims.claim(count["ok"] * 1000 >= sum(count.values()) * 995, f"of a CPU that nobody takes away {shares.get('ok')} of the bytes are ok")
    # The host also takes CPUs away between the RMID and the module's second clock.
    claims.claim(run.nr_slow_said <= run.nr_slow_true * 11 // 10 + 3, f"slow switches: {run.nr_slow_said} says the module, {run.nr_slow_true} were")
    if run.emulator.config["events"] & 2:
        doubted = int(run.guest.info["rdt_doubted_total_bytes"])
        # Where the host takes CPUs away more often than now and then, more: of each such switch the delta of who ran before it may be
        # nobody's, and of who runs behind it.
        caused = run.all_true_ns() * rate // 1000
        if machine == "counted":
            claims.claim(doubted == 0, f"of a CPU that nobody takes away {doubted} bytes are doubted")
        claims.claim(doubted > 0 or run.nr_across < 20, f"bytes are doubted, as {run.nr_across} switches reach far into another slot")
        claims.claim(doubted < caused // 200 + (run.across_ns + 2 * run.nr_across * run.delta_ns) * rate // 1000,
                     f"bytes next to {run.nr_across} switches that reach far into another slot, which are nobody's: {doubted}, {100 * doubted / max(1, caused):.2f}% of all")
    identity = run.guest.header.get("identity", "is missing")
    claims.law(identity.startswith("holds"), f"identity {identity[:60]}")


def check_happened(run, claims, machine, nr_reuses):
    """That which the machine is for did happen."""
    rows = run.guest.rows
    if machine.startswith("wrap"):
        last, wraps = {}, 0
        for _, vcpu, rmid, event, value in run.emulator.reads:
            if EVENT[event] == "total" and not value >> 62:
                key = run.emulator.domain_of[vcpu], rmid
                wraps += value < last.get(key, 0)
                last[key] = value
        claims.claim(wraps > 5, f"{wraps} times a counter went round between two reads")
    elif machine.startswith("unavailable"):
        said, shown = run.emulator.sum("ctr_unavail"), sum(row["rdt_status"] == "unavailable" for row in rows)
        claims.claim(said > 0 and shown > 0, f"{said} reads said Unavailable, {shown} rows say so")
    elif machine == "exhausted":
        none = sum(row["kind"] == "unassigned" for row in rows)
        claims.claim(none > 0, f"{none} rows of processes without an RMID")
    elif machine in ("reuse", "partition", "counted"):
        claims.claim(nr_reuses > 100, f"{nr_reuses} reuses")
        claims.claim(run.nr_short_sums > 0 or not run.counts_bytes, f"{run.nr_short_sums} sums over short leases were compared")
    elif machine == "sleepers":
        mine = [row for row in rows if row["tgid"] == run.guest.busy_tgid]
        late = [row for row in mine[100:] if row["kind"] == "unassigned"]
        claims.claim(len(mine) > 200 and not late, f"who computes has {len(mine)} rows, {len(late)} without an RMID later than 100 ms")
        # They had all; then the reserve was free, and who computes has one. How many more are born, the host's speed says.
        taken, reserve = int(run.guest.info["rmid_taken_back"]), max(2, int(run.guest.info["rmids"]) // 16)
        claims.claim(taken > reserve, f"RMIDs of sleepers taken back: {taken}, with a reserve of {reserve}")
    elif machine in ("sockets", "clusters"):
        domains = set(run.emulator.domain_of.values())
        claims.claim(len(domains) == 2, f"domains {sorted(domains)}")


def check_clocks(behind_ns, slow, claims):
    """What is allowed for clocks that are apart is for a CPU that was taken away between the two, not for a late clock."""
    ordered = sorted(behind_ns)
    # The host takes CPUs away in as many switches as the module has found to be slow, and in 2% more.
    prompt = max(len(ordered) // 2, len(ordered) * 98 // 100 - slow)
    middle, most = ordered[len(ordered) // 2], ordered[prompt]
    claims.claim(0 <= middle < BEHIND_NS and most < 5 * BEHIND_NS,
                 f"clocks of {len(ordered)} switches, {slow} of them slow: the module's is {middle} ns behind the tracer's, "
                 f"{most} ns at most in {prompt}")


def check_cpus(run, claims):
    gp = sum(run.emulator.sum(counter) for counter in ("pqr_gp", "evtsel_gp", "ctr_gp"))
    claims.law(gp == 0, f"the CPUs refused {gp} writes")
    claims.law(run.emulator.closids <= {0}, f"CLOSIDs written: {sorted(run.emulator.closids)}")
    same, writes = run.emulator.sum("pqr_same"), run.emulator.sum("pqr_writes")
    claims.claim(same * 20 <= writes, f"PQR_ASSOC: {writes} writes, {same} of them changed nothing")
    claims.claim(run.clock.nr_fit > run.clock.nr_samples / 2,
                 f"clocks: {run.clock.nr_fit} of {run.clock.nr_samples} samples fit; they drift by "
                 f"{run.clock.offsets[-1] - run.clock.offsets[0]} ns")


def check(run, machine, claims):
    rows = run.guest.rows
    check_cpus(run, claims)
    check_clocks(run.guest.behind_ns, run.nr_slow, claims)
    check_who(run, claims)
    check_counters(run, claims, rows)
    if run.emulator.config["events"] & 1:
        check_occupancy(run, claims, rows)
        check_readings(run, claims, rows)
    nr_reuses = check_reuse(run, claims)
    check_statuses(run, claims, rows, machine)
    check_happened(run, claims, machine, nr_reuses)


def main():
    folder, machine = Path(sys.argv[1]), sys.argv[2]
    run, claims = Run(folder), Claims(True)
    check(run, machine, claims)

    def has_to_fail(name, rows, *checks):
        if rows is None:
            claims.claim(False, f"mutant, {name}: nothing in this run can be changed so")
            return
        found = Claims(False)
        for check_one in checks:
            check_one(run, found, rows)
        claims.claim(found.failed, f"mutant, {name}: {found.failed[0] if found.failed else 'nobody has noticed'}")

    for name, mutate in MUTANTS.items() if run.counts_bytes else ():
        has_to_fail(name, mutate(run.guest.rows), check_counters)
    for name, mutate in OCCUPANCY_MUTANTS.items() if run.emulator.config["events"] & 1 else ():
        if name not in LACK or not LACK[name](machine):
            has_to_fail(name, mutate(run.guest.rows, run.occupancy), check_occupancy, check_readings)
    if machine == "counted":
        has_to_fail("a row of a hundred is not ok", hundredth_not_ok(run.guest.rows), lambda *of: check_statuses(*of, machine))
    found = Claims(False)
    check_clocks([behind + LATE_NS for behind in run.guest.behind_ns], run.nr_slow, found)
    claims.claim(found.failed, f"mutant, the module's clock is {LATE_NS} ns late: {found.failed[0] if found.failed else 'nobody has noticed'}")
    sys.exit(3 if claims.broken else bool(claims.failed)) # 3: nobody is to try again


if __name__ == "__main__":
    main()
