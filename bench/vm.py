#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vm.py BUILD_FOLDER KERNEL...: what the kernel module costs, in instructions.

Guests with one CPU whose clock counts instructions (QEMU -icount): the same run gives nearly the same numbers,
whatever else the host does. Nobody listens to the module's tracepoints. See vm-guest.sh for what runs there."""
import collections
import functools
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

NS_PER_INSTRUCTION = 16  # -icount shift=4
TICK_NS = 1_000_000
NAMES = {"kmod": "kmod", "empty-raw_tracepoint": "empty BPF raw tracepoint", "empty-tracepoint": "empty BPF tracepoint",
         "recorded-bpf": "slotscope record, bpf", "recorded-kmod": "slotscope record, kmod",
         "kmod-full": "kmod, table full"}
MOST_FOR_WAITS = 450  # a switch, by who is told why: 150 ns at three instructions a ns
here = Path(__file__).resolve().parent
top = here.parent
build = Path(sys.argv[1])


def line_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def guest(kernel, words, rdt=False):
    memory = "9G" if words[:1] == ["walk"] else "3G"
    command = [top / "tests/vm/guest.sh", "--quiet", "--count-instructions", "--smp", "1", "--mem", memory, "--timeout", "2400", "--append", "tsc=reliable",
               "--in", build / "instructions", "--in", build / "slotscope", "--in", here / "vm-guest.sh", "--in", build / f"kmod/{kernel}/slotscope.ko"]
    environment = None
    if words == ["waits"]:
        command += ["--in", changed("without-states")]
    if words == ["full"]:  # as many free lists as that, and one CPU that is there
        command += ["--in", changed("small"), "--qemu", "-smp 1,maxcpus=64"]
    if rdt:
        environment = {**os.environ, "QEMU": line_of(top / "tests/vm/qemu-rdt/build.sh")}
        command += ["--qemu", line_of(top / "tests/vm/qemu-rdt/run.sh", "--qemu-arguments") + ",rdt-max-rmid=511"]
    command += [kernel, "--", "sh", "vm-guest.sh", *words]
    for _ in range(4):  # 72: a defect of the emulator, see guest.sh
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if result.returncode != 72:
            break
    if result.returncode:
        sys.exit(f"vm.py: the guest ended with {result.returncode}: {result.stdout}")
    return [line.split() for line in result.stdout.splitlines()]


# By name: the file, what stands there once, and what stands there instead.
CHANGES = {
    # Its eBPF programs do not look at how a process leaves a CPU.
    "without-states": ("bpf/task.bpf.h", r"(static __always_inline __u32 ss_left_of\([^)]*\)\n\{\n).*?\n\}", r"\1\treturn 0;\n}"),
    # The eBPF source's tables have room for 600 processes, whatever pid_max is.
    "small": ("collector/ring/native_source.cc", r"return std::min\(pid_max, kMaxThreads\);", "return 600;"),
}


def changed_text(name):
    path, pattern, replacement = CHANGES[name]
    text, count = re.subn(pattern, replacement, (top / path).read_text(), flags=re.DOTALL)
    if count != 1:
        sys.exit(f"vm.py: in {path} there is no {pattern}")
    return path, text


