#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py FOLDER: what the module and the collector said in a guest, against what its CPUs really did.

FOLDER holds slots.csv, events and info from the guest (see in-guest.sh), and truth.json and trace from the
emulator (see README.md). Prints one line per claim with its numbers; exits 1 if one does not hold.
"""
import bisect
import collections
import csv
import json
import re
import sys
from pathlib import Path

LIMBO_NS = 2_000_000
TICK_NS = 1_000_000
HOST_TOOK_CPU_NS = 500_000
FOREVER = 1 << 62
EVENT = {1: "llc", 2: "total", 3: "local"}

failed = False


def claim(holds, text):
    global failed
    failed |= not holds
    print(("ok    " if holds else "WRONG ") + text)


class Spans:
    """Times at which one CPU ran under one RMID, in order."""

    def __init__(self):
        self.begins, self.ends, self.sums = [], [], []  # sums: of all before

    def append(self, begin, end):
        self.sums.append(self.sums[-1] + self.ends[-1] - self.begins[-1] if self.sums else 0)
        self.begins.append(begin)
        self.ends.append(end)

    def until(self, time):
        """How long, in all."""
        at = bisect.bisect_right(self.begins, time) - 1
        return self.sums[at] + min(time, self.ends[at]) - self.begins[at] if at >= 0 else 0

    def around(self, time):
        """The end of the last span that begins before it, the begin of the first after that."""
        at = bisect.bisect_right(self.begins, time)
        return self.ends[at - 1] if at else -FOREVER, self.begins[at] if at < len(self.begins) else FOREVER


class Truth:
    """When which RMID was active in which domain, from the emulator's trace. Times are the emulator's."""

    def __init__(self, folder):
        self.log = json.loads((folder / "truth.json").read_text())
        self.config = self.log["config"]
        self.domain_of = {v["vcpu"]: v["domain"] for v in self.log["vcpus"]}
        self.spans = collections.defaultdict(lambda: collections.defaultdict(Spans))  # rmid -> vcpu
        self.segments = collections.defaultdict(list)  # vcpu -> [(from, to, address space, rmid)], while it computes
        self.reads = []  # (time, vcpu, rmid, event, value)
        self.closids = set()
        cpus = {}
        for line in (folder / "trace").read_text().splitlines():
            kind, time, *rest = line.split()
            time, field = int(time), dict(word.split("=") for word in rest)
            vcpu = int(field["cpu"])
            state = cpus.setdefault(vcpu, {"since": time, "rmid": 0, "busy": False, "cr3": None})
            if state["busy"] and time > state["since"]:
                if state["rmid"]:
                    self.spans[state["rmid"]][vcpu].append(state["since"], time)
                self.segments[vcpu].append((state["since"], time, state["cr3"], state["rmid"]))
            state["since"] = time
            if kind == "C":
                state["cr3"] = field["cr3"]
            elif kind == "W":
                state["cr3"] = field["cr3"]
                state["rmid"] = int(field["new"])
                self.closids.add(int(field["clos"]))
            elif kind in "HB":
                state["busy"] = kind == "B"
            elif kind == "I":
                state["rmid"] = 0
            elif kind == "R":
                self.reads.append((time, vcpu, int(field["rmid"]), int(field["evt"]), int(field["val"], 16)))
    def gap_ns(self, rmid, freed):
        """From the last time that any CPU ran under it before `freed` to the first time after that."""
        around = [spans.around(freed) for spans in self.spans[rmid].values()]
        return min((after for _, after in around), default=FOREVER) - max((before for before, _ in around), default=-FOREVER)

    def active_ns(self, rmid, begin, end):
        """On all CPUs, each counts."""
        return sum(spans.until(end) - spans.until(begin) for spans in self.spans[rmid].values())


class Events:
    """The module's tracepoints. Times are the guest's CLOCK_MONOTONIC."""

    def __init__(self, folder):
        self.samples, self.leases = [], collections.defaultdict(list)
        self.measures = collections.defaultdict(list)  # cpu -> [(start, end, rmid)]
        open_leases = {}
        for line in (folder / "events").read_text().splitlines():
            match = re.search(r" \[(\d+)\] .* (ss_\w+): (.*)", line)
            if not match:
                continue
            cpu, event = int(match[1]), match[2]
            field = dict(word.split("=") for word in match[3].split())
            field = {key: int(value, 0) for key, value in field.items()}
            if event == "ss_rdt_sample":
                self.samples.append(field)
            elif event == "ss_measure":
                self.measures[cpu].append((field["start_ns"], field["ts_ns"], field["rmid"]))
            elif event == "ss_rmid_alloc":
                open_leases[field["rmid"]] = field
            elif event == "ss_rmid_free" and field["rmid"] in open_leases:
                begin = open_leases.pop(field["rmid"])
                self.leases[field["rmid"]].append((begin["ts_ns"], field["ts_ns"], begin["tgid"]))
        for rmid, begin in open_leases.items():
            self.leases[rmid].append((begin["ts_ns"], None, begin["tgid"]))
        for leases in self.leases.values():
            leases.sort()


def find_offset(truth, events):
    """Emulator's time minus guest's: what most pairs of a sample and a read of the same RMID agree on."""
    times = collections.defaultdict(list)
    for time, _, rmid, event, _ in truth.reads:
        times[rmid, event].append(time)
    bins = collections.Counter()
    samples = events.samples[::len(events.samples) // 1500 + 1]
    for sample in samples:
        for time in times[sample["rmid"], sample["event"]]:
            bins[(time - sample["ts_ns"]) // 20_000] += 1
    (best, count), = bins.most_common(1)
    claim(count > len(samples) / 10,
          f"clocks: {count} of {len(samples)} samples fit one offset of {best * 20_000} ns")
    return best * 20_000


def rows_of(folder):
    lines = [line for line in (folder / "slots.csv").read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def header_of(folder):
    header = {}
    for line in (folder / "slots.csv").read_text().splitlines():
        if line.startswith("# ") and ": " in line:
            key, value = line[2:].split(": ", 1)
            header[key] = value
    return header


def check_bandwidth(truth, events, rows, offset, column, rate):
    """Per process, over the slots in which a value is shown."""
    slot_ns = TICK_NS
    deltas = collections.defaultdict(list)
    for sample in events.samples:
        if EVENT[sample["event"]] in column:
            deltas[sample["rmid"]].append((sample["since_ns"], sample["ts_ns"]))
    shown = collections.defaultdict(list)
    for row in rows:
        if row["kind"] == "user" and row[column]:
            shown[row["tgid"], row["comm"], int(row["rmid"])].append(row)
    unit = truth.config["scale"]
    nr, worst, all_csv, all_true = 0, 0.0, 0, 0
    for (tgid, comm, rmid), mine in shown.items():
        got = sum(int(row[column]) for row in mine)
        true = 0
        for row in mine:
            begin = int(row["slot_start_ns"]) + offset
            true += truth.active_ns(rmid, begin, begin + slot_ns) * rate // 1000
        # A stretch of rows has two borders, at each of which a share of one delta may go to the slot beside it.
        # Where an emulated CPU was late with its tick, a delta is long.
        starts = sorted(int(row["slot_start_ns"]) for row in mine)
        stretches = 1 + sum(b - a > slot_ns for a, b in zip(starts, starts[1:]))
        longest = max((truth.active_ns(rmid, since + offset, ts + offset) for since, ts in deltas[rmid]
                       if since < starts[-1] + slot_ns and ts > starts[0]), default=0)
        border = stretches * (2 * unit + 2 * rate * max(longest, slot_ns // 2) // 1000)
        all_csv, all_true = all_csv + got, all_true + true
        nr += 1
        error = abs(got - true)
        if true > 2 * border:
            worst = max(worst, error / true)
        if error > max(border, true // 20):
            claim(False, f"{column} of {tgid} ({comm}, RMID {rmid}): {got}, in truth {true}, in {stretches} stretches")
    claim(nr > 0 and abs(all_csv - all_true) < all_true / 50,
          f"{column}: {nr} processes, worst {100 * worst:.2f}% off; all {all_csv}, in truth {all_true} "
          f"({100 * (all_csv - all_true) / max(all_true, 1):+.3f}%)")


def check_readings(truth, rows, offset):
    """Each occupancy shown is what the counters of the RMID said at about that time, added up over the domains."""
    unit = truth.config["scale"]
    readings = collections.defaultdict(list)  # rmid, domain -> [(time, bytes)]
    for time, vcpu, rmid, event, value in truth.reads:
        if EVENT[event] == "llc":
            readings[rmid, truth.domain_of[vcpu]].append((time, (value & (1 << 61) - 1) * unit))
    nr, wrong = 0, []
    for row in rows:
        if not row["llc_occupancy_bytes"]:
            continue
        begin = int(row["slot_start_ns"]) + offset
        sums = {0}
        for domain in set(truth.domain_of.values()):
            mine = readings[int(row["rmid"]), domain]
            low = bisect.bisect_left(mine, (begin - 20 * TICK_NS, 0))
            high = bisect.bisect_left(mine, (begin + 20 * TICK_NS, 0))  # an emulated CPU may be late with its tick
            sums = {total + value for total in sums for value in {0} | {value for _, value in mine[low:high]}}
        nr += 1
        if int(row["llc_occupancy_bytes"]) not in sums:
            wrong.append(row)
    for row in wrong[:5]:
        print(f"      {row['comm']} (RMID {row['rmid']}): {row['llc_occupancy_bytes']} was never read in those milliseconds")
    claim(nr > 100 and not wrong, f"llc_occupancy_bytes: {nr - len(wrong)} of {nr} rows say what was read")


def check_occupancy(truth, rows):
    cap, unit = truth.config["llc_cap"], truth.config["scale"]
    values = [int(row["llc_occupancy_bytes"]) for row in rows if row["llc_occupancy_bytes"]]
    # The model's occupancy grows with the time that ran, up to its cap, in each domain.
    domains = len(set(truth.domain_of.values()))
    claim(len(values) > 100 and max(values) <= cap * domains + unit and min(values) >= 0,
          f"llc_occupancy_bytes: {len(values)} values, at most {max(values, default=0)} of {cap} x {domains}")
    busiest = collections.Counter()
    for row in rows:
        if row["kind"] == "user":
            busiest[row["tgid"]] += int(row["cpu_ns"])
    tgid = busiest.most_common(1)[0][0]
    of_it = [int(row["llc_occupancy_bytes"]) for row in rows
             if row["tgid"] == tgid and row["llc_occupancy_bytes"]]
    full = sum(value > 0.9 * cap for value in of_it)
    claim(full > len(of_it) / 2, f"llc_occupancy_bytes of the busiest process: full in {full} of {len(of_it)} slots")


def check_reuse(truth, events, offset):
    """No RMID changes hands inside its limbo, and while it is nobody's no CPU runs under it."""
    nr, shortest, unused_ns, idle_ns = 0, None, None, 0
    for rmid, leases in events.leases.items():
        for (_, freed, _), (begin, _, _) in zip(leases, leases[1:]):
            nr += 1
            shortest = min(shortest or begin - freed, begin - freed)
            # The last switch-out is written some microseconds after the free was stamped.
            gap_ns = truth.gap_ns(rmid, freed + offset + 200_000)
            unused_ns = min(unused_ns or gap_ns, gap_ns)
            idle_ns = max(idle_ns, truth.active_ns(rmid, freed + offset + 200_000, begin + offset - 40_000))
    claim(idle_ns == 0, f"reuse: nobody runs under an RMID that is free ({idle_ns} ns)")
    claim(shortest is None or shortest >= LIMBO_NS, f"reuse: {nr} times, the soonest after {shortest} ns")
    claim(unused_ns is None or unused_ns >= LIMBO_NS - 200_000, f"reuse: in truth unused for {unused_ns} ns at least")
    return nr


