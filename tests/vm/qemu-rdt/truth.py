# SPDX-License-Identifier: MIT
"""Who ran when, by the guest's scheduler, and under which RMID, by the emulator. Times are the emulator's, in ns."""
import bisect
import collections

from emulator import FOREVER, SpansOf


class Truth:
    def __init__(self, emulator, switches, clock):
        self.processes = SpansOf()  # by tgid
        self.pieces = collections.defaultdict(list)  # vcpu -> [(from, to, tgid, rmid)], while it computes
        for vcpu, segments in emulator.segments.items():
            record = [(clock.emulator(ts), tgid) for ts, tgid in switches[vcpu]]
            times = [time for time, _ in record]
            for begin, end, rmid in segments:
                at = bisect.bisect_right(times, begin) - 1
                while begin < end:
                    until = min(end, times[at + 1]) if at + 1 < len(times) else end
                    if at >= 0 and begin < until:
                        tgid = record[at][1]
                        self.pieces[vcpu].append((begin, until, tgid, rmid))
                        if tgid:
                            self.processes.append(tgid, vcpu, begin, until)
                    begin, at = max(begin, until), at + 1


class Holders:
    """Who had which RMID when, by the module."""

    def __init__(self, module, clock):
        self.rmids, self.tgids = collections.defaultdict(list), collections.defaultdict(list)
        for (rmid, _), lease in sorted(module.leases.items()):
            begin = clock.emulator(lease.begin) if lease.begin else -FOREVER
            end = clock.emulator(lease.end) if lease.end else FOREVER
            self.rmids[rmid].append((begin, end, lease.tgid))
            self.tgids[lease.tgid].append((begin, end, rmid))
        for held in self.tgids.values():
            held.sort()

    @staticmethod
    def _at(held, time):
        at = bisect.bisect_right(held, (time, FOREVER, 0)) - 1
        return held[at][2] if at >= 0 and time < held[at][1] else 0

    def tgid(self, rmid, time):
        return self._at(self.rmids[rmid], time) if rmid in self.rmids else 0

    def rmid(self, tgid, time):
        return self._at(self.tgids[tgid], time) if tgid in self.tgids else 0

    def since(self, tgid, rmid, time):
        """When that process got it; 0: before anybody looked."""
        begins = [begin for begin, _, whose in self.rmids[rmid] if whose == tgid and begin <= time]
        return max(0, begins[-1]) if begins else 0