@functools.cache
def changed(name):
    """A slotscope of which one place is another: it is built in a copy of the tree."""
    path, text = changed_text(name)
    copy = build.resolve() / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(top, copy, symlinks=True, ignore=lambda folder, _: ["build", ".git"] if Path(folder) == top else [])
    for made in ("obj", "bpf", "report", "ship"):  # from unchanged files
        shutil.copytree(build / made, copy / "build" / made)
    (copy / path).write_text(text)
    subprocess.run(["make", "-C", copy, "build/slotscope"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(copy / "build/slotscope", build / f"slotscope-{name}")
    shutil.rmtree(copy)
    return build / f"slotscope-{name}"


def instructions(ns):
    return ns / NS_PER_INSTRUCTION


class Measures:
    """Medians of what `measure` lines say, and what a case adds to the machine alone."""

    def __init__(self, lines):
        runs = collections.defaultdict(list)
        for word, *rest in lines:
            if word == "measure":
                runs[rest[0], int(rest[1]), int(rest[2])].append([int(field) for field in rest[3:]])
        self.runs = {key: [statistics.median(column) for column in zip(*values)] for key, values in runs.items()}

    def added(self, key):
        """Per switch, per tick, per life; ticks are taken off the others."""
        switch_ns, switches, compute_ns, life_ns, lives = self.runs[key]
        alone_switch, _, alone_compute, alone_life, _ = self.runs["alone", key[1], 0]
        per_tick = (compute_ns - alone_compute) / (compute_ns / TICK_NS)
        per_switch = (switch_ns - alone_switch - per_tick * switch_ns / TICK_NS) / switches
        per_life = (life_ns - alone_life - per_tick * life_ns / TICK_NS) / lives
        return [instructions(ns) for ns in (per_switch, per_tick, per_life)]

    def alone(self, processes):
        switch_ns, switches, _, life_ns, lives = self.runs["alone", processes, 0]
        return instructions(switch_ns / switches), instructions(life_ns / lives)


def check_targets(kernel, measures):
    """Nobody listens: a switch costs less than with an empty BPF tracepoint program and 150 more, however many processes."""
    empty, (few, many) = measures.added(("empty-tracepoint", 10, 0))[0], (measures.added(("kmod", n, 512))[0] for n in (10, 2000))
    for case, processes, rmids in measures.runs:
        if case == "kmod" and measures.added((case, processes, rmids))[0] >= empty + 150:
            failures.append(f"{kernel}: a switch costs more than {empty:.0f} + 150 with {processes} processes and {rmids} RMIDs")
    if many > few * 1.25:
        failures.append(f"{kernel}: a switch costs {few:.0f} with 10 processes and {many:.0f} with 2000")


def values_of(lines):
    return {rest[0]: int(rest[1]) for word, *rest in lines if word == "value"}


def program(lines, table):
    """Per run of the eBPF source's program of switches, with such a table of processes; or per switch."""
    rows = [rest for word, *rest in lines if word == "program"]
    return instructions(statistics.median(int(ns) / int(runs) for name, runs, ns in rows if name == table))


def show_row(measures, key, name, note=""):
    """What the case adds, and what there is without it."""
    case, processes, rmids = key
    switch, tick, life = measures.added(key)
    tick_text = "-" if case.startswith("empty") else f"{tick:.0f}"
    alone = "   ({:.0f}, {:.0f})".format(*measures.alone(processes))
    print(f"{name:28} {processes:4} {rmids or '-':>6} {switch:10.0f} {tick_text:>8} {life:8.0f}{alone}{note}")


def show(kernel):
    """As it is known, guest by guest: the last one takes long."""
    lines = guest(kernel, [])
    measures = Measures(lines)
    print(f"Instructions, kernel {kernel}, one CPU, nobody listens\n")
    print("added by                processes  RMIDs   a switch   a tick   a life   (alone: a switch, a life)")
    for key in measures.runs:
        if key[0] != "alone":
            show_row(measures, key, NAMES[key[0]])
    full_lines = guest(kernel, ["full"])
    full = Measures(full_lines)
    for key in full.runs:
        if key[0] != "alone":
            show_row(full, key, NAMES[key[0]], ", 64 possible CPUs")
    for table in ("room", "full"):
        print(f"{f'eBPF source, its program: {table}':39} {program(full_lines, table):10.0f}, 64 possible CPUs")
    waits_lines = guest(kernel, ["waits"])
    for source, suffix in (("eBPF source, its program", ""), ("a switch with module and relay", "-kmod")):
        waits, none = (program(waits_lines, name + suffix) for name in ("waits", "waits--no-waits"))
        print(f"{source + ': waits':39} {waits:10.0f}, {none:.0f} with --no-waits")
        if waits - none > MOST_FOR_WAITS:
            failures.append(f"{kernel}: {source}: telling waits costs {waits - none:.0f} a switch: more than {MOST_FOR_WAITS}")
    left = program(waits_lines, "waits") - program(waits_lines, "waits-without-states")
    print(f"{'eBPF source, its program: states':39} {left:10.0f}")
    hardware = Measures(guest(kernel, ["rdt"], rdt=True))
    for key in hardware.runs:
        if key[0] == "kmod":
            show_row(hardware, key, "kmod, RDT hardware")
    check_targets(kernel, measures)
    values = values_of(lines)
    longest = {rest[0]: [int(field) for field in rest[1:]] for word, *rest in lines if word == "longest"}
    tracer = instructions(longest.pop("ss_rmid_count")[1])  # which does nothing: it is all tracer
    print(f"\nlongest with interrupts off ({tracer:.0f} of it the function tracer's)")
    for name, (most_ns, _, count) in sorted(longest.items()):
        print(f"{name:28} {instructions(most_ns):8.0f} of {count} runs")
    print(f"\nmemory: {values['module_bytes'] / 1024:.0f} KB module, {values['table_bytes'] / 1024:.0f} KB table"
          f" of {values['process_slots']} slots\n")
    for walk in (values, *(values_of(guest(kernel, ["walk", *what])) for what in (("200", "1000"), ("2", "100000")))):
        print(f"{'the walk at load':28} {instructions(walk['walk_ns']):8.0f} for {walk['walk_threads']} threads, once, in {walk['walk_pieces']} pieces, "
              f"and {walk['walk_uncounted']} processes of too many, "
              f"all CPUs stopped for {walk['walk_longest_piece_ns'] / 1e6:.2f} ms at most")


sys.stdout.reconfigure(line_buffering=True)
failures = []
for name in CHANGES:
    changed_text(name)
for name in sys.argv[2:]:
    show(name)
for failure in failures:
    print(f"missed: {failure}")
sys.exit(bool(failures))
