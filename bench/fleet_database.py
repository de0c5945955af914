#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fleet_database.py SLOTSCOPE [NODES]: so many machines (1,000) ship the same ten seconds, each under its own name, into the real ClickHouse of
tests/ship: rows and bytes that arrive, CPU time of both sides, what a row takes on the disk, how long the views of doc/fleet-database.md take,
and what --milliseconds incidents spares. Ends with what a day of such machines would be, which is computed. As root: it records."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ship"))
from server import ClickHouse, server_program  # noqa: E402

SLOTSCOPE = str(Path(sys.argv[1]).resolve())
NODES = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SECONDS = 10
VIEWS = ("SELECT * FROM worst_waits LIMIT 20", "SELECT * FROM who_kept_whom_waiting LIMIT 20", "SELECT * FROM noisy_neighbours LIMIT 20",
         "SELECT * FROM worst_waits WHERE host = 'node0007' LIMIT 20", "SELECT count() FROM slots WHERE host = 'node0007'")


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def server_cpu_s(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine(base, folder, number, seconds_only):
    """The same segments, of another host."""
    recording = folder / f"node{number:04}"
    recording.mkdir()
    lines = []
    for line in (base / "manifest.ndjson").read_text().splitlines():
        entry = json.loads(line)
        if "segment" in entry:
            entry["host"] = f"node{number:04}"
            for table in entry["tables"].values():
                os.link(base / table["file"], recording / table["file"])
        lines.append(json.dumps(entry))
    (recording / "manifest.ndjson").write_text("\n".join(lines) + "\n")
    words = ["--milliseconds", "incidents"] if seconds_only else []
    return recording, words


def ship_all(server, base, folder, seconds_only):
    subprocess.run([SLOTSCOPE, "ship", "--clickhouse", server.url, "--set-up"], check=True, capture_output=True)
    machines = [machine(base, folder, number, seconds_only) for number in range(NODES)]
    begun, cpu, its = time.monotonic(), cpu_s(), server_cpu_s(server)

    def ship(one):
        subprocess.run([SLOTSCOPE, "ship", "--clickhouse", server.url, *one[1], one[0]], check=True, capture_output=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(ship, machines))
    return time.monotonic() - begun, cpu_s() - cpu, server_cpu_s(server) - its


def main():
    with tempfile.TemporaryDirectory(prefix="slotscope-fleet-") as name:
        folder = Path(name)
        base = folder / "base.rec"
        subprocess.run([SLOTSCOPE, "record", "--source", "bpf", "--segment", "5", "--duration", str(SECONDS), "-o", base], check=True, capture_output=True)
        for seconds_only in (True, False):
            what = "seconds only" if seconds_only else "all milliseconds"
            own = folder / what.replace(" ", "-")
            own.mkdir()
            server = ClickHouse(server_program(), own / "server")
            try:
                took, cpu, its = ship_all(server, base, own, seconds_only)
                rows = int(server.ask("SELECT sum(rows) FROM batches"))
                tables = server.rows("SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'slotscope' GROUP BY table ORDER BY table")
                print(f"\n{NODES} machines, {SECONDS} s each, {what}: {rows} rows in {took:.1f} s ({rows / took:.0f} a second), "
                      f"CPU time for a million rows: shippers {cpu / rows * 1e6:.2f} s, server {its / rows * 1e6:.2f} s")
                disk = 0
                for table, nr, size in tables:
                    if int(nr):
                        print(f"  {table:<16} {int(nr):>10} rows {int(size) / int(nr):8.1f} bytes each")
                        disk += int(size)
                for sql in VIEWS:
                    begun = time.monotonic()
                    nr = len(server.rows(sql))
                    print(f"  {time.monotonic() - begun:6.2f} s for {sql} ({nr} rows)")
                per_day = disk / NODES / SECONDS * 86400
                print(f"  computed: a machine like this one takes {per_day / 1e9:.2f} GB a day, {NODES} of them {per_day * NODES / 1e12:.2f} TB")
            finally:
                server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
