#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vm.py BUILD_FOLDER KERNEL...: what the kernel module costs, in instructions.

Guests with one CPU whose clock counts instructions (QEMU -icount): the same run gives nearly the same numbers,
whatever else the host does. Nobody listens to the module's tracepoints. See vm-guest.sh for what runs there."""
import collections
import os
import statistics
import subprocess
import sys
from pathlib import Path

NS_PER_INSTRUCTION = 16  # -icount shift=4
TICK_NS = 1_000_000
NAMES = {"kmod": "kmod", "empty-raw_tracepoint": "empty BPF raw tracepoint", "empty-tracepoint": "empty BPF tracepoint",
         "recorded-bpf": "slotscope record, bpf", "recorded-kmod": "slotscope record, kmod"}
here = Path(__file__).resolve().parent
top = here.parent
build = Path(sys.argv[1])


def line_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def guest(kernel, words, rdt=False):
    command = [top / "tests/vm/guest.sh", "--quiet", "--count-instructions", "--smp", "1", "--mem", "3G", "--timeout", "900", "--append", "tsc=reliable",
               "--in", build / "instructions", "--in", build / "slotscope", "--in", here / "vm-guest.sh", "--in", build / f"kmod/{kernel}/slotscope.ko"]
    environment = None
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


def show(kernel, lines, rdt_lines):
    measures = Measures(lines)
    print(f"Instructions, kernel {kernel}, one CPU, nobody listens\n")
    print("added by                processes  RMIDs   a switch   a tick   a life   (alone: a switch, a life)")
    for case, processes, rmids in measures.runs:
        if case == "alone":
            continue
        switch, tick, life = measures.added((case, processes, rmids))
        name = NAMES[case]
        alone = "   ({:.0f}, {:.0f})".format(*measures.alone(processes))
        tick_text = "       -" if case.startswith("empty") else f"{tick:8.0f}"
        print(f"{name:28} {processes:4} {rmids or '-':>6} {switch:10.0f} {tick_text} {life:8.0f}{alone}")
    check_targets(kernel, measures)
    if rdt_lines:
        hardware = Measures(rdt_lines)
        for case, processes, rmids in hardware.runs:
            if case == "kmod":
                switch, tick, life = hardware.added((case, processes, rmids))
                print(f"{'kmod, RDT hardware':28} {processes:4} {rmids:>6} {switch:10.0f} {tick:8.0f} {life:8.0f}")
    values = {rest[0]: int(rest[1]) for word, *rest in lines if word == "value"}
    longest = {rest[0]: [int(field) for field in rest[1:]] for word, *rest in lines if word == "longest"}
    tracer = instructions(longest.pop("ss_rmid_count")[1])  # which does nothing: it is all tracer
    print(f"\nlongest with interrupts off ({tracer:.0f} of it the function tracer's)")
    for name, (most_ns, _, count) in sorted(longest.items()):
        print(f"{name:28} {instructions(most_ns):8.0f} of {count} runs")
    print(f"{'the walk at load':28} {instructions(values['walk_ns']):8.0f} for {values['walk_threads']} threads, once, all CPUs stopped")
    print(f"\nmemory: {values['module_bytes'] / 1024:.0f} KB module, {values['table_bytes'] / 1024:.0f} KB table"
          f" of {values['process_slots']} slots\n")


failures = []
for name in sys.argv[2:]:
    show(name, guest(name, []), guest(name, ["rdt"], rdt=True))
for failure in failures:
    print(f"missed: {failure}")
sys.exit(bool(failures))
