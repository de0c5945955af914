#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""soak.py BUILD_FOLDER [SECONDS]: months of a recorder's life in minutes. Needs root, and puts nothing outside a
temporary folder.

A recorder with a small ring, a segment per second, a consumer's socket and metrics records a machine on which processes are born
by the thousand, CUDA libraries come and go as files of their own, the disk is full now and then, consumers connect and
leave, incidents are asked for, helpers of the load are killed, and the recorder itself stands still for a moment. After each of four
quarters of that time all that ends, until the recorder has let go of it, and the last rest is compared with the second: what is
in use of its heap at most 1% more (and what is resident 5% more than in both of the first two), not one file descriptor (the fewest of a rest), mapping or thread more.
(The first is for what is made once.) After each rest a second recorder is started, and both record the same churn for a while: of the CPU time
that the old one takes per event, as a share of what the new one takes, the last is at most 5% more than the second. (By itself it goes up and down by 10%
with what a quarter is made of, and with the host.) Then nothing may be lost but what is counted, no segment may be damaged, and the recording must say that its
identity holds, and each load must have come to its numbers. SOAK_LOADS=births,libraries does these alone, to see whose fault it is; SOAK_CLOCK=1 also steps the machine's
clock by up to 3 s, and back. Exit code 0 or 1."""
import collections
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import recorder as recorder_process

build = os.path.abspath(sys.argv[1])
seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 600
DISK = 48 << 20
REST_S = 20  # without a change: probes of libraries that are gone are looked for every 5 s
# What is resident has pages of which bursts have left a part in use: they come and go by some percent.
MAX_MORE = {"heap": 0.01, "memory": 0.05, "fds": 0, "maps": 0, "threads": 0, "cpu": 0.05}
# What each load comes to in 100 s at least: a quarter of what two slow CPUs do.
LEAST = {"processes": 150_000, "libraries": 250, "full disks": 2, "kills": 40, "consumers": 200, "incidents": 5, "pauses": 2, "clock steps": 5}
COUNTS_OF = {"births": "processes", "killed": "kills", "full_disks": "full disks", "clock_steps": "clock steps"}
work = tempfile.mkdtemp(prefix="slotscope-soak.")
disk = f"{work}/disk"
done = threading.Event()
counts = collections.Counter()
failures = []
random.seed(1)


def fail(text):
    failures.append(text)
    print(f"FAIL {text}")


def workload(*args, **more):
    return subprocess.Popen([f"{build}/live_tests", "--workload", *map(str, args)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **more)


def births():
    while not done.is_set():
        workload("storm", 500).wait()
        counts["processes"] += 500


def switches():
    while not done.is_set():
        workload("ping-pong", 20000).wait()
        done.wait(0.2)


def killed():
    while not done.is_set():
        victim = workload("busy", 60000, start_new_session=True)
        done.wait(random.uniform(0.1, 1))
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
        counts["kills"] += 1


def libraries():
    """Each time other files, so that probes are attached and detached."""
    while not done.is_set():
        folder = tempfile.mkdtemp(dir=work)
        for name in ("libcuda.so.1", "libcudart.so.13"):
            shutil.copy(f"{build}/standin/{name}", folder)
            counts["libraries"] += 1
        workload("cuda", random.choice([0, 1, 6]), env=dict(os.environ, LD_LIBRARY_PATH=folder)).wait()
        shutil.rmtree(folder)


def consumers():
    while not done.is_set():
        try:
            with socket.socket(socket.AF_UNIX) as consumer:
                consumer.connect(recorder.socket)
                consumer.settimeout(0.5)
                consumer.recv(random.choice([1, 4096]))
        except OSError:
            pass
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{recorder.port}/metrics", timeout=2).read()
        except OSError:
            pass
        counts["consumers"] += 2
        done.wait(random.uniform(0, 0.2))


def full_disks():
    while not done.wait(random.uniform(5, 15)):
        room = shutil.disk_usage(disk).free
        try:
            with open(f"{disk}/filler", "wb") as filler:
                for _ in range(room // 65536 + 1):
                    filler.write(bytes(65536))
        except OSError:
            counts["full disks"] += 1
        done.wait(random.uniform(0.5, 2))
        os.remove(f"{disk}/filler")


def incidents():
    while not done.wait(random.uniform(2, 8)):
        recorder.process.send_signal(signal.SIGUSR2)
        counts["incidents"] += 1


def pauses():
    while not done.wait(random.uniform(10, 20)):
        recorder.process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.05, 0.3))
        recorder.process.send_signal(signal.SIGCONT)
        counts["pauses"] += 1


def clock_steps():
    """Of the whole machine's clock, so only if it is asked for: forth or back, and back to where it would be."""
    was_ns = time.time_ns() - time.monotonic_ns()
    while not done.wait(random.uniform(3, 10)):
        try:
            time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + random.choice([-1, 1]) * random.randrange(10**6, 3 * 10**9))
            done.wait(random.uniform(0.1, 1))
        finally:
            time.clock_settime_ns(time.CLOCK_REALTIME, was_ns + time.monotonic_ns())
        counts["clock steps"] += 2


