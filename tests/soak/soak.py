#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""soak.py BUILD_FOLDER [SECONDS]: months of a recorder's life in minutes. Needs root, and puts nothing outside a
temporary folder.

A recorder with a small ring, a segment per second, a consumer's socket and metrics records a machine on which processes are born
by the thousand, CUDA libraries come and go as files of their own, the disk is full now and then, consumers connect and
leave, incidents are asked for, helpers of the load are killed, and the recorder itself stands still for a moment. After each of four
quarters of that time all that ends, until the recorder has let go of it, and the last rest is compared with the second: what is
in use of its heap at most 1% more (and what is resident 5% more than in both of the first two), not one file descriptor (the fewest of a rest), mapping or thread more; and of the quarters before them, CPU time per event at most 5% more.
(The first is for what is made once.) Then nothing may be lost but what is counted, no segment may be damaged, and the recording must say that its
identity holds, and each load must have come to its numbers. CPU time is by that of a fixed piece of work that is measured beside it
all the time: a host that gives less is no growth. SOAK_LOADS=births,libraries does these alone, to see whose fault it is; SOAK_CLOCK=1 also steps the machine's
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
import zlib

import recorder as recorder_process

build = os.path.abspath(sys.argv[1])
seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 600
DISK = 48 << 20
REST_S = 12  # without a change: probes of libraries that are gone are looked for every 5 s
# What is resident has pages of which bursts have left a part in use: they come and go by some percent.
MAX_MORE = {"heap": 0.01, "memory": 0.05, "fds": 0, "maps": 0, "threads": 0, "cpu": 0.05}
# What each load comes to in 100 s at least: a quarter of what two slow CPUs do.
LEAST = {"processes": 150_000, "libraries": 250, "full disks": 2, "kills": 40, "consumers": 200, "incidents": 5, "pauses": 2, "clock steps": 5}
COUNTS_OF = {"births": "processes", "killed": "kills", "full_disks": "full disks", "clock_steps": "clock steps"}
work = tempfile.mkdtemp(prefix="slotscope-soak.")
disk = f"{work}/disk"
recording = f"{disk}/soak.rec"
metrics_port = 20000 + os.getpid() % 20000
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
                consumer.connect(f"{work}/remediate.sock")
                consumer.settimeout(0.5)
                consumer.recv(random.choice([1, 4096]))
        except OSError:
            pass
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=2).read()
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
        recorder.send_signal(signal.SIGUSR2)
        counts["incidents"] += 1


def pauses():
    while not done.wait(random.uniform(10, 20)):
        recorder.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.05, 0.3))
        recorder.send_signal(signal.SIGCONT)
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


def run(one):
    try:
        one()
    except Exception as error:  # pylint: disable=broad-except
        fail(f"{one.__name__}: {error!r}")


reference_ns = []  # CPU time of that piece of work, in this quarter


def measure_reference():
    text = bytes(random.Random(1).randbytes(1 << 16)) * 4
    while not done.wait(0.3):
        begin_ns = time.thread_time_ns()
        zlib.compress(text, 6)
        reference_ns.append(time.thread_time_ns() - begin_ns)


Look = collections.namedtuple("Look", recorder_process.Look._fields + ("kinds", "reference_ns"))


def look():
    now = recorder_process.look(recorder.pid, metrics_port)
    return Look(*now, kinds(f"/proc/{recorder.pid}/fd", now.rss_kb), sum(reference_ns) / max(1, len(reference_ns)))


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


