# SPDX-License-Identifier: MIT
"""From the guest's clock to the emulator's: what most pairs of a sample and a read of the same counter agree on. The
guest's clock counts by a frequency that it has measured when it booted, so the two drift apart."""
import bisect
import collections

WINDOW_NS = 500_000_000
COARSE_NS, FINE_NS, DRIFT_NS = 500_000, 10_000, 400_000


class Clock:
    def __init__(self, samples, reads):
        times = collections.defaultdict(list)
        for time, _, rmid, event, _ in reads:
            times[rmid, event].append(time)
        windows = collections.defaultdict(list)
        for sample in samples:
            windows[sample["ts_ns"] // WINDOW_NS].append(sample)
        self.at, self.offsets, self.nr_samples, self.nr_fit = [], [], 0, 0
        offset = self._coarse(windows[min(windows, key=lambda w: (len(windows[w]) < 500, w))], times)
        for _, some in sorted(windows.items()):
            bins = collections.Counter()
            for sample in some:
                mine = times[sample["rmid"], sample["event"]]
                low = bisect.bisect_left(mine, sample["ts_ns"] + offset - DRIFT_NS)
                for time in mine[low:bisect.bisect_right(mine, sample["ts_ns"] + offset + DRIFT_NS)]:
                    bins[(time - sample["ts_ns"]) // FINE_NS] += 1
            if not bins or bins.most_common(1)[0][1] < 20:
                continue
            (best, count), = bins.most_common(1)
            offset = best * FINE_NS + FINE_NS // 2
            self.nr_samples += len(some)
            self.nr_fit += count + bins[best - 1] + bins[best + 1]
            self.at.append(sum(sample["ts_ns"] for sample in some) // len(some))
            self.offsets.append(offset)

    @staticmethod
    def _coarse(samples, times):
        bins = collections.Counter()
        for sample in samples[::len(samples) // 500 + 1]:
            for time in times[sample["rmid"], sample["event"]]:
                bins[(time - sample["ts_ns"]) // COARSE_NS] += 1
        (best, _), = bins.most_common(1)
        return best * COARSE_NS + COARSE_NS // 2

    def emulator(self, guest_ns):
        """The emulator's time of a moment in the guest's."""
        at = min(max(bisect.bisect(self.at, guest_ns), 1), len(self.at) - 1)
        if len(self.at) == 1:
            return guest_ns + self.offsets[0]
        span, low = self.at[at] - self.at[at - 1], self.offsets[at - 1]
        return guest_ns + low + (self.offsets[at] - low) * (guest_ns - self.at[at - 1]) // span
