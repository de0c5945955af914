#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""engine.py BUILD_FOLDER: the engine on one core, as two tables. First in one process with streams in memory
(bench_pipeline_bench), then whole processes: slotscope replay of files of the same machines. Everything is
pinned to one CPU. SLOTSCOPE_BENCH_MESSAGES: messages per machine (default 10 million)."""
import json
import os
import subprocess
import sys
import tempfile

NR_CPUS = (2, 8, 64, 128)
LINES = ("read_limit", "a_order", "b_order_slots", "c_order_slots_csv", "dense_slots", "dense_slots_csv", "plain_slots", "plain_slots_csv", "waits_csv",
         "waits_states_csv")
REFERENCES = {"b_order_slots": ("plain_slots", "dense_slots"), "c_order_slots_csv": ("plain_slots_csv", "dense_slots_csv")}
MESSAGES = int(os.environ.get("SLOTSCOPE_BENCH_MESSAGES", 10_000_000))
PER_CPU_AND_SECOND = 7000  # 5000 switches, 1000 ticks of two messages each


def in_memory(build):
    command = [f"{build}/bench_pipeline_bench", "--benchmark_format=json", "--benchmark_min_time=0.5"]
    out = subprocess.run(["taskset", "-c", "0", *command], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL).stdout
    results = {}
    for run in json.loads(out)["benchmarks"]:
        if "error_message" in run:
            sys.exit(f"engine.py: {run['name']}: {run['error_message']}")
        line, nr_cpus = run["name"].split("/")
        results[line, int(nr_cpus)] = run
    print(f"\nIn memory, {MESSAGES / 1e6:g} M messages per machine, one core")
    print(f"{'CPUs':>5} {'line':<20} {'M events/s':>11} {'of limit':>9} {'x plain':>7} {'x dense':>7} {'M rows/s':>9} {'in GB/s':>8} "
          f"{'out GB/s':>9} {'engine MB':>9}")
    for nr_cpus in NR_CPUS:
        limit = results["read_limit", nr_cpus]["items_per_second"]
        for line in LINES:
            run = results[line, nr_cpus]
            rate = run["items_per_second"]
            plain, dense = (f"{rate / results[reference, nr_cpus]['items_per_second']:.2f}" for reference in
                            REFERENCES[line]) if line in REFERENCES else ("", "")
            print(f"{nr_cpus:>5} {line:<20} {rate / 1e6:>11.1f} {rate / limit:>9.0%} {plain:>7} {dense:>7} "
                  f"{run.get('rows/s', 0) / 1e6:>9.1f} {run['in_B/s'] / 1e9:>8.2f} "
                  f"{run.get('out_B/s', 0) / 1e9:>9.2f} {run['engine_MB']:>9.1f}")
    return {nr_cpus: results["c_order_slots_csv", nr_cpus]["cpu_time"] / 1e3 for nr_cpus in NR_CPUS}


def whole_process(build, in_memory_s):
    print("\nWhole processes (read a file, check its hashes, merge, slots, CSV), one core, by the process's CPU time")
    print(f"{'CPUs':>5} {'M events/s':>11} {'M rows/s':>9} {'file MB':>8} {'CSV MB':>7} {'user s':>7} {'system s':>8} "
          f"{'x in memory':>11} {'peak MB':>8}")
    with tempfile.TemporaryDirectory(dir=build) as folder:
        for nr_cpus in NR_CPUS:
            raw, csv = f"{folder}/x.raw", f"{folder}/x.csv"
            milliseconds = MESSAGES * 1000 // (PER_CPU_AND_SECOND * nr_cpus)
            subprocess.run([f"{build}/slotscope", "gen", raw, "--cpus", str(nr_cpus), "--milliseconds",
                            str(milliseconds)], check=True, stdout=subprocess.DEVNULL)
            pid = os.spawnlp(os.P_NOWAIT, "taskset", "taskset", "-c", "0", "sh", "-c",
                             f"exec {build}/slotscope replay {raw} -o {csv} >{folder}/log")
            _, status, usage = os.wait4(pid, 0)
            cpu_s = usage.ru_utime + usage.ru_stime
            if status:
                sys.exit(f"engine.py: replay ended with status {status}")
            counts = {}
            with open(csv, "rb") as file:
                file.seek(-8192, os.SEEK_END)
                for text in file.read().decode().splitlines():
                    key, _, value = text.partition(": ")
                    counts[key] = value
            print(f"{nr_cpus:>5} {int(counts['# messages']) / cpu_s / 1e6:>11.1f} "
                  f"{int(counts['# rows']) / cpu_s / 1e6:>9.1f} {os.path.getsize(raw) / 1e6:>8.0f} "
                  f"{os.path.getsize(csv) / 1e6:>7.0f} {usage.ru_utime:>7.2f} {usage.ru_stime:>8.2f} {cpu_s / in_memory_s[nr_cpus]:>11.2f} "
                  f"{usage.ru_maxrss / 1024:>8.1f}")


whole_process(sys.argv[1], in_memory(sys.argv[1]))