LOADS = [load for load in (births, switches, killed, libraries, consumers, full_disks, incidents, pauses)
         if load.__name__ in os.environ.get("SOAK_LOADS", load.__name__).split(",")]
if os.environ.get("SOAK_CLOCK"):
    LOADS.append(clock_steps)
# What is the same all the time. The others stop a recorder, or are asked of it.
STEADY = [load for load in LOADS if load in (births, switches, killed, libraries)]
PEER_S = seconds / 16


def run(one):
    try:
        one()
    except Exception as error:  # pylint: disable=broad-except
        fail(f"{one.__name__}: {error!r}")


Look = collections.namedtuple("Look", recorder_process.Look._fields + ("kinds",))
# A quarter of the time: at its begin, at its end, and after the rest; then CPU ns per event of the recorder and of a new one.
Quarter = collections.namedtuple("Quarter", "begin end rest old_ns new_ns")


class Recorder:
    """One of everything, into a folder of that name; it runs when this is made."""

    def __init__(self, name, port):
        self.folder, self.socket, self.log_path, self.port = f"{disk}/{name}.rec", f"{work}/{name}.sock", f"{work}/{name}.log", port
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [f"{build}/slotscope", "record", "--gpu", "on", "--output", self.folder, "--keep", "24h,16M", "--segment", "1",
                 "--max-overhead", "100", "--trigger", "wait=50ms", f"--remediate={self.socket}", f"--metrics=127.0.0.1:{port}"],
                # What threads keep of what was freed counts as in use: some MB, now of these sizes and then of those.
                stdout=log, stderr=log, env=dict(os.environ, GLIBC_TUNABLES="glibc.malloc.tcache_count=0"))
        while "recording to" not in self.log():
            self.check_it_runs()
            time.sleep(0.1)

    def log(self):
        return open(self.log_path, errors="replace").read()

    def runs(self):
        return self.process.poll() is None

    def check_it_runs(self):
        if not self.runs():
            raise ChildProcessError(f"a recorder ended with {self.process.returncode}: {self.log()[-2000:]}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=120)
        if code != 0:
            fail(f"a recorder's exit code is {code}: {self.log()[-2000:]}")

    def look(self):
        now = recorder_process.look(self.process.pid, self.port)
        return Look(*now, kinds(f"/proc/{self.process.pid}/fd", now.rss_kb))


recorder = peer = None


def kinds(folder, rss_kb):
    """How many file descriptors of each kind, and kB of memory, of its own by mapping: to see what has grown."""
    nr = collections.Counter(rss_kb)
    name = ""
    for line in open(f"{os.path.dirname(folder)}/smaps"):
        words = line.split()
        if "-" in words[0]:
            name = os.path.basename(words[5]) if len(words) > 5 else f"{words[0][:-6]}*"
        elif words[0] == "Anonymous:":
            nr[f"own of {name}"] += int(words[1])
    for fd in os.listdir(folder):
        try:
            nr[re.sub(r"[0-9]+", "N", os.readlink(f"{folder}/{fd}").replace(work, ""))] += 1
        except OSError:
            pass  # closed meanwhile
    return nr


def under(loads, for_s):
    """That long with those loads. Looks at each recorder that runs, at its begin and at its end."""
    running = [one for one in (recorder, peer) if one]
    done.clear()
    threads = [threading.Thread(target=run, args=(one,)) for one in loads]
    begins = [one.look() for one in running]
    for thread in threads:
        thread.start()
    end = time.monotonic() + for_s
    while time.monotonic() < end and all(one.runs() for one in running):
        time.sleep(0.2)
    ends = [one.look() for one in running if one.runs()]
    done.set()
    for thread in threads:
        thread.join()
    for one in running:
        one.check_it_runs()
    return list(zip(begins, ends))


def rest():
    """Until nothing changes any more: what a crowd took goes back in steps, some of them seconds apart, and what those who ended
    have done in a minute is memory until it is over. What there is then, the least of what comes and goes."""
    begin = since = time.monotonic()
    minute_ends = begin + 60 - time.time() % 60 + 3
    last, least, looks = recorder.look(), float("inf"), []
    while time.monotonic() < minute_ends or (time.monotonic() - since < REST_S and time.monotonic() - begin < 10 * REST_S):
        time.sleep(1)
        now = recorder.look()
        if (now.fds, now.maps, now.threads) != (last.fds, last.maps, last.threads) or now.heap < least - 0.1:
            since, least = time.monotonic(), min(least, now.heap)
        last = now
        looks.append(now)
    return last._replace(heap=min(one.heap for one in looks), fds=min(one.fds for one in looks[-REST_S:]))


def cpu_per_event(begin, end):
    return (end.cpu_ns - begin.cpu_ns) / max(1, end.events - begin.events)


def beside_a_new_one():
    """CPU time per event of the recorder, and of one that has just begun, of the same events."""
    global peer  # pylint: disable=global-statement
    peer = Recorder("peer", recorder.port + 1)
    try:
        under(STEADY, PEER_S / 4)
        return [cpu_per_event(*looks) for looks in under(STEADY, PEER_S)]
    finally:
        peer.stop()
        shutil.rmtree(peer.folder)
        peer = None


def quarter():
    (loaded,) = under(LOADS, seconds / 4 - PEER_S)
    return Quarter(*loaded, rest(), *beside_a_new_one())


def show(quarters):
    print(f"{'quarter':>7} {'events':>10} {'heap MB':>8} {'memory MB':>10} {'fds':>6} {'maps':>6} {'threads':>8} {'CPU ns/event':>13} {'beside new':>11} {'new':>6} {'old/new':>8}")
    rows = []
    for number, one in enumerate(quarters, 1):
        row = {key: getattr(one.rest, key) for key in ("heap", "memory", "fds", "maps", "threads")}
        row["cpu"] = one.old_ns / one.new_ns
        rows.append(row)
        print(f"{number:>7} {one.end.events - one.begin.events:>10.0f} {row['heap']:>8.2f} {row['memory']:>10.1f} {row['fds']:>6} {row['maps']:>6} {row['threads']:>8} "
              f"{cpu_per_event(one.begin, one.end):>13.0f} {one.old_ns:>11.0f} {one.new_ns:>6.0f} {row['cpu']:>8.3f}", flush=True)
    return rows


def compare(quarters):
    rows = show(quarters)
    if not rows[1]["heap"]:
        fail("the recorder does not say how much of its heap is in use")
    for key, most in MAX_MORE.items():
        # What grows is more than in both of the first two; what comes and goes may have been little in the second.
        before, after = max(rows[0][key], rows[1][key]) if key == "memory" else rows[1][key], rows[3][key]
        if after > before * (1 + most):
            fail(f"{key}: {before:g} in the {'first half' if key == 'memory' else 'second quarter'}, {after:g} in the last, {100 * (after / before - 1):.1f}% more")
    before, after = quarters[1].rest.kinds, quarters[3].rest.kinds
    print("from the second rest to the last: " + ", ".join(f"{kind} {before[kind]} -> {after[kind]}" for kind in
                                                         sorted(before | after) if before[kind] != after[kind]))


signal.signal(signal.SIGTERM, lambda *_: sys.exit("soak.py: it was told to end"))
os.mkdir(disk)
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
try:
    recorder = Recorder("soak", 20000 + os.getpid() % 20000)
    looks = [quarter() for _ in range(4)]
    recorder.stop()
    print(f"soak of {seconds} s: " + ", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    compare(looks)
    for load in LOADS:
        what = COUNTS_OF.get(load.__name__, load.__name__)
        if what in LEAST and counts[what] < LEAST[what] * seconds / 100:
            fail(f"{counts[what]} {what} are too few to say anything")
    for problem in recorder_process.problems_of(recorder.folder):
        fail(problem)
    if failures:
        print(recorder.log()[-6000:])
finally:
    done.set()
    for one in (recorder, peer):
        if one and one.runs():
            one.process.kill()
    subprocess.run(["umount", "-l", disk], check=False)
    shutil.rmtree(work, ignore_errors=True)
print("FAIL" if failures else "PASS")
sys.exit(bool(failures))
