#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_docs.py [--self-test]: README.md and doc/ say what is there. "file: what to do" per finding, and exits 1 if there was one.

The README has at most 1,200 words; links lead somewhere; no output is missing; every chapter is in doc/README.md; and each message
in doc/troubleshooting.md is one that some source has.
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
MOST_WORDS = 1200
# Of others.
FOREIGN = {"Key was rejected by service", "lost:", "slotscope:"}


def anchors_of(text):
    made = {re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    return made | set(re.findall(r'<a id="([^"]+)"', text))


def findings(files, sources):
    """files: path -> text of README.md and doc/*.md; sources: one text."""
    words = len(files["README.md"].split())
    if words > MOST_WORDS:
        yield "README.md", f"it has {words} words: take some into doc/, {MOST_WORDS} are the most"
    for path, text in files.items():
        if re.search(r"<!-- output: \S+ -->\n```\n```", text):
            yield path, "an output is missing: make docs"
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"https?:", target):
                continue
            name, _, anchor = target.partition("#")
            there = str((Path(path).parent / name)) if name else path
            there = re.sub(r"^(doc/)?\.\./", "", there)
            if there in files:
                if anchor and anchor not in anchors_of(files[there]):
                    yield path, f"the link {target} leads to no heading"
            elif not (TOP / there).exists():
                yield path, f"the link {target} leads nowhere"
        if path.startswith("doc/") and path != "doc/README.md" and f"]({path[4:]})" not in files["doc/README.md"]:
            yield "doc/README.md", f"{path} is not in it"
    for message in re.findall(r"^\*\*`([^`]+)`", files["doc/troubleshooting.md"], re.M):
        if message not in FOREIGN and message not in sources:
            yield "doc/troubleshooting.md", f"no source says '{message}'"


def self_test():
    good = {"README.md": "a [b](doc/troubleshooting.md#x)", "doc/README.md": "[t](troubleshooting.md)",
            "doc/troubleshooting.md": "## X\n**`said so`** do this"}
    assert not list(findings(good, "it said so")), list(findings(good, "it said so"))
    bad = [("README.md", "word " * 1201, "words"), ("README.md", "[b](doc/none.md)", "leads nowhere"),
           ("README.md", "[b](doc/troubleshooting.md#y)", "no heading"), ("README.md", "<!-- output: a -->\n```\n```", "output is missing"),
           ("doc/README.md", "", "is not in it"), ("doc/troubleshooting.md", "**`never said`**", "no source says")]
    for path, text, finding in bad:
        found = list(findings({**good, path: text}, "it said so"))
        assert any(finding in what for _, what in found), (path, text, found)


def main():
    if "--self-test" in sys.argv:
        self_test()
    files = {str(path.relative_to(TOP)): path.read_text(encoding="utf-8") for path in [TOP / "README.md", *sorted((TOP / "doc").glob("*.md"))]}
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "collector", "kmod"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    # Texts in sources go over lines.
    sources = re.sub(r'"\s*\n\s*"', "", "\n".join((TOP / name).read_text(encoding="utf-8") for name in names if re.search(r"\.(cc|h|c|js)$", name)))
    found = sorted(set(findings(files, sources)))
    for path, what in found:
        print(f"{path}: {what}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
