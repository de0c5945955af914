#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""live.py BUILD_FOLDER [ROUNDS]: what it costs a machine to be watched. Needs root.

Two processes hand a byte to and fro on one CPU; their CPU time per switch without a recorder and with one, alternated,
gives pairs, and the median of their differences is what one switch costs; and with and without the accounting of waiting, what that adds. The same with a call of a CUDA function that does next to
nothing, in a stand-in library. Then the CPU time of the recorder on a busy machine, and whether anything
is lost at 100 000 switches per second and CPU. First of all, what it takes on an idle one, and how old slots are when they are
finished."""
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

build = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
SECONDS = 1.0
work = tempfile.mkdtemp(dir=build)
slotscope = [f"{build}/slotscope", "record", "--output", f"{work}/slots.csv", "--max-overhead", "100"]
RECORDERS = {
    "slotscope, bpf": slotscope + ["--source", "bpf"],
    "slotscope, kmod": slotscope + ["--source", "kmod"],
    "perf record -e sched:sched_switch": ["perf", "record", "-q", "-a", "-e", "sched:sched_switch", "-o", f"{work}/p"],
    "perf sched record": ["perf", "sched", "record", "-q", "-o", f"{work}/s"],
    "bpftrace, empty": ["bpftrace", "-q", "-e", "tracepoint:sched:sched_switch { $a = 1 }"],
    "bpftrace count": ["bpftrace", "-q", "-e", "tracepoint:sched:sched_switch { @ = count(); }"],
}
LIBCUDA = os.path.abspath(f"{build}/standin/libcuda.so.1")
CALL = "cuCtxSetCurrent"
CALL_RECORDERS = {
    "slotscope, a message a call": slotscope + ["--gpu", "on"],
    "bpftrace, entry and return, empty": [
        "bpftrace", "-q", "-e", f"uprobe:{LIBCUDA}:{CALL} {{ $a = 1 }} uretprobe:{LIBCUDA}:{CALL} {{ $a = 1 }}"],
    "bpftrace, entry and return, counted": [
        "bpftrace", "-q", "-e", f"uprobe:{LIBCUDA}:{CALL} {{ @a = count() }} uretprobe:{LIBCUDA}:{CALL} {{ @b = count() }}"],
}


def usable(name, command):
    if not shutil.which(command[0]):
        return f"{command[0]} is not installed"
    if "kmod" in name and not os.path.exists("/proc/slotscope/info"):
        return "the kernel module is not loaded"
    return None


class Recorder:
    """Runs while the with block does; after it, cpu_s is its CPU time, and start_s what it took until it recorded."""

    def __init__(self, command):
        self.command = command

    def __enter__(self):
        self.log = open(f"{work}/log", "wb")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        for _ in range(200):
            time.sleep(0.01)
            if b"recording" in open(f"{work}/log", "rb").read():
                break
        self.start_s = self.cpu_time()
        time.sleep(1.5)  # it attaches; nothing is timed yet
        if self.process.poll() is not None:
            sys.exit(f"live.py: {' '.join(self.command)} ended: {open(f'{work}/log').read()}")
        self.before = self.cpu_time()
        return self

    def cpu_time(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __exit__(self, *_):
        self.cpu_s = self.cpu_time() - self.before
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.log.close()


def pingpong(cpu=1, seconds=SECONDS, per_second=0):
    command = [f"{build}/pingpong", str(cpu), str(seconds)] + ([str(per_second)] if per_second else [])
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def cuda_calls():
    return subprocess.Popen([f"{build}/cudacalls", LIBCUDA, str(SECONDS)], stdout=subprocess.PIPE)


def ns_each(process):
    ns, times = process.communicate()[0].split()
    return int(ns) / int(times)


def cost(what, recorders, work_load):
    print(f"\n{what}, watched ({rounds} pairs of {SECONDS:g} s, medians)")
    print(f"{'recorder':<36} {'alone ns':>9} {'watched ns':>11} {'added ns':>9} {'spread':>15} {'ratio':>6}")
    for name, command in recorders.items():
        if reason := usable(name, command):
            print(f"{name:<36} SKIP: {reason}")
            continue
        pairs = []
        for _ in range(rounds):
            alone = ns_each(work_load())
            with Recorder(command):
                watched = ns_each(work_load())
            pairs.append((alone, watched))
        added = sorted(watched - alone for alone, watched in pairs)
        print(f"{name:<36} {statistics.median(p[0] for p in pairs):>9.0f} {statistics.median(p[1] for p in pairs):>11.0f} "
              f"{statistics.median(added):>9.0f} {f'{added[0]:.0f}..{added[-1]:.0f}':>15} "
              f"{statistics.median(p[1] / p[0] for p in pairs):>6.2f}")


def median_interval(values):
    """Where the median is with a confidence of 95%, whatever the distribution: between two of the values."""
    values, rank, tail = sorted(values), 0, 0.0
    while tail + math.comb(len(values), rank) / 2 ** len(values) <= 0.025:
        tail += math.comb(len(values), rank) / 2 ** len(values)
        rank += 1
    return values[rank - 1], values[-rank]


def waits_cost(nr_pairs=21):
    """The accounting of waiting: both recorders' switches, alternated."""
    command = RECORDERS["slotscope, bpf"]
    print(f"\nWho waited for whom: ns per switch more than with --no-waits ({nr_pairs} pairs of {SECONDS:g} s)")
    print(f"{'without ns':>10} {'with ns':>8} {'added ns':>9} {'95% interval':>15}")
    pairs = []
    for _ in range(nr_pairs):
        times = []
        for more in (["--no-waits"], []):
            with Recorder(command + more):
                times.append(ns_each(pingpong()))
        pairs.append(times)
    added = [after - before for before, after in pairs]
    low, high = median_interval(added)
    print(f"{statistics.median(p[0] for p in pairs):>10.0f} {statistics.median(p[1] for p in pairs):>8.0f} {statistics.median(added):>9.0f} "
          f"{f'{low:.0f}..{high:.0f}':>15}")


