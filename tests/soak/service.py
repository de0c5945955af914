#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""service.py BUILD_FOLDER [SECONDS]: the command of slotscope.service in real time, as long as one has. Needs root.

It records whatever this machine does meanwhile, with the options that the package has, into a temporary folder; nobody makes a
load. A line for each twelfth of that time says what it takes. Of the last quarter the least may not be above the most of the
first half: of file descriptors and threads, and 5% of what is in use of its heap, if that is more than what its tables take
when they are full (they have bounds, which hours may not come to; soak.py does in minutes). No segment may be damaged,
and the recording has to say that its identity holds. Exit code 0 or 1."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import recorder

build = os.path.abspath(sys.argv[1])
seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 3600
top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NR_LOOKS = 12
PER_LINE = 60  # looks: of what comes and goes the least counts
MAX_MORE = {"heap": 0.05, "fds": 0, "threads": 0}
FULL_TABLES = {"heap": 64}  # MiB, on a few CPUs
metrics_port = 20000 + os.getpid() % 20000


def unit():
    """(command, environment) of the unit, as systemd makes them of it and of /etc/default."""
    text = open(f"{top}/debian/slotscope.service").read()
    command = re.search(r"^ExecStart=/bin/sh -c '(.*)'$", text, re.M)[1].replace("%%", "%").replace("/usr/bin/slotscope", f"{build}/slotscope")
    values = dict(re.findall(r'^Environment="(\w+)=(.*)"$', text, re.M))
    values.update(re.findall(r'^(\w+)="(.*)"$', open(f"{top}/debian/slotscope.default").read(), re.M))
    return command, {name: value.replace("%%", "%") for name, value in values.items()}


def least(looks):
    return recorder.Look(*(min(getattr(one, key) for one in looks) for key in ("heap", "memory", "fds", "maps", "threads")),
                         looks[-1].cpu_ns, looks[-1].events, {})


work = tempfile.mkdtemp(prefix="slotscope-service.")
command, values = unit()
values["SLOTSCOPE_OPTIONS"] = values.get("SLOTSCOPE_OPTIONS", "") + f" --metrics=127.0.0.1:{metrics_port}"
failures = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit("service.py: it was told to end"))
log_path = f"{work}/log"
with open(log_path, "wb") as log:
    process = subprocess.Popen(["sh", "-c", command], stdout=log, stderr=log, env=dict(os.environ, STATE_DIRECTORY=work, **values))
try:
    while b"recording to" not in open(log_path, "rb").read():
        if process.poll() is not None:
            sys.exit(f"service.py: {open(log_path).read()}")
        time.sleep(0.1)
    print(f"{values}\n{'minute':>7} {'events/s':>9} {'heap MB':>8} {'memory MB':>10} {'fds':>5} {'maps':>6} {'threads':>8} {'CPU %':>7} {'segments':>9}", flush=True)
    rows, before, begin = [], recorder.look(process.pid, metrics_port), time.monotonic()
    for line in range(NR_LOOKS):
        looks = []
        for i in range(PER_LINE):
            time.sleep(max(0, begin + seconds * (line + (i + 1) / PER_LINE) / NR_LOOKS - time.monotonic()))
            looks.append(recorder.look(process.pid, metrics_port))
        row = least(looks)
        rows.append(row)
        took = seconds / NR_LOOKS
        segments = sum(name.startswith("slots-") for name in os.listdir(f"{work}/slotscope.rec"))
        print(f"{seconds * (line + 1) / NR_LOOKS / 60:>7.1f} {(row.events - before.events) / took:>9.0f} {row.heap:>8.2f} {row.memory:>10.1f} "
              f"{row.fds:>5} {row.maps:>6} {row.threads:>8} {(row.cpu_ns - before.cpu_ns) / took / 1e7:>7.2f} {segments:>9}", flush=True)
        before = row
    for key, most in MAX_MORE.items():
        first = max(getattr(row, key) for row in rows[: NR_LOOKS // 2])
        last = min(getattr(row, key) for row in rows[-NR_LOOKS // 4 :])
        if last > max(first * (1 + most), FULL_TABLES.get(key, 0)):
            failures.append(f"{key}: {first:g} at most in the first half, {last:g} at least in the last quarter")
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=120)
    if code != 0:
        failures.append(f"the recorder's exit code is {code}")
    failures += recorder.problems_of(f"{work}/slotscope.rec")
except (OSError, subprocess.TimeoutExpired) as error:
    failures.append(f"{error!r}; the recorder's exit code is {process.poll()}")
finally:
    if process.poll() is None:
        process.kill()
    for failure in failures:
        print(f"FAIL {failure}")
    if failures:
        print(open(log_path, errors="replace").read()[-4000:])
    shutil.rmtree(work, ignore_errors=True)
print("FAIL" if failures else "PASS")
sys.exit(bool(failures))