def quarter():
    """A quarter of the time with everything; then a rest. Looks at the beginning, at the end, and after the rest."""
    done.clear()
    reference_ns.clear()
    threads = [threading.Thread(target=run, args=(one,)) for one in LOADS + [measure_reference]]
    begin = look()
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds / 4
    while time.monotonic() < end and recorder.poll() is None:
        time.sleep(0.2)
    done.set()
    for thread in threads:
        thread.join()
    if recorder.poll() is not None:
        raise ChildProcessError(f"the recorder ended with {recorder.returncode}")
    loaded = look()
    rest, since = look(), time.monotonic()
    at_rest = []  # of a frame that is being filled there is more or less; a segment that ends is open once more
    while time.monotonic() - since < REST_S and time.monotonic() - end < 5 * REST_S:
        time.sleep(1)
        now = look()
        if (now.fds, now.maps, now.threads) != (rest.fds, rest.maps, rest.threads):
            since = time.monotonic()
        rest = now
        at_rest.append(now)
    at_rest = at_rest[-int(REST_S):]
    return begin, loaded, rest._replace(heap=min(one.heap for one in at_rest), fds=min(one.fds for one in at_rest))


def show(quarters):
    print(f"{'quarter':>7} {'events':>10} {'heap MB':>8} {'memory MB':>10} {'fds':>6} {'maps':>6} {'threads':>8} {'CPU ns/event':>13} {'by reference':>13}")
    rows = []
    for number, (begin, loaded, rest) in enumerate(quarters, 1):
        events = loaded.events - begin.events
        row = {key: getattr(rest, key) for key in ("heap", "memory", "fds", "maps", "threads")}
        cpu_ns = (loaded.cpu_ns - begin.cpu_ns) / max(1, events)
        row["cpu"] = 1e6 * cpu_ns / loaded.reference_ns
        rows.append(row)
        print(f"{number:>7} {events:>10.0f} {row['heap']:>8.2f} {row['memory']:>10.1f} {row['fds']:>6} {row['maps']:>6} {row['threads']:>8} {cpu_ns:>13.0f} {row['cpu']:>13.0f}")
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
    before, after = quarters[1][2].kinds, quarters[3][2].kinds
    print("from the second rest to the last: " + ", ".join(f"{kind} {before[kind]} -> {after[kind]}" for kind in
                                                         sorted(before | after) if before[kind] != after[kind]))


signal.signal(signal.SIGTERM, lambda *_: sys.exit("soak.py: it was told to end"))
os.mkdir(disk)
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
try:
    log = open(f"{work}/log", "wb")
    recorder = subprocess.Popen(
        [f"{build}/slotscope", "record", "--gpu", "on", "--output", recording, "--keep", "24h,16M", "--segment", "1", "--max-overhead",
         "100", "--trigger", "wait=50ms", f"--remediate={work}/remediate.sock", f"--metrics=127.0.0.1:{metrics_port}"],
        # What threads keep of what was freed counts as in use: some MB, now of these sizes and then of those.
        stdout=log, stderr=log, env=dict(os.environ, GLIBC_TUNABLES="glibc.malloc.tcache_count=0"))
    while b"recording to" not in open(f"{work}/log", "rb").read():
        if recorder.poll() is not None:
            sys.exit(f"soak.py: {open(f'{work}/log').read()}")
        time.sleep(0.1)
    looks = [quarter() for _ in range(4)]
    recorder.send_signal(signal.SIGINT)
    code = recorder.wait(timeout=120)
    if code != 0:
        fail(f"the recorder's exit code is {code}")
    print(f"soak of {seconds} s: " + ", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    compare(looks)
    for load in LOADS:
        what = COUNTS_OF.get(load.__name__, load.__name__)
        if what in LEAST and counts[what] < LEAST[what] * seconds / 100:
            fail(f"{counts[what]} {what} are too few to say anything")
    for problem in recorder_process.problems_of(recording):
        fail(problem)
    if failures:
        print(open(f"{work}/log", errors="replace").read()[-6000:])
finally:
    done.set()
    if recorder.poll() is None:
        recorder.kill()
    subprocess.run(["umount", "-l", disk], check=False)
    shutil.rmtree(work, ignore_errors=True)
print("FAIL" if failures else "PASS")
sys.exit(bool(failures))