def counters(path):
    result = {}
    for line in open(path):
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            result[key] = value.strip()
    return result


def recorder_cost(seconds=5):
    print(f"\nThe recorder's own CPU time, % of one CPU, over {seconds} s; messages that were lost")
    print(f"{'machine':<44} {'recorder':<16} {'CPU %':>6} {'messages/s':>11} {'lost':>6} {'lost ns':>9}")
    nr_cpus = os.cpu_count()
    loads = {"idle": 0, f"{20_000} switches/s on each of {nr_cpus} CPUs": 20_000,
             f"{100_000} switches/s on each of {nr_cpus} CPUs": 100_000}
    for name, command in RECORDERS.items():
        if "slotscope" not in name or usable(name, command):
            continue
        for load, per_second in loads.items():
            with Recorder(command) as recorder:
                running = [pingpong(cpu, seconds, per_second) for cpu in range(nr_cpus) if per_second]
                for process in running:
                    process.wait()
                if not running:
                    time.sleep(seconds)
            counts = counters(f"{work}/slots.csv")
            print(f"{load:<44} {name:<16} {recorder.cpu_s / seconds * 100:>6.1f} "
                  f"{int(counts['messages']) / (int(counts['slots']) / 1000):>11.0f} {counts['lost_records']:>6} "
                  f"{counts['lost_ns']:>9}")


def thread_ns(pid):
    """The CPU time of each of its threads so far, by name."""
    folder = f"/proc/{pid}/task"
    return {open(f"{folder}/{thread}/comm").read().strip(): int(open(f"{folder}/{thread}/schedstat").read().split()[0])
            for thread in os.listdir(folder)}


def wake_ups(pid):
    return sum(int(line.split()[1]) for thread in os.listdir(f"/proc/{pid}/task")
               for line in open(f"/proc/{pid}/task/{thread}/status") if line.startswith("voluntary"))


def program_ns(pid):
    """Run time of the BPF programs that it has open."""
    return sum(int(line.split()[1]) for fd in os.listdir(f"/proc/{pid}/fdinfo")
               for line in open(f"/proc/{pid}/fdinfo/{fd}") if line.startswith("run_time_ns"))


def timer_interrupts():
    return sum(int(word) for line in open("/proc/interrupts") if line.split()[0] == "LOC:"
               for word in line.split()[1:] if word.isdigit())


