#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ring.py SLOTSCOPE [GIB]: what a ring of so many GiB (10, the service's default) holds of a machine of 128 CPUs and 2,000 processes.

A generated machine is recorded for some seconds, and the bytes of each table counted. Everything goes by the rule of the ring:
milliseconds go first, and what is kept for longer may have four fifths. Who has just begun has all of the room for
milliseconds; who has recorded for long has a fifth for them."""
import os
import subprocess
import sys
import tempfile

slotscope = os.path.abspath(sys.argv[1])
ring = int(sys.argv[2] if len(sys.argv) > 2 else 10) * 2**30
SECONDS = 5
LONGER = ("seconds", "processes", "straggle", "events", "verdicts")
MACHINES = {"244 rows per ms": ["--switches", "1500"], "the same, with waits": ["--switches", "1500", "--waits"]}


def bytes_per_second(folder, arguments):
    """By table."""
    subprocess.run([slotscope, "gen", "--cpus", "128", "--processes", "2000", "--births", "200", "--milliseconds", str(SECONDS * 1000),
                    *arguments, f"{folder}/m.raw"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([slotscope, "replay", f"{folder}/m.raw", "-o", f"{folder}/m.rec"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rates = {}
    for name in os.listdir(f"{folder}/m.rec"):
        if name.endswith(".zst"):
            table = name.split("-")[0]
            rates[table] = rates.get(table, 0) + os.path.getsize(f"{folder}/m.rec/{name}") / SECONDS
    return rates


print(f"{'machine':<22} {'slots':>9} {'waits':>9} {'seconds':>9} {'processes':>9}   of {ring >> 30} GiB: ms at first, later, seconds")
for machine, arguments in MACHINES.items():
    with tempfile.TemporaryDirectory() as folder:
        rates = bytes_per_second(folder, arguments)
    longer = sum(rate for table, rate in rates.items() if table in LONGER)
    fine = sum(rates.values()) - longer
    kept_s = ring * 4 / 5 / longer
    print(f"{machine:<22} " + " ".join(f"{rates.get(table, 0) / 1e6:>6.2f} MB" for table in ("slots", "waits", "seconds", "processes")) +
          f"   {ring / (fine + longer) / 60:.0f} min, {ring / 5 / fine / 60:.1f} min, {kept_s / 3600:.0f} h")
