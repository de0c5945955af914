#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ring.py SLOTSCOPE [GIB]: what a ring of so many GiB (10, the service's default) holds of a machine of 128 CPUs and 2,000 processes.

A generated machine is recorded for a minute, and the bytes of each table counted. Everything goes by the rule of the ring:
milliseconds go first, then seconds; minutes, whose they are and what was found may have three tenths, and with seconds eight. Who
has just begun has all of the room for milliseconds; who has recorded for long has a fifth for them."""
import os
import re
import subprocess
import sys
import tempfile

slotscope = os.path.abspath(sys.argv[1])
ring = int(sys.argv[2] if len(sys.argv) > 2 else 10) * 2**30
SECONDS = 60
MINUTES = ("minutes", "processes", "straggle", "events", "verdicts")
MACHINES = {"--no-waits": [], "with waits": ["--waits"]}


def bytes_per_second(folder, arguments):
    """(rows per slot, bytes by table)."""
    subprocess.run([slotscope, "gen", "--cpus", "128", "--processes", "2000", "--switches", "1500", "--births", "200", "--milliseconds",
                    str(SECONDS * 1000), *arguments, f"{folder}/m.raw"], check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run([slotscope, "replay", f"{folder}/m.raw", "-o", f"{folder}/m.rec"], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    nr_rows, nr_slots = map(int, re.search(rb"(\d+) rows in (\d+) slots", said).groups())
    rates = {}
    for name in os.listdir(f"{folder}/m.rec"):
        if name.endswith(".zst"):
            table = name.split("-")[0]
            rates[table] = rates.get(table, 0) + os.path.getsize(f"{folder}/m.rec/{name}") / SECONDS
    return nr_rows / nr_slots, rates


print(f"{'recording':<12} {'rows/ms':>8} {'slots':>9} {'waits':>9} {'seconds':>9} {'minutes':>9} {'processes':>9}   of {ring >> 30} GiB: ms at first, later, seconds, minutes")
for machine, arguments in MACHINES.items():
    with tempfile.TemporaryDirectory() as folder:
        rows, rates = bytes_per_second(folder, arguments)
    minutes = sum(rate for table, rate in rates.items() if table in MINUTES)
    fine = sum(rates.values()) - minutes - rates["seconds"]
    print(f"{machine:<12} {rows:>8.0f} " + " ".join(f"{rates.get(table, 0) / 1e6:>6.3f} MB" for table in ("slots", "waits", "seconds", "minutes", "processes")) +
          f"   {ring / sum(rates.values()) / 60:.0f} min, {ring / 5 / fine / 60:.1f} min, {ring / 2 / rates['seconds'] / 3600:.0f} h, "
          f"{ring * 3 / 10 / minutes / 3600:.0f} h")
