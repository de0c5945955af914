# SPDX-License-Identifier: MIT
"""What the CPUs really did: the emulator's log and trace (see README.md). Times are the emulator's, in ns."""
import bisect
import collections
import json

EVENT = {1: "llc", 2: "total", 3: "local"}
COLUMN = {"total": "mbm_total_bytes", "local": "mbm_local_bytes", "llc": "llc_occupancy_bytes"}
FOREVER = 1 << 62


class Spans:
    """Times at which one CPU did one thing, in order."""

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


class SpansOf:
    """By key (an RMID, a process) and vCPU."""

    def __init__(self):
        self.spans = collections.defaultdict(lambda: collections.defaultdict(Spans))

    def append(self, key, vcpu, begin, end):
        self.spans[key][vcpu].append(begin, end)

    def ns(self, key, begin, end):
        """On all CPUs, each counts."""
        return sum(spans.until(end) - spans.until(begin) for spans in self.spans[key].values())

    def gap_ns(self, key, freed):
        """From the last time before `freed` to the first time after that."""
        around = [spans.around(freed) for spans in self.spans[key].values()]
        return min((after for _, after in around), default=FOREVER) - max((before for before, _ in around), default=-FOREVER)


class Emulator:
    def __init__(self, folder):
        self.log = json.loads((folder / "truth.json").read_text())
        self.config = self.log["config"]
        self.domain_of = {v["vcpu"]: v["domain"] for v in self.log["vcpus"]}
        self.rmids = SpansOf()  # while a vCPU computes under one
        self.segments = collections.defaultdict(list)  # vcpu -> [(from, to, rmid)], while it computes
        self.reads = []  # (time, vcpu, rmid, event, value)
        self.writes = collections.defaultdict(list)  # vcpu -> [time] of PQR_ASSOC
        self.closids = set()
        cpus = {}
        for line in (folder / "trace").read_text().splitlines():
            kind, time, *rest = line.split()
            if kind == "C":  # which address space does not matter here
                continue
            time, field = int(time), dict(word.split("=") for word in rest)
            vcpu = int(field["cpu"])
            if kind == "R":
                self.reads.append((time, vcpu, int(field["rmid"]), int(field["evt"]), int(field["val"], 16)))
                continue
            state = cpus.setdefault(vcpu, {"since": time, "rmid": 0, "busy": False})
            if state["busy"] and time > state["since"]:
                if state["rmid"]:
                    self.rmids.append(state["rmid"], vcpu, state["since"], time)
                self.segments[vcpu].append((state["since"], time, state["rmid"]))
            state["since"] = time
            if kind == "W":
                state["rmid"] = int(field["new"])
                self.writes[vcpu].append(time)
                self.closids.add(int(field["clos"]))
            elif kind in "HB":
                state["busy"] = kind == "B"
            elif kind == "I":
                state["rmid"] = 0
        self.reads.sort()

    def sum(self, counter):
        return sum(vcpu[counter] for vcpu in self.log["vcpus"])

    def rate(self, event):
        """Bytes per us of a CPU."""
        return self.config[f"{event}_rate"]
