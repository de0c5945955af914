#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""page_test.py [--shots FOLDER] SLOTSCOPE: the report's page in headless Chromium, against the tables that it is made of."""
import csv
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path

RIGHT = "\ue014"  # as WebDriver calls that key
CAUSES = {"self", "throttled", "wakeup", "steal", "unknown"}
OTHERS = "others, not known who"
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}")


class Browser:
    """WebDriver's protocol, as far as this needs it."""

    def __init__(self, width, height):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.profile = tempfile.TemporaryDirectory()
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}", "--log-level=SEVERE"], stdout=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            try:
                if self.call("GET", "/status")["ready"]:
                    break
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > deadline:
                raise SystemExit("chromedriver does not answer")
            time.sleep(0.05)
        options = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},{height}",
                     f"--user-data-dir={self.profile.name}"],
            "binary": "/usr/bin/chromium",
        }
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += f"/session/{session['sessionId']}"

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if method == "GET" or method == "DELETE" else json.dumps(body or {}).encode())
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error.read().decode()[:600]}")

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def open(self, path, hash_=""):
        self.call("POST", "/url", {"url": "about:blank"})
        begun = time.monotonic()
        self.call("POST", "/url", {"url": f"file://{path}{hash_}"})
        deadline = time.monotonic() + 60
        while not self.run("return document.body.dataset.ready || ''"):
            if time.monotonic() > deadline:
                raise SystemExit("the page does not get ready")
            time.sleep(0.02)
        return time.monotonic() - begun

    def keys(self, text):
        for key in text:
            self.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": [
                {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def drag(self, from_, to):
        at = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)} for x, y in (from_, to)]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "m", "parameters": {"pointerType": "mouse"},
                                                    "actions": [at[0], {"type": "pointerDown", "button": 0}, at[1], {"type": "pointerUp", "button": 0}]}]})

    def errors(self):
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def picture(self, path):
        import base64
        Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        self.call("DELETE", "")
        self.driver.terminate()
        self.driver.wait()


def rows_of(recording, table):
    for path in sorted(Path(recording).glob(f"{table}-*.csv.zst")):
        text = subprocess.run(["zstdcat", path], check=True, capture_output=True, text=True).stdout
        yield from csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def number(text):
    return float(text.replace("\u2212", "-")) if text else 0.0


def shown_matrix(browser):
    """(waiter, column) -> ms; a column is who ran instead, or why."""
    table = browser.run("""return [...document.querySelectorAll('#matrix tr')].map(
        (row) => [...row.children].map((cell) => cell.title || cell.textContent))""")
    if not table:  # nobody waited
        return {}
    head = table[0]
    return {(row[0], head[i]): number(row[i]) for row in table[1:] for i in range(1, len(row)) if row[i]}


def truth_of(recording, names, from_ns, to_ns, scale=1, late_ms=0, swap=()):
    """The same from the table waits; with what a mutant does to it. names: of processes as the page calls them, by pid."""
    swap = dict([swap, swap[::-1]]) if swap else {}
    sums = defaultdict(float)
    for row in rows_of(recording, "waits"):
        at = int(row["slot_start_unix_ns"]) + late_ms * 1_000_000
        ms = int(row["ns"]) / 1e6 * scale
        waiter = names.get(int(row["tgid"]), "other processes")
        waiter = swap.get(waiter, waiter)
        cause = row["cause"]
        if cause == "earlier":  # it stands where it was waited, not where it was told
            begin, end = (at + int(row[which]) - int(row["slot_start_ns"]) for which in ("wait_start_ns", "wait_until_ns"))
            passed = min(end, to_ns) - max(begin, from_ns)
            if passed <= 0:
                continue
            ms *= passed / (end - begin)
            cause = row["earlier_cause"]
        # The page has bins of 10 ms.
        elif not from_ns <= at // 10_000_000 * 10_000_000 < to_ns:
            continue
        if cause == "others" and row["ran_tgid"]:
            sums[waiter, names.get(int(row["ran_tgid"]), "other processes")] += ms
        elif cause == "others":
            sums[waiter, OTHERS] += ms
        elif cause in CAUSES:
            sums[waiter, cause] += ms
    return sums