def check_spaces(truth, events, offset):
    """Which address spaces ran under which RMIDs, and for how long: the module's measures against PQR_ASSOC. A space
    is known by its CR3; pages are used again, so a space here may be several, one after the other."""
    said, true, borders = collections.Counter(), collections.Counter(), collections.Counter()
    late = []  # borders at which the two disagree for long: (ns, space, RMID in the measure, RMID programmed)
    for cpu, measures in events.measures.items():
        segments, at = truth.segments[cpu], 0
        for start, end, rmid in sorted(measures):
            start, end = start + offset, end + offset
            while at < len(segments) and segments[at][1] <= start:
                at += 1
            here = at
            while here < len(segments) and segments[here][0] < end:
                begin, until, space, programmed = segments[here]
                ns = min(end, until) - max(start, begin)
                if rmid != programmed and ns > HOST_TOOK_CPU_NS:
                    late.append((ns, space, rmid, programmed))
                else:
                    said[space, rmid] += ns
                    true[space, programmed] += ns
                borders[space] += 1
                here += 1
    spaces = {space for space, rmid in said if rmid} | {space for space, rmid in true if rmid}
    pairs = {pair for pair in said.keys() | true.keys() if pair[1]}
    all_ns = sum(ns for (_, rmid), ns in true.items() if rmid)
    differ_ns = sum(abs(said[pair] - true[pair]) for pair in pairs) + sum(ns for ns, *_ in late)
    # The register is written some emulated microseconds after the measure was stamped, and CR3 after that. Now and then
    # the host takes the CPU away in between, for a time slice: such a border is counted, not added to the sums.
    wrong = [pair for pair in pairs if abs(said[pair] - true[pair]) > 20_000 * borders[pair[0]] + true[pair] // 20]
    for space, rmid in wrong:
        print(f"      address space {space} under RMID {rmid}: {said[space, rmid]} ns, in truth {true[space, rmid]}")
    for ns, space, rmid, programmed in sorted(late)[-5:]:
        print(f"      address space {space}: {ns} ns under RMID {programmed}, when RMID {rmid} was said")
    nr_borders = sum(borders.values())
    claim(len(late) <= 2 + nr_borders // 2000, f"address spaces: {len(late)} of {nr_borders} borders are late")
    claim(len(wrong) <= len(pairs) // 50, f"address spaces: {len(wrong)} of {len(pairs)} under an RMID are off")
    claim(len(spaces) > 10 and differ_ns < all_ns / 20,
          f"address spaces: {len(spaces)} under {len(pairs)} RMIDs in all, {all_ns} ns, {100 * differ_ns / max(all_ns, 1):.2f}% differ")


def check_statuses(rows, header, expected):
    count = collections.Counter(row["rdt_status"] for row in rows if row["kind"] == "user")
    share = count["ok"] / max(1, sum(count.values()))
    claim(share >= expected, f"rdt_status of user rows: {dict(count)}")
    claim(header.get("identity", "").startswith("holds"), f"identity {header.get('identity', 'is missing')[:60]}")


def check_happened(machine, truth, rows, nr_reuses):
    """That which the machine is for did happen."""
    if machine == "wrap":
        last, wraps = {}, 0
        for _, vcpu, rmid, event, value in sorted(truth.reads):
            if EVENT[event] == "total" and not value >> 62:
                key = truth.domain_of[vcpu], rmid
                wraps += value < last.get(key, 0)
                last[key] = value
        claim(wraps > 0, f"{wraps} times a counter went round between two reads")
    elif machine == "unavailable":
        said, shown = sum(v["ctr_unavail"] for v in truth.log["vcpus"]), sum(r["rdt_status"] == "unavailable" for r in rows)
        claim(said > 0 and shown > 0, f"{said} reads said Unavailable, {shown} rows say so")
    elif machine == "exhausted":
        none = sum(row["kind"] == "unassigned" for row in rows)
        claim(none > 0, f"{none} rows of processes without an RMID")
    elif machine == "few":
        claim(nr_reuses > 20, f"{nr_reuses} reuses")
    elif machine in ("sockets", "clusters"):
        domains = set(truth.domain_of.values())
        claim(len(domains) == 2, f"domains {sorted(domains)}")


def main():
    folder = Path(sys.argv[1])
    truth, events, rows, header = Truth(folder), Events(folder), rows_of(folder), header_of(folder)
    gp = sum(v["pqr_gp"] + v["evtsel_gp"] + v["ctr_gp"] for v in truth.log["vcpus"])
    claim(gp == 0, f"the CPUs refused {gp} writes")
    claim(truth.closids <= {0}, f"CLOSIDs written: {sorted(truth.closids)}")
    same = sum(v["pqr_same"] for v in truth.log["vcpus"])
    writes = sum(v["pqr_writes"] for v in truth.log["vcpus"])
    claim(same * 20 <= writes, f"PQR_ASSOC: {writes} writes, {same} of them changed nothing")
    offset = find_offset(truth, events)
    if truth.config["events"] & 2:
        check_bandwidth(truth, events, rows, offset, "mbm_total_bytes", truth.config["total_rate"])
    if truth.config["events"] & 4:
        check_bandwidth(truth, events, rows, offset, "mbm_local_bytes", truth.config["local_rate"])
    for bit, column in ((2, "mbm_total_bytes"), (4, "mbm_local_bytes")):
        if not truth.config["events"] & bit:
            claim(not any(row[column] for row in rows), f"{column}: not counted, and empty")
    if truth.config["events"] & 1:
        check_occupancy(truth, rows)
        check_readings(truth, rows, offset)
    check_spaces(truth, events, offset)
    nr_reuses = check_reuse(truth, events, offset)
    check_statuses(rows, header, float(sys.argv[2]))
    check_happened(sys.argv[3], truth, rows, nr_reuses)
    sys.exit(failed)


main()
