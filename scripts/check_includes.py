#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_includes.py [--self-test]: the dependency guard. Reads the #include lines, runs no compiler.

    kmod -> include <- bpf,  collector -> include,  tests and bench -> collector and include,
    tests/unit -> the pure files of kmod,  collector/cli -> tests/gen

and nothing else crosses; in collector/ a stage includes itself and those that EDGES says. Also keeps the
house in order: what the top level holds, a README.md per folder, SPDX lines, one version, Kbuild.
Prints "file:line: what to do" per finding and exits 1 if there was one.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

# Which stages of the collector a stage includes: those that are there, no more. In the order of the data; an edge goes back.
EDGES = {
    "base": "",
    "ring": "base",
    "nvml": "base ring",
    "cuda": "base ring nvml",
    "raw": "base ring",
    "merge": "base ring",
    "track": "base",
    "slots": "base ring merge track",
    "gpu": "base ring slots",
    "straggle": "base slots",
    "join": "base ring slots",
    "recording": "base",
    "explain": "base ring slots recording track",
    "report": "base slots recording explain",
    "query": "base recording explain",
    "top": "base slots recording explain",
    "sinks": "base slots",
    "detect/inputs": "base",
    "detect/patterns": "base detect/inputs",
    "detect/host": "base slots recording detect/inputs detect/patterns",
    "detect/live": "base detect/inputs detect/patterns detect/host",
    "remediate": "base ring slots",
    "fleet": "base slots remediate",
    "metrics": "base slots remediate fleet",
    "ship": "base recording metrics",
    "run": "base ring raw merge track slots gpu straggle join recording sinks detect/patterns detect/host detect/live remediate fleet metrics",
    "check": "base ring raw recording run",
    "cli": "base ring nvml cuda raw check gpu recording explain report query metrics ship top sinks slots track detect/inputs detect/patterns detect/host fleet run",
}
EDGES = {stage: its.split() for stage, its in EDGES.items()}
STAGES = list(EDGES)
FOLDERS = "include kmod bpf collector bench tests scripts deploy debian doc".split()
TOP_FILES = "Makefile dkms.conf README.md CONTRIBUTING.md LICENSE".split()
SOURCE = re.compile(r"\.(c|h|cc|py|sh)$|(^|/)(Makefile|Kbuild)$|^dkms\.conf$")
PORTABLE = re.compile(r"kmod/(portable|share|rdt_\w+)\.h$")  # pure C, compiled for the host too
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(.*)", re.M)
VERSIONS = {
    "kmod/slotscope.h": r'#define SS_VERSION "(.*)"',
    "dkms.conf": r'PACKAGE_VERSION="(.*)"',
    "debian/changelog": r"^slotscope \((.*)\)",
    "collector/base/version.h": r'kVersion = "(.*)"',
    "deploy/kubernetes/kustomization.yaml": r"newTag: (.*)",
}


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes_of(text):
    """(line, '<' or '"' or '', name) of each #include."""
    for match in INCLUDE.finditer(text):
        literal = re.match(r'([<"])([^>"]+)[>"]', match.group(1))
        yield (line_of(text, match.start()), *(literal.groups() if literal else ("", match.group(1))))


