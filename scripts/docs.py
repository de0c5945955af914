#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs.py SLOTSCOPE: makes the outputs in README.md and doc/, doc/report.png and doc/demo.png, anew: what slotscope says on this machine.

A block of code behind "<!-- output: NAME -->" is what NAME printed. Needs root; for the picture chromium. Look at what changed
before you keep it.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
SLOTSCOPE = Path(sys.argv[1]).resolve()
# A command of some seconds, for "what did it cost".
BUSY = "for i in 1 2 3; do (for k in $(seq 400); do sort -R /etc/services | sha256sum >/dev/null; done) & done; wait"


def shell(script, folder):
    """What it prints, standard error included."""
    environment = {**os.environ, "PATH": f"{SLOTSCOPE.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        sys.exit(f"docs.py: {script}: exit code {done.returncode}: {done.stdout}")
    return done.stdout


def picture(page, name):
    """The first screen of a page, as doc/NAME."""
    subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,900",
                    "--virtual-time-budget=5000", f"--screenshot={TOP}/doc/{name}", f"file://{page}"],
                   check=True, capture_output=True)


def blocks_of(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def main():
    outputs = {}
    with tempfile.TemporaryDirectory() as folder:
        steps = blocks_of((TOP / "doc/tutorial.md").read_text(encoding="utf-8"), "sh")
        shell(steps[0], folder)
        outputs["tutorial-explain"] = shell(steps[1], folder)
        outputs["explain"] = shell("cd tutorial && slotscope explain", folder)
        shell(steps[2], folder)
        # Where no recording is: it records itself.
        outputs["top"] = shell("mkdir live && cd live && (taskset -c 0 ../web & (for i in 1 2 3 4; do taskset -c 0 ../backup; done) & sleep 0.2; "
                               "slotscope top --once -n 4; kill %1) 2>/dev/null", f"{folder}/tutorial")
        outputs["record"] = shell(f"slotscope record -- bash -c '{BUSY}'", folder)
        picture(f"{folder}/tutorial/report.html", "report.png")
        shell(f"{TOP}/scripts/demo/demo.sh {SLOTSCOPE.parent}", folder)
        picture(f"{folder}/slotscope-demo/report.html", "demo.png")
    for path in [TOP / "README.md", *sorted((TOP / "doc").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")

        def filled(match):
            name = match.group(1)
            if name not in outputs:
                sys.exit(f"docs.py: {path}: there is no output '{name}'")
            return f"<!-- output: {name} -->\n```\n{outputs[name].strip()}\n```"

        new = re.sub(r"<!-- output: (\S+) -->\n```\n(?:.*?\n)??```", filled, text, flags=re.S)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"docs.py: {path.relative_to(TOP)}")


if __name__ == "__main__":
    main()
