# SPDX-License-Identifier: MIT
"""What was said in the guest: the module's tracepoints, the scheduler's own, and the collector's rows. Times are the
guest's CLOCK_MONOTONIC, in ns."""
import collections
import csv
import re


class Lease:
    """An RMID in the hands of one process."""

    def __init__(self, tgid):
        self.tgid, self.begin, self.end = tgid, None, None  # None: before, or after, what was traced


class Module:
    def __init__(self):
        self.samples = []
        self.leases = {}  # (rmid, generation) -> Lease
        self.two_owners = 0  # messages that name another process than an earlier one of the same lease

    def add(self, event, field):
        if event == "ss_rdt_sample":
            self.samples.append(field)
            return
        if not field["rmid"]:
            return
        lease = self.leases.setdefault((field["rmid"], field["generation"]), Lease(field["tgid"]))
        self.two_owners += lease.tgid != field["tgid"]
        if event == "ss_rmid_alloc":
            lease.begin = field["ts_ns"]
        elif event == "ss_rmid_free":
            lease.end = field["ts_ns"]

    def leases_of(self):
        """rmid -> its leases, in order."""
        leases = collections.defaultdict(list)
        for (rmid, _), lease in sorted(self.leases.items()):
            leases[rmid].append(lease)
        return leases


class Guest:
    def __init__(self, folder):
        self.module = Module()
        self.switches = collections.defaultdict(list)  # cpu -> [(ts, tgid)]
        # The module's probe comes behind the tracer's, and the CPU may be taken away between the two clocks.
        self.behind_ns = []  # so far, of each switch
        self.clocks_apart_ns = collections.Counter()  # tgid -> ns, in all switches from it and to it
        tgid_of = {0: 0}
        for line in (folder / "tgids").read_text().splitlines():
            pid, tgid = line.split()
            tgid_of[int(pid)] = int(tgid)
        pattern = re.compile(r" \[(\d+)\] +(\d+)\.(\d+): (\w+): (.*)")
        for line in (folder / "events").read_text().splitlines():
            match = pattern.search(line)
            if not match:
                continue
            cpu, event = int(match[1]), match[4]
            if event == "sched_switch":
                pid = int(line.rsplit("next_pid=", 1)[1].split()[0])
                self.switches[cpu].append((int(match[2] + match[3]) * 1000, tgid_of.get(pid, pid)))
            else:
                field = {key: int(value, 0) for key, value in (word.split("=") for word in match[5].split())}
                self.module.add(event, field)
                if event == "ss_measure" and field["next_tgid"] != field["tgid"] and self.switches[cpu]:
                    self.behind_ns.append(field["ts_ns"] - self.switches[cpu][-1][0])
                    for tgid in (field["tgid"], field["next_tgid"]):
                        self.clocks_apart_ns[tgid] += self.behind_ns[-1]
        text = (folder / "slots.csv").read_text().splitlines()
        self.rows = list(csv.DictReader(line for line in text if not line.startswith("#")))
        self.header = dict(line[2:].split(": ", 1) for line in text if line.startswith("# ") and ": " in line)
        self.info = dict(line.split(": ", 1) for line in (folder / "info").read_text().splitlines() if ": " in line)
        busy = (folder / "busy").read_text() if (folder / "busy").exists() else ""
        self.busy_tgid = busy.split()[1] if busy else None  # as rows have it; lost time has none