def resolve(files, path, quote, name):
    """The file of this tree that an #include means, or None: a system header."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    candidates = [f"include/{name}"]
    if quote == '"':
        candidates = [beside, f"collector/{name}", f"include/{name}"]
        if path.startswith(("tests/", "bench/")) or name.startswith("tests/"):
            candidates.append(name)
    return next((c for c in candidates if c in files), None)


def check_kernel_side(path, quote, name, target):
    """kmod/, bpf/ and include/: the message for a forbidden include, or None."""
    folder = path.split("/")[0]
    if quote == "<":
        system = {"kmod": r"(linux|asm|trace|slotscope)/", "bpf": r"(bpf|slotscope)/",
                  "include": r"(linux/types\.h$|slotscope/)"}[folder]
        allowed = re.match(system, name) or (
            path == "kmod/portable.h" and re.match(r"(stdbool|stddef|string)\.h$", name))
    else:
        own = target and os.path.dirname(target) == folder and "/" not in name
        allowed = folder != "include" and own or (folder == "bpf" and name == "vmlinux.h")
    if allowed:
        return None
    return {"kmod": 'kmod/ includes <linux/..>, <asm/..>, <trace/..>, <slotscope/..> and its own "x.h" only',
            "bpf": 'bpf/ includes "vmlinux.h", <bpf/..>, <slotscope/..> and its own "x.h" only',
            "include": "include/ includes <linux/types.h> and <slotscope/..> only"}[folder]


def check_collector_side(path, quote, name, target, files):
    """collector/, tests/ and bench/: the message for a forbidden include, or None."""
    skeleton = re.match(r"(\w+)\.skel\.h$", name)
    if skeleton:
        if not path.startswith(("collector/ring/", "collector/cuda/")):
            return "only collector/ring/ and collector/cuda/ load BPF programs: use what it offers"
        known = f"bpf/{skeleton[1]}.bpf.c" in files
        return None if known else f"no BPF program makes it: there is no bpf/{skeleton[1]}.bpf.c"
    if quote == "<":
        ours = name in files or f"collector/{name}" in files  # <bpf/libbpf.h> is not
        return "name files of this tree in quotes" if ours else None
    if not target:
        return 'no such file: name it from collector/ ("stage/file.h"), or system headers in <>'
    if target.startswith("include/"):
        return "write <slotscope/..> with <>"
    if path.startswith("tests/unit/") and PORTABLE.match(target):
        return None
    if re.match(r"kmod/|bpf/", target):
        return "what the kernel side and user space share goes to include/slotscope/"
    if not path.startswith("collector/"):
        own = {"bench": ("bench", "tests")}.get(path.split("/")[0], (path.split("/")[0],))  # bench measures inputs of tests
        return None if target.split("/")[0] in ("collector", *own) else f"do not include {target}"
    if path.startswith("collector/cli/") and target.startswith("tests/gen/"):
        return None  # the verb gen
    if not target.startswith("collector/"):
        return "the collector does not depend on tests or benchmarks"
    mine, its = stage_of(path), stage_of(target)
    if its in (mine, *EDGES[mine]):
        return None
    if STAGES.index(its) > STAGES.index(mine):
        return f"{its}/ comes after {mine}/ in the data path: move what both need to {mine}/ or before it"
    return f"{mine}/ does without {its}/ so far: if it has to know it, say so in EDGES of check_includes.py"


def stage_of(path):
    return os.path.dirname(path)[len("collector/"):]


def layer_of(stage):
    """0: it needs no other."""
    return 1 + max((layer_of(its) for its in EDGES[stage]), default=-1)


def check_edges(files):
    """EDGES says no more than there is, and goes back only; the chapter has the stages in that order, with their layers."""
    there = {stage: set() for stage in STAGES}
    for path, text in files.items():
        if path.startswith("collector/") and stage_of(path) in there:
            for _, quote, name in includes_of(text):
                target = resolve(files, path, quote, name)
                if target and target.startswith("collector/"):
                    there[stage_of(path)].add(stage_of(target))
    guard = "scripts/check_includes.py"
    for stage, its in EDGES.items() if guard in files else ():
        for one in its:
            if one not in there[stage]:
                yield guard, 1, f"{stage}/ includes nothing of {one}/: take it out of EDGES"
            if STAGES.index(one) >= STAGES.index(stage):
                yield guard, 1, f"EDGES: {one}/ is not in front of {stage}/"
    chapter = files.get("collector/README.md", "")
    rows = re.findall(r"^\| `([\w/]+)/` \| (\d+) \|", chapter, re.M)
    expected = [(stage, str(layer_of(stage))) for stage in STAGES]
    if chapter and rows != expected:
        wrong = next((f"{a} instead of {b}" for a, b in zip(rows, expected) if a != b), f"{len(rows)} rows")
        yield "collector/README.md", 1, f"the table of folders has not the stages and layers of EDGES: {wrong}"


def check_includes(files):
    for path, text in files.items():
        if not re.match(r"(kmod|bpf|include|collector|tests|bench)/.*\.(c|h|cc)$", path):
            continue
        if path.startswith("collector/") and stage_of(path) not in STAGES:
            yield path, 1, f"sources of the collector are in collector/STAGE/, one of: {' '.join(STAGES)}"
            continue
        for line, quote, name in includes_of(text):
            target = resolve(files, path, quote, name)
            if not quote or ".." in name.split("/"):
                yield path, line, "name the included file plainly, without macros and .."
                continue
            if quote == "<" and name.startswith("slotscope/") and not target:
                message = f"there is no include/{name}"
            elif re.match(r"(kmod|bpf|include)/", path):
                message = check_kernel_side(path, quote, name, target)
            elif path.startswith("tests/") and path.endswith(".bpf.c"):  # a test's BPF program is built like ours
                allowed = name == "vmlinux.h" or quote == "<" or f"bpf/{name}" in files
                message = None if allowed else "a test's BPF program includes only what bpf/ may"
            elif path.startswith("tests/") and name.endswith(".skel.h"):
                own = path.rsplit("/", 1)[0] + "/" + name[:-len(".skel.h")] + ".bpf.c"
                ours = "bpf/" + name[:-len(".skel.h")] + ".bpf.c"  # whose verifying a live test may test
                known = own in files or path.startswith("tests/live/") and ours in files
                message = None if known else f"only collector/ring/ and collector/cuda/ load BPF programs, and there is no {own}"
            else:
                message = check_collector_side(path, quote, name, target, files)
            if message:
                yield path, line, f"#include of {name}: {message}"


def check_cycles(files):
    done, stack = set(), []

    def visit(path):
        stack.append(path)
        for line, quote, name in includes_of(files[path]):
            target = resolve(files, path, quote, name)
            if target in stack:
                circle = stack[stack.index(target):] + [target]
                yield path, line, "circular #include, move what both need to a third file: " + " -> ".join(circle)
            elif target and target not in done:
                yield from visit(target)
        done.add(stack.pop())

    for path in files:
        if re.search(r"\.(c|h|cc)$", path) and path not in done:
            yield from visit(path)


def check_kbuild(files):
    kbuild = files.get("kmod/Kbuild", "")
    objects = re.search(r"^slotscope-y\s*:=(.*(?:\\\n.*)*)", kbuild, re.M)
    line = line_of(kbuild, objects.start()) if objects else 1
    built = set(re.findall(r"([\w-]+)\.o\b", objects[1])) if objects else set()
    for optional in re.findall(r"^slotscope-\$\(\w+\)\s*\+=(.*)", kbuild, re.M):
        built |= set(re.findall(r"([\w-]+)\.o\b", optional))
    there = {path[5:-2] for path in files if re.match(r"kmod/[^/]*\.c$", path)}
    for name in sorted(there - built):
        yield f"kmod/{name}.c", 1, f"not built: add {name}.o to kmod/Kbuild, or remove the file"
    for name in sorted(built - there):
        yield "kmod/Kbuild", line, f"{name}.o has no kmod/{name}.c"


def check_house(files):
    top = {path.split("/")[0] for path in files}
    for name in sorted(top - set(FOLDERS) - set(TOP_FILES)):
        if not name.startswith("."):
            yield name, 1, f"the top level holds only {' '.join(TOP_FILES + FOLDERS)} and dot-files: move it"
    for path in TOP_FILES + [f"{folder}/README.md" for folder in FOLDERS]:
        if path not in files:
            yield path, 1, "missing: every folder has a README.md that is its chapter" if "/" in path else "missing"


def check_spdx(files):
    for path, text in files.items():
        script = text.startswith("#!")
        if (script or SOURCE.search(path)) and not any(
                "SPDX-License-Identifier: " in line for line in text.splitlines()[:2]):
            yield path, 1, "add an SPDX-License-Identifier line at the top"


def check_versions(files):
    first = None
    for path, pattern in VERSIONS.items():
        match = re.search(pattern, files.get(path, ""))
        if not match:
            yield path, 1, f"no version here: expected a line like {pattern}"
            continue
        first = first or (path, match[1])
        if match[1] != first[1]:
            yield path, line_of(files[path], match.start()), f"version {match[1]}, but {first[0]} has {first[1]}"


CHECKS = (check_includes, check_edges, check_cycles, check_kbuild, check_house, check_spdx, check_versions)


def check_all(files):
    return sorted({finding for check in CHECKS for finding in check(files)})


def self_test():
    """A small tree without findings; each case then spoils one file and must be reported with these words."""
    spdx = "// SPDX-License-Identifier: MIT\n"
    good = {f"{folder}/README.md": "" for folder in FOLDERS} | {name: spdx for name in TOP_FILES} | {
        "dkms.conf": spdx + 'PACKAGE_VERSION="1"\n',
        "debian/changelog": "slotscope (1) unstable\n",
        "deploy/kubernetes/kustomization.yaml": "newTag: 1\n",
        "include/slotscope/a.h": spdx + "#include <linux/types.h>\n",
        "kmod/Kbuild": spdx + "slotscope-y := main.o\n",
        "kmod/slotscope.h": spdx + '#define SS_VERSION "1"\n#include <slotscope/a.h>\n',
        "kmod/main.c": spdx + '#include <linux/init.h>\n#include "slotscope.h"\n',
        "bpf/x.bpf.h": spdx + '#include "vmlinux.h"\n#include <bpf/bpf_helpers.h>\n',
        "bpf/x.bpf.c": spdx + '#include "x.bpf.h"\n#include <slotscope/a.h>\n',
        "collector/base/version.h": spdx + 'kVersion = "1";\n',
        "collector/ring/r.h": spdx + '#include "base/version.h"\n#include <slotscope/a.h>\n',
        "collector/track/t.h": spdx,
        "collector/ring/r.cc": spdx + '#include "ring/r.h"\n#include "x.skel.h"\n#include <string>\n',
        "collector/cli/c.h": spdx + '#include "ring/r.h"\n',
        "tests/unit/t.h": spdx,
        "tests/unit/t.cc": spdx + '#include "ring/r.h"\n#include "t.h"\n#include <slotscope/a.h>\n',
        "scripts/s.sh": "#!/bin/bash\n# SPDX-License-Identifier: MIT\n",
    }
    cases = [
        ("kmod/main.c", "#include <stdio.h>", "kmod/ includes"),
        ("kmod/main.c", '#include "base/version.h"', "kmod/ includes"),
        ("kmod/main.c", "#include <slotscope/none.h>", "there is no include/"),
        ("kmod/main.c", '#include "../bpf/x.bpf.h"', "without macros and .."),
        ("kmod/main.c", "#include HEADER", "without macros and .."),
        ("bpf/x.bpf.c", "#include <linux/sched.h>", "bpf/ includes"),
        ("bpf/x.bpf.c", '#include "slotscope.h"', "bpf/ includes"),
        ("include/slotscope/a.h", "#include <stdint.h>", "include/ includes"),
        ("include/slotscope/a.h", "#include <linux/sched.h>", "include/ includes"),
        ("include/slotscope/a.h", '#include "slotscope.h"', "include/ includes"),
        ("collector/base/version.h", '#include "ring/r.h"', "comes after base/"),
        ("collector/ring/r.h", '#include "cli/c.h"', "comes after ring/"),
        ("collector/track/t.h", '#include "ring/r.h"', "does without ring/ so far"),
        ("scripts/check_includes.py", "", "includes nothing of"),
        ("collector/README.md", "| `ring/` | 1 | x | y |", "has not the stages"),
        ("collector/ring/r.h", '#include "kmod/slotscope.h"', "no such file"),
        ("collector/ring/r.h", "#include <bpf/x.bpf.h>", "in quotes"),
        ("collector/cli/c.h", "#include <base/version.h>", "in quotes"),
        ("collector/ring/r.h", '#include "slotscope/a.h"', "with <>"),
        ("collector/ring/r.cc", '#include "y.skel.h"', "no BPF program makes it"),
        ("collector/cli/c.h", '#include "x.skel.h"', "only collector/ring/"),
        ("tests/unit/t.cc", '#include "x.skel.h"', "only collector/ring/"),
        ("tests/unit/t.cc", '#include "x.bpf.h"', "no such file"),
        ("collector/new/n.cc", "", "collector/STAGE/"),
        ("collector/n.cc", "", "collector/STAGE/"),
        ("collector/base/version.h", '#include "base/version.h"', "circular"),
        ("bpf/x.bpf.h", '#include "x.bpf.c"', "circular"),
        ("kmod/new.c", "", "not built"),
        ("kmod/Kbuild", "slotscope-y := main.o gone.o", "has no kmod/gone.c"),
        ("notes.txt", "", "the top level holds only"),
        ("bench/README.md", None, "missing"),
        ("LICENSE", None, "missing"),
        ("scripts/s.sh", "#!/bin/bash", "SPDX"),
        ("scripts/s.py", "", "SPDX"),
        ("dkms.conf", 'PACKAGE_VERSION="2"', "but kmod/slotscope.h has 1"),
        ("debian/changelog", "slotscope 2", "no version here"),
        ("collector/base/version.h", 'kVersion = "2";', "but kmod/slotscope.h has 1"),
        ("kmod/slotscope.h", "", "no version here"),
    ]
    failures = [f"reported: {finding}" for finding in check_all(good)]
    for path, text, words in cases:
        spoiled = {name: old for name, old in good.items() if name != path}
        if text is not None:
            # An #include is added to the file; anything else replaces it.
            keep = good.get(path, spdx) if text.startswith("#include") else "" if words == "SPDX" else spdx
            spoiled[path] = f"{keep}{text}\n"
        if not any(words in message for _, _, message in check_all(spoiled)):
            failures.append(f"not reported: {path} with {text!r}: {words}")
    return [("scripts/check_includes.py", 1, f"self-test: {failure}") for failure in failures]


def read_tree(top):
    """Every file that git tracks or would add, in the house's folders; at the top level the tracked ones only."""
    try:
        def git(*options):
            return subprocess.run(["git", "-C", top, "ls-files", "-z", *options], check=True,
                                  capture_output=True, text=True).stdout.split("\0")
        names = git() + [name for name in git("-o", "--exclude-standard") if "/" in name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        names = [str(path.relative_to(top)) for folder in FOLDERS for path in (top / folder).rglob("*")]
        names += [name for name in TOP_FILES]
    return {name: (top / name).read_text(encoding="utf-8", errors="replace")
            for name in sorted(set(names)) if (top / name).is_file()}


def main():
    if sys.argv[1:] == ["--self-test"]:
        findings = self_test()
    else:
        findings = check_all(read_tree(Path(__file__).resolve().parent.parent))
    print("".join(f"{path}:{line}: {message}\n" for path, line, message in findings), end="")
    return 1 if findings else 0


sys.exit(main())
