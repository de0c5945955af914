# SPDX-License-Identifier: MIT
"""What a recorder takes that runs, and whether what it has written holds."""
import collections
import json
import os
import subprocess
import urllib.request

Look = collections.namedtuple("Look", "heap memory fds maps threads cpu_ns events rss_kb")


def metric(text, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def cpu_ns_of(pid):
    """Of all threads that are there; of one that has ended what it took is in none."""
    cpu_ns = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            cpu_ns += int(open(f"/proc/{pid}/task/{thread}/schedstat").read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass  # ended meanwhile
    return cpu_ns


def look(pid, metrics_port):
    """Now: MiB of its heap that are in use, and that are resident; CPU time of all its threads; events since it began."""
    folder = f"/proc/{pid}"
    status = dict(line.split(":", 1) for line in open(f"{folder}/status"))
    rss_kb = {key: int(status[key].split()[0]) for key in ("RssAnon", "RssFile", "RssShmem")}
    text = urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=5).read().decode()
    return Look(metric(text, 'slotscope_recorder_heap_bytes{state="used"}') / 2**20, sum(rss_kb.values()) / 1024,
                len(os.listdir(f"{folder}/fd")), sum(1 for _ in open(f"{folder}/maps")), int(status["Threads"]), cpu_ns_of(pid),
                metric(text, "slotscope_messages_total"), rss_kb)


def problems_of(recording):
    """Of one that has ended: what does not hold, as sentences."""
    found = []
    if len([json.loads(line) for line in open(f"{recording}/manifest.ndjson")]) < 3:
        found.append("the manifest names no segments")
    names = sorted(name for name in os.listdir(recording) if name.startswith("slots-") and name.endswith(".csv.zst"))
    identities = []
    for name in names:
        with subprocess.Popen(["zstd", "-dcq", f"{recording}/{name}"], stdout=subprocess.PIPE) as text:
            identities += [line.decode().strip() for line in text.stdout if line.startswith(b"# identity: ")]
        if text.returncode:
            found.append(f"{name} is damaged")
    # It is said where a recording ends: of one that went on all the time, in the last segment.
    if not identities or not all(line.startswith("# identity: holds") for line in identities):
        found.append(f"identity: {identities} in {len(names)} segments")
    parts = [name for name in os.listdir(recording) if name.endswith(".part")]
    if parts:
        found.append(f"left behind: {parts}")
    return found