def idle_cost(seconds=10):
    """What a recorder takes while nothing happens; the kernel's statistics of programs are on while they are read."""
    print(f"\nIdle, over {seconds} s: % of one CPU")
    print(f"{'recorder':<20} {'threads':>8} {'BPF':>6} {'sum':>6} {'wake-ups/s':>11} {'start, CPU s':>13} "
          f"{'timer interrupts/s':>19} {'without':>8}")
    before = timer_interrupts()
    time.sleep(seconds)
    alone = (timer_interrupts() - before) / seconds
    for name, command in RECORDERS.items():
        if "slotscope" not in name or usable(name, command):
            continue
        with Recorder(command) as recorder:
            pid = recorder.process.pid
            start_s = recorder.start_s
            time.sleep(3)  # it takes some rounds to find that little comes
            values = []
            for stats in "1", "0":
                open("/proc/sys/kernel/bpf_stats_enabled", "w").write(stats)
                then = thread_ns(pid), wake_ups(pid), program_ns(pid), timer_interrupts()
                time.sleep(seconds)
                now = thread_ns(pid), wake_ups(pid), program_ns(pid), timer_interrupts()
                values.append([{thread: (ns - then[0].get(thread, 0)) / seconds / 1e7 for thread, ns in now[0].items()}] +
                              [(b - a) / seconds for a, b in zip(then[1:], now[1:])])
            threads, woken, _, interrupts = values[1]
            programs = values[0][2] / 1e7
            print(f"{name:<20} {sum(threads.values()):>8.2f} {programs:>6.2f} {sum(threads.values()) + programs:>6.2f} "
                  f"{woken:>11.1f} {start_s:>13.2f} {interrupts:>19.0f} {alone:>8.0f}")
            print("    " + ", ".join(f"{thread} {percent:.2f}" for thread, percent in threads.items()))


def scrape(port):
    """Seconds from slots' ends until they were finished: how many slots, the sum, and how many within each bound."""
    name = "slotscope_slot_latency_seconds"
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    value = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)}
    within = {float(key.split('"')[1]): nr for key, nr in value.items() if "_bucket" in key}
    return value[f"{name}_count"], value[f"{name}_sum"], within


def slot_latency(seconds=5):
    """How old a slot is when those hear of it who act on it; with --remediate one is connected."""
    print(f"\nFrom a slot's end until it is finished, over {seconds} s")
    print(f"{'machine':<44} {'recorder':<24} {'mean ms':>8} {'99% within ms':>14}")
    nr_cpus, port = os.cpu_count(), 20_000 + os.getpid() % 20_000
    for load, per_second in {"idle": 0, f"{20_000} switches/s on each of {nr_cpus} CPUs": 20_000}.items():
        for name, more in {"nobody": [], "--window 2": ["--window", "2"], "--remediate": [f"--remediate={work}/remediate.sock"]}.items():
            with Recorder(RECORDERS["slotscope, bpf"] + more + [f"--metrics=127.0.0.1:{port}"]):
                with socket.socket(socket.AF_UNIX) as consumer:
                    if name == "--remediate":
                        consumer.connect(f"{work}/remediate.sock")
                    time.sleep(2)  # rounds get quiet
                    running = [pingpong(cpu, seconds + 1, per_second) for cpu in range(nr_cpus) if per_second]
                    time.sleep(0.5)
                    before = scrape(port)
                    time.sleep(seconds)
                    after = scrape(port)
                    for process in running:
                        process.communicate()
            nr, sum_s = after[0] - before[0], after[1] - before[1]
            most_s = next(bound for bound in sorted(after[2]) if after[2][bound] - before[2][bound] >= 0.99 * nr)
            print(f"{load:<44} {name:<24} {sum_s / nr * 1e3:>8.1f} {most_s * 1e3:>14g}")


try:
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(LIBCUDA)  # the recorder probes it at its start
    idle_cost()
    slot_latency()
    cost("A switch", RECORDERS, pingpong)
    waits_cost()
    cost("A CUDA call", CALL_RECORDERS, cuda_calls)
    recorder_cost()
finally:
    shutil.rmtree(work)
