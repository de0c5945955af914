#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""drift.py SCHEMAS FILE...: each verdict in the files (NDJSON) is what its schema says, each pattern is there at least
once, and each change below of each of them is rejected: so no verdict can drift away from its schema unseen."""
import copy
import json
import sys
from pathlib import Path

import jsonschema

def set_to(key, value):
    def change(verdict):
        verdict[key] = value
    return change


def drop_evidence(keep):
    def change(verdict):
        verdict["evidence_trail"] = verdict["evidence_trail"][:keep]
    return change


def set_kind(kind):
    def change(verdict):
        verdict["evidence_trail"][0]["kind"] = kind
    return change


# What each pattern's verdicts have been, or might become, if nobody looked.
DRIFTS = {
    "16": {
        "confidence reintroduced": set_to("confidence", "full"),
        "missing_layers reintroduced": set_to("missing_layers", []),
        "one layer only": drop_evidence(1),
        "no evidence": drop_evidence(0),
        "a kind of another pattern": set_kind("fr_record"),
        "pattern.id as a number": set_to("pattern.id", 16),
        "pattern.id of another pattern": set_to("pattern.id", "15"),
        "xid_code as a text": set_to("xid_code", "79"),
        "evicted_pod without its namespace": set_to("evicted_pod", "trainer-0"),
        "resolved_at: an eviction stays one": set_to("resolved_at", "2026-03-03T16:20:41Z"),
    },
    "15": {
        "confidence reintroduced": set_to("confidence", "full"),
        "one hanging rank in a collective": lambda v: (v.pop("calls", None), v.update(is_p2p=False, hanging_ranks=[1])),
        "a rank twice": set_to("hanging_ranks", [1, 1]),
        "a rank as a text": set_to("hanging_ranks", ["1", "2"]),
        "a negative rank": set_to("hanging_ranks", [-1, 2]),
        "time_discovered_started_ns reintroduced": set_to("earliest_started_ns", 1),
        "a suspect without a reason": set_to("suspects", [{"rank": 2}]),
        "a reason that is none": set_to("suspects", [{"rank": 2, "why": "slow"}]),
        "behind, and not where": set_to("suspects", [{"rank": 2, "why": "behind"}]),
        "lacks, and yet somewhere": set_to("suspects", [{"rank": 2, "why": "lacks", "sequence": 3}]),
        "another clock": set_to("clock", "wall"),
        "a threshold of nothing": set_to("threshold_s", 0),
        "pattern.id as a number": set_to("pattern.id", 15),
        "evidence of one rank in a collective": lambda v: (
            v.pop("calls", None), v.update(is_p2p=False, evidence_trail=v["evidence_trail"][:1])),
        "a kind of another pattern": set_kind("pod_event"),
        "evidence of the host that is unknown, with values": set_to(
            "host_evidence", [{"rank": 1, "role": "hanging", "state": "unknown", "reason": "x", "cpu_ms": 0}]),
        "evidence of the host without a process": set_to(
            "host_evidence", [{"rank": 1, "role": "hanging", "state": "on_cpu"}]),
        "a call that differs from none": set_to("calls", [{"operation": "nccl:barrier", "ranks": [0]}]),
        "parts that are no verdicts": set_to("parts", [{"pattern.id": "15"}, {"pattern.id": "15"}]),
        "another role": set_to("host_evidence", [{"rank": 1, "role": "victim", "state": "unknown", "reason": "x"}]),
    },
    "14": {
        "another confidence": set_to("confidence", "high"),
        "partial, and not why": lambda v: (v.pop("missing_layers", None), v.update(confidence="partial")),
        "full, and yet something missing": lambda v: v.update(confidence="full", missing_layers=["node_condition"]),
        "partial, with what is missing": lambda v: v.update(
            confidence="partial", missing_layers=["node_condition"], condition="DiskPressure"),
        "nothing missing": lambda v: v.update(confidence="partial", missing_layers=[]),
        "another layer": lambda v: v.update(confidence="partial", missing_layers=["pod_event"]),
        "another cause": set_to("cause", "unknown"),
        "another condition": set_to("condition", "NetworkUnavailable"),
        "resolved, and not what": lambda v: (v.pop("condition", None), v.update(resolved_at="2026-03-03T16:20:41Z")),
        "pattern.id as a number": set_to("pattern.id", 14),
        "no evidence": drop_evidence(0),
        "a kind of another pattern": set_kind("kernel_event"),
        "a node without a name": set_to("node", ""),
    },
}


def objects(value, path=""):
    """All objects in a verdict, with their paths."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        yield from objects(value[0], f"{path}[0]")  # the others are alike


def plain_drifts(verdict, schema):
    """Changes that no schema of ours lets pass, whatever the pattern."""
    for key in schema["required"]:
        changed = copy.deepcopy(verdict)
        del changed[key]
        yield f"without {key}", changed
    for i, (path, _) in enumerate(objects(verdict)):
        changed = copy.deepcopy(verdict)
        list(objects(changed))[i][1]["new_key"] = 1
        yield f"a new key in {path or 'the verdict'}", changed
        for key, value in list(objects(verdict))[i][1].items():
            wrong = {"not": "this"} if not isinstance(value, dict) else "a text"
            changed = copy.deepcopy(verdict)
            list(objects(changed))[i][1][key] = wrong
            yield f"{path}.{key} as {wrong}", changed
            if isinstance(value, str) and (key == "timestamp" or key in ("headline", "remediation", "uid")):
                changed = copy.deepcopy(verdict)
                list(objects(changed))[i][1][key] = "" if key != "timestamp" else "yesterday"
                yield f"{path}.{key} with nothing in it", changed


def main():
    folder, files = Path(sys.argv[1]), sys.argv[2:]
    validators = {}
    for file in sorted(folder.glob("*_verdict.schema.json")):
        schema = json.loads(file.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        validators[schema["properties"]["pattern.id"]["const"]] = jsonschema.Draft202012Validator(schema)
    if set(validators) != set(DRIFTS):
        sys.exit(f"drift.py: schemas are there of {sorted(validators)}, DRIFTS of {sorted(DRIFTS)}")
    failed, nr_verdicts, nr_drifts, seen = False, 0, 0, set()
    for file in files:
        for number, line in enumerate(Path(file).read_text().splitlines(), 1):
            verdict = json.loads(line)
            pattern = verdict["pattern.id"]
            if pattern not in validators:
                sys.exit(f"{file}:{number}: there is no schema in {folder} of pattern.id {pattern}")
            validator = validators[pattern]
            for error in validator.iter_errors(verdict):
                print(f"{file}:{number}: {error.json_path}: {error.message[:200]}", file=sys.stderr)
                failed = True
            drifts = list(plain_drifts(verdict, validator.schema))
            for name, change in DRIFTS[pattern].items():
                changed = copy.deepcopy(verdict)
                change(changed)
                drifts.append((name, changed))
            for name, changed in drifts:
                nr_drifts += 1
                if validator.is_valid(changed):
                    print(f"{file}:{number}: not rejected: {name}", file=sys.stderr)
                    failed = True
            nr_verdicts += 1
            seen.add(pattern)
    if seen != set(validators):
        print(f"of these patterns there is no verdict: {set(validators) - seen}", file=sys.stderr)
        failed = True
    if not failed:
        print(f"schemas: {nr_verdicts} verdicts are valid, {nr_drifts} changes of them are rejected")
    sys.exit(failed)


main()
