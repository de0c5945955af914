#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_hang.py FOLDER: dumps of four ranks' flight recorders, in the opcodes and the shape of real ones: all
operations still scheduled, no start times, numbers of groups that differ between ranks. Rank 2 does not come to
all_reduce 163 of the model parallel group, whose timeout is the shortest. And host.csv, the slots.csv of the host of ranks 0 to 2,
around that: 0 spins, 1 sleeps and is woken now and then, and 2 has not run since 3 ms before."""
import struct
import sys
from pathlib import Path

BEGIN_NS = 1_772_554_088_512_340_000  # 2026-03-03T16:08:08.51234Z
GROUPS = {
    "0": ("default_pg", [0, 1, 2, 3]),
    "5": ("MODEL_PARALLEL_GROUP", [0, 1, 2, 3]),
    "8": ("TENSOR_MODEL_PARALLEL_GROUP", [0, 1]),
    "9": ("TENSOR_MODEL_PARALLEL_GROUP", [2, 3]),
    "11": ("PIPELINE_MODEL_PARALLEL_GROUP", [0, 2]),
}


class Pickler:
    """Protocol 2, as PyTorch's own writer makes it: texts are kept by value, the root at the end."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.memo = {}
        self.next_id = 0

    def remember(self):
        i = self.next_id
        self.next_id += 1
        self.out += b"q" + bytes([i]) if i < 256 else b"r" + struct.pack("<I", i)
        return i

    def put(self, value):
        out = self.out
        if value is None:
            out += b"N"
        elif value is True or value is False:
            out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            if 0 <= value < 256:
                out += b"K" + bytes([value])
            elif 0 <= value < 65536:
                out += b"M" + struct.pack("<H", value)
            elif -(2**31) <= value < 2**31:
                out += b"J" + struct.pack("<i", value)
            else:
                out += b"\x8a\x08" + struct.pack("<q", value)
        elif isinstance(value, str):
            if value in self.memo:
                i = self.memo[value]
                out += b"h" + bytes([i]) if i < 256 else b"j" + struct.pack("<I", i)
            else:
                data = value.encode()
                out += b"X" + struct.pack("<I", len(data)) + data
                self.memo[value] = self.remember()
        elif isinstance(value, tuple):
            for item in value:
                self.put(item)
            out += b"\x86"
        elif isinstance(value, list):
            out += b"]("
            for item in value:
                self.put(item)
            out += b"e"
        else:
            out += b"}("
            for key, item in value.items():
                self.put(key)
                self.put(item)
            out += b"u"

    def finish(self, root):
        self.put(root)
        self.remember()
        return bytes(self.out + b".")


def dump(rank, calls):
    entries = []
    mine = {name: g for name, g in GROUPS.items() if rank in g[1]}
    for i, (group, sequence, operation, at_ms, timeout_ms) in enumerate(calls):
        p2p = operation.startswith(("nccl:send", "nccl:recv"))
        entries.append({
            "record_id": 2048 + i, "pg_id": sorted(mine, key=lambda n: (int(n) * 7 + rank) % 13).index(group),
            "process_group": (group, GROUPS[group][0]), "thread_name": "pt_autograd_0" if p2p else "python3",
            "thread_id": str(139986420332288 + rank), "collective_seq_id": 0 if p2p else sequence,
            "p2p_seq_id": sequence if p2p else 0, "op_id": sequence, "profiling_name": operation,
            "time_created_ns": BEGIN_NS + at_ms * 1_000_000 + rank * 12_345, "input_sizes": [[1, 4096, 2048]],
            "input_dtypes": ["BFloat16"], "output_sizes": [[1, 4096, 2048]], "output_dtypes": ["BFloat16"],
            "state": "scheduled", "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
            "retired": False, "timeout_ms": timeout_ms, "is_p2p": p2p})
    return {
        "version": "2.9",
        "pg_config": {n: {"name": n, "desc": d, "ranks": str(r)} for n, (d, r) in mine.items()},
        "nccl_version": "2.27.3",
        "pg_status": {str(i): {"last_enqueued_collective": 163, "last_started_collective": -1,
                               "last_completed_collective": 162} for i in range(len(mine))},
        "entries": entries}


REDUCE = ("5", 163, "nccl:all_reduce", 0, 180_000)
CALLS = {
    0: [("8", 6870, "nccl:_all_gather_base", -4, 600_000), REDUCE, ("11", 42, "nccl:recv 0<-1", -9, 600_000)],
    1: [("8", 6870, "nccl:_all_gather_base", -4, 600_000), REDUCE],
    2: [],
    3: [REDUCE, ("9", 6868, "nccl:_all_gather_base", -6, 600_000)],
}

folder = Path(sys.argv[1])
for rank, calls in CALLS.items():
    (folder / f"nccl_trace_rank_{rank}").write_bytes(Pickler().finish(dump(rank, calls)))

HEADER = """# slotscope: made up
# slot_ns: 1000000
# note: rank 0 is process 4710 (python3)
# note: rank 1 is process 4711 (python3)
# note: rank 2 is process 4712 (python3)
slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,rmid,kind,cpu_ns,wait_ns,switches,preemptions,cycles,instructions,llc_misses,mux_pct,mbm_total_bytes,mbm_local_bytes,llc_occupancy_bytes,rdt_status,gpu_mem_bytes,gpu_active_ns,gpu_launches,straggle,throughput_drop_pct
"""
with open(folder / "host.csv", "w") as file:
    file.write(HEADER)
    for ms in range(-20, 200):
        unix_ns = (BEGIN_NS // 1_000_000 + ms) * 1_000_000
        uses = [(4710, 990_000, 10_000, 1, 4_500_000), (0, 0, 0, 0, 0)]
        if ms % 50 == 0:
            uses.append((4711, 40_000, 2_000, 0, 65_536))
        if ms < -3:
            uses.append((4712, 700_000, 300_000, 4, 9_000_000))
        for tgid, cpu, wait, preemptions, mbm in sorted(uses):
            start = "{},{}".format(9_000_000_000_000 + ms * 1_000_000, unix_ns)
            if tgid == 0:
                file.write(f"{start},0,,idle,0,idle,1000000,0,0,0,,,,,,,,unsupported,,,,,\n")
                continue
            gpu = 1_000_000 if tgid == 4710 else 0
            file.write(f"{start},{tgid},8000000000,python3,{tgid - 4700},user,{cpu},{wait},{preemptions},{preemptions},"
                       f",,,,{mbm},{mbm},,ok,1073741824,{gpu},0,0,0.0\n")