def cells_of(shown):
    """Those of one cause or culprit."""
    return {key: ms for key, ms in shown.items() if key[-1] != "in all" and "others" not in key[-1]}


def differences(shown, truth):
    """(cell, shown, true) of each that is shown and is further off than a fiftieth and what is rounded in it."""
    return [(key, ms, truth.get(key, 0)) for key, ms in cells_of(shown).items()
            if abs(ms - truth.get(key, 0)) > 0.02 * truth.get(key, 0) + 0.3]


def agrees(shown, truth):
    return len(cells_of(shown)) > 3 and not differences(shown, truth)


def test_small(browser, slotscope, folder, shots):
    recording, page = folder / "rec", folder / "report.html"
    # Other tests that run at this time have processes of other names. A hog on a CPU that another process has shared with nobody, for a second.
    script = folder / "job.py"
    script.write_text("""
import os, sys, time
def work(seconds, on, off):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    open('/proc/self/comm', 'w').write(sys.argv[1])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        until = time.monotonic() + on
        while time.monotonic() < until: pass
        if off: time.sleep(off)
if sys.argv[1] == 'page-web': work(6, 0.002, 0.006)
else: work(1, 1, 0)
""")
    subprocess.run([slotscope, "record", "--source", os.environ.get("SLOTSCOPE_TEST_SOURCE", "bpf"), "--all", "-o", recording, "--", "sh", "-c",
                    f"python3 {script} page-web & sleep 3; python3 {script} page-hog; wait"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told = subprocess.run([slotscope, "report", recording, "-o", page], check=True, capture_output=True, text=True).stdout
    print(told.strip())
    print(f"ready after {browser.open(page):.2f} s")
    check(browser.run("return document.body.dataset.ready") == "yes", "the page is ready")
    answer = browser.run("return document.getElementById('answer').innerText")
    explained = json.loads(subprocess.run([slotscope, "explain", "--json", recording], check=True, capture_output=True, text=True).stdout)
    sentences = [moment["sentence"] for moment in explained["moments"]] or ["Nobody is accused"]
    check(sentences[0] in answer, f"the answer is what explain says first: {answer}; {sentences}")
    quality = browser.run("return document.getElementById('quality').innerText")
    check("not measured: perf counters, GPU activity, memory traffic" in quality, f"the state of the data: {quality}")
    check(browser.run("return performance.getEntriesByType('resource').length") == 0, "nothing is fetched")
    check(browser.run("return document.documentElement.scrollWidth <= window.innerWidth"), "it is no wider than the window")
    if shots:
        browser.picture(f"{shots}/first.png")

    # What is selected is shown: two seconds from a whole bin on, a tenth after the other, so that what is late is in another one.
    state = json.loads(browser.run("return document.getElementById('data').textContent"))
    names = {process["pid"]: process["name"] for process in state["processes"]}
    begin = 10 - round(state["from_ms"]) % 10 + 2500
    browser.open(page, f"#from={begin}&to={begin + 100}")
    browser.run("for (const b of document.querySelectorAll('#matrix button')) if (b.textContent === 'by name') b.click()")
    spans = [(round(state["from_ms"]) + begin + 100 * i) * 1_000_000 for i in range(20)]
    shown = {}
    for i in range(20):
        shown.update({(i, *key): ms for key, ms in shown_matrix(browser).items()})
        browser.keys(RIGHT)

    def truth_by_span(**mutant):
        return {(i, *key): ms for i, from_ns in enumerate(spans)
                for key, ms in truth_of(recording, names, from_ns, from_ns + 100_000_000, **mutant).items()}
    truth = truth_by_span()
    silent = [(key, ms) for key, ms in truth.items() if ms > 0.3 and not any(cell[0] == key[0] for cell in shown)]
    check(not silent, f"where the page says that nobody waited, nobody did: {silent[:4]}")
    check(agrees(shown, truth), f"the matrix is that of the table waits: {differences(shown, truth)[:8]}; of {len(cells_of(shown))} cells")
    for what, mutant in (("doubled", {"scale": 2}), ("100 ms late", {"late_ms": 100}), ("swapped", {"swap": ("page-web", "page-hog")})):
        check(not agrees(shown, truth_by_span(**mutant)), f"a matrix with values {what} would be noticed")

    # CPU time of a process, as the table slots has it.
    data = {(process["name"], process["pid"]): process["cpu_ms"] for process in state["processes"]}
    sums = defaultdict(float)
    for row in rows_of(recording, "slots"):
        if row["tgid"]:
            sums[int(row["tgid"])] += int(row["cpu_ns"]) / 1e6
    for name in ("page-web", "page-hog"):
        ((_, pid), ms), = [item for item in data.items() if item[0][0] == name]
        check(abs(ms - sums[pid]) <= 0.02 * sums[pid] + 2, f"CPU time of {name}: {ms} shown, {sums[pid]} recorded")
        check(abs(ms - 2 * sums[pid]) > 0.02 * sums[pid] + 2, f"twice the CPU time of {name} would be noticed")

    # By mouse and keys.
    box = browser.run("const b = document.getElementById('cells').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]")
    title = "return document.querySelector('#matrix h2').textContent"
    before = browser.run(title)
    browser.drag((box[0] + 200, box[1] + 20), (box[0] + 200, box[1] + box[3] / 2))
    dragged = browser.run(title)
    check(dragged != before, f"a drag selects: {dragged}")
    browser.keys("n")
    check((browser.run(title) != dragged) == bool(state["moments"]), "n goes to a moment, if there is one")
    browser.keys("2")
    check(browser.run("return document.querySelector('[data-metric=cpu]').getAttribute('aria-pressed')") == "true", "2 shows CPU")
    check("busy" in browser.run("return document.getElementById('scale').textContent"), "the scale says what it is of")
    axis = "return document.querySelector('#map svg').textContent"
    before = browser.run(axis)
    browser.keys("++")
    check(browser.run(axis) != before, "+ zooms in")
    check("divided" in browser.run("return document.getElementById('under').textContent"), "zoomed in, milliseconds are shown")
    if shots:
        browser.picture(f"{shots}/zoomed.png")
    browser.keys("0t")
    check(browser.run("return /dark|light/.test(document.documentElement.className)"), "t changes the theme")
    browser.keys("3")
    check("hatched" in browser.run("return document.getElementById('under').textContent"), "what was not measured can be looked at")
    dark = browser.run("""const c = document.getElementById('cells'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let nr = 0; for (let i = 3; i < d.length; i += 4) nr += d[i] > 0; return nr / (d.length / 4)""")
    check(0.02 < dark < 0.6, f"not measured is hatched, not filled: {dark:.2f} of it is drawn")
    if shots:
        browser.picture(f"{shots}/unmeasured.png")
    check(not browser.errors(), "the page has no errors")


def test_quiet(browser, slotscope, folder):
    page = folder / "quiet.html"
    slots = folder / "quiet.csv"
    lines = ["slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns,slot_ns"]
    for ms in range(3000):
        lines.append(f"{ms * 1000000},{1795754628000000000 + ms * 1000000},0,0,idle,idle,2000000,1000000")
    slots.write_text("\n".join(lines) + "\n")
    subprocess.run([slotscope, "report", slots, "-o", page], check=True, stdout=subprocess.DEVNULL)
    browser.open(page)
    check("Nobody is accused" in browser.run("return document.getElementById('answer').innerText"), "a quiet recording accuses nobody")
    check("not measured: waiting" in browser.run("return document.getElementById('quality').innerText"), "waiting was not measured")
    check("waiting was not measured" in browser.run("return document.querySelector('#overview h2').textContent"), "so does the overview")
    check("Waiting was not measured" in browser.run("return document.getElementById('matrix').innerText"), "the matrix says so")
    check(not browser.errors(), "a quiet page has no errors")


def test_starved(browser, slotscope, folder):
    """A GPU that has no work for a half of each millisecond, in the second of three: the lane says so, there and nowhere else."""
    page, slots = folder / "starved.html", folder / "starved.csv"
    begin_ns, starved = 1795754628000000000, range(1000, 1600)
    causes = ["ran", "in_calls", "waited", "throttled", "cuda_wait", "disk", "stopped", "asleep", "unknown"]
    lines = ["slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns,gpu_active_ns,gpu_launches,slot_ns,gpu_no_work_ns,"
             + ",".join(f"gpu_no_work_{cause}_ns" for cause in causes)]
    for ms in range(3000):
        no_work = 500000 if ms in starved else 0
        begins = f"{ms * 1000000},{begin_ns + ms * 1000000}"
        lines.append(f"{begins},77,5,train,user,400000,{1000000 - no_work},1,1000000,{no_work},{no_work}" + ",0" * 8)
        lines.append(f"{begins},0,0,idle,idle,1600000,,,1000000" + "," * 10)
    slots.write_text("\n".join(lines) + "\n")
    subprocess.run([slotscope, "report", slots, "-o", page], check=True, stdout=subprocess.DEVNULL)
    browser.open(page)
    browser.run("document.querySelector('[data-metric=nowork]').click()")
    check(browser.run("return document.querySelector('[data-metric=nowork]').getAttribute('aria-pressed')") == "true", "GPU no work is shown")
    tips = browser.run("""const c = document.getElementById('cells'), box = c.getBoundingClientRect(), tips = [];
        for (let x = 2; x < box.width; x += 40) for (let y = 2; y < box.height; y += 2) {
            c.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + x, clientY: box.top + y}));
            tips.push(document.getElementById('tip').innerText);
        }
        return tips""")
    shown = {}
    for tip in tips:
        told = re.match(r"\d\d:\d\d:(\d\d)\.(\d\d\d).*\n.*: ([0-9.]+) processes that launch", tip)
        if told:
            shown[int(told[1]) * 1000 + int(told[2]) - begin_ns // 1000000 % 60000] = float(told[3])

    def truth(factor=1, late_ms=0):
        return {ms: 0.5 * factor if ms - late_ms in starved else 0 for ms in shown}
    check(len(shown) > 100 and shown == truth(), f"what a GPU had no work is where it was: {sorted(shown.items())[:5]} of {len(shown)}")
    check(shown != truth(factor=2) and shown != truth(late_ms=100), "twice as much, or a tenth of a second late, would be noticed")
    check(not browser.errors(), "a page of a starved GPU has no errors")


def test_large(browser, slotscope, folder, shots):
    """Of 10 million rows: below 10 MB, and soon there."""
    raw, recording, page = folder / "large.raw", folder / "large", folder / "large.html"
    nr_rows = int(os.environ.get("SLOTSCOPE_PAGE_ROWS", "300000"))
    cpus, per_ms = 8, 60
    subprocess.run([slotscope, "gen", "--waits", "--cpus", str(cpus), "--processes", "400", "--switches", "6000", "--births", "50",
                    "--milliseconds", str(max(2000, nr_rows // per_ms)), raw], check=True)
    told = subprocess.run([slotscope, "replay", raw, "-o", recording], check=True, capture_output=True, text=True).stdout
    raw.unlink()
    print([line for line in told.splitlines() if "rows in" in line])
    begun = time.monotonic()
    print(subprocess.run([slotscope, "report", recording, "-o", page], check=True, capture_output=True, text=True).stdout.strip())
    took = time.monotonic() - begun
    size = page.stat().st_size
    ready = browser.open(page)
    print(f"{size / 1e6:.1f} MB, made in {took:.1f} s, ready after {ready:.2f} s")
    check(size < 10e6, f"the page has {size / 1e6:.1f} MB")
    check(browser.run("return document.body.dataset.ready") == "yes", "a large page is ready")
    check(browser.run("return document.querySelectorAll('#matrix tbody tr').length") > 3, "a large page has a matrix")
    check(not browser.errors(), "a large page has no errors")
    if shots:
        browser.picture(f"{shots}/large.png")


def main():
    args = sys.argv[1:]
    shots = None
    if args[:1] == ["--shots"]:
        shots = args[1]
        os.makedirs(shots, exist_ok=True)
        args = args[2:]
    slotscope = os.path.abspath(args[0])
    if os.geteuid() != 0:
        print("to record needs root")
        sys.exit(77)
    browser = Browser(1280, 900)
    try:
        with tempfile.TemporaryDirectory(prefix="slotscope-page-") as folder:
            test_quiet(browser, slotscope, Path(folder))
            test_starved(browser, slotscope, Path(folder))
            test_small(browser, slotscope, Path(folder), shots)
            test_large(browser, slotscope, Path(folder), shots)
    finally:
        browser.close()
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
