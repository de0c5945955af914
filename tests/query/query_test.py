#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""query_test.py SLOTSCOPE: what slotscope query says, against the tables themselves; and the recipes of doc/query.md.

DuckDB is scripts/duckdb.sh's."""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SLOTSCOPE = str(Path(sys.argv[1]).resolve())
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}")


def run(*words, code=0, env=None):
    done = subprocess.run([SLOTSCOPE, *words], capture_output=True, text=True, env={**os.environ, **(env or {})})
    check(done.returncode == code, f"{words}: exit code {done.returncode}, not {code}: {done.stderr}")
    return done


def query(sql, *words):
    return json.loads(run("query", *words, "--json", sql).stdout or "[]")


def rows_of(recording, table):
    """By an own reader: zstdcat, and a comma between fields."""
    rows = []
    for path in sorted(Path(recording).glob(f"{table}-*.csv.zst")):
        text = subprocess.run(["zstdcat", path], capture_output=True, text=True, check=True).stdout
        lines = [line for line in text.splitlines() if not line.startswith("# ")]
        names = lines[0].split(",")
        rows += [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return rows


def is_number(text):
    return text.lstrip("-").replace(".", "", 1).isdigit()


def sums_of(rows, change=lambda column, number: number):
    """For each column: how many fields are not empty, and the sum of its numbers or of the lengths of its words."""
    sums = {}
    for row in rows:
        for column, text in row.items():
            nr, total = sums.get(column, (0, 0))
            if text:
                total += change(column, float(text) if "." in text and is_number(text) else int(text)) if is_number(text) else len(text.encode())
                nr += 1
            sums[column] = (nr, total)
    return sums


def is_equal(shown, truth):
    return shown.keys() == truth.keys() and all(
        shown[column][0] == nr and abs(shown[column][1] - total) <= 1e-9 * abs(total) for column, (nr, total) in truth.items())


def check_table(recording, table, where="", keep=lambda row: True, words=()):
    rows = [row for row in rows_of(recording, table) if keep(row)]
    check(len(rows) > 3, f"{table} {where}: there are rows to compare with")
    columns = list(rows[0])
    words_of = {row["column_name"] for row in query(f"DESCRIBE {table}", *words) if row["column_type"] == "VARCHAR"}
    parts = ", ".join(
        f'count("{column}"), coalesce(sum(' + (f'CASE WHEN regexp_full_match("{column}", \'-?[0-9]+\') THEN CAST("{column}" AS BIGINT) ELSE '
                                              f'strlen("{column}") END' if column in words_of else f'"{column}"') + "), 0)"
        for column in columns)
    answer = subprocess.run([SLOTSCOPE, "query", *words, f"SELECT {parts} FROM {table}", recording, "-o", "sums.csv"],
                            capture_output=True, text=True)
    check(answer.returncode == 0, f"{table}: {answer.stderr}")
    values = list(csv.reader(open("sums.csv", encoding="utf-8")))[1]
    shown = {column: (int(values[2 * i]), float(values[2 * i + 1])) for i, column in enumerate(columns)}
    truth = sums_of(rows)
    check(is_equal(shown, truth), f"{table} {where} is what its files have: " + "; ".join(
        f"{column}: {shown[column]}, in truth {truth[column]}" for column in columns if not is_equal({column: shown[column]}, {column: truth[column]})))
    # What this must not take for right.
    for mutant in (rows[1:], rows + rows[-1:], [{**row, "tgid": rows[i - 1]["tgid"]} if i else row for i, row in enumerate(rows[:-1])]):
        check(not is_equal(shown, sums_of(mutant)), f"{table}: a row too few, too many, or of another owner is noticed")
    number = "cpu_ns" if "cpu_ns" in columns else "ns" if "ns" in columns else "start_time_ns"
    check(not is_equal(shown, sums_of(rows, lambda column, value: value * 2 if column == number else value)),
          f"{table}: doubled values are noticed")


def check_recording(recording):
    for table in ("slots", "seconds", "minutes", "waits", "processes"):
        check_table(recording, table)
    check("empty" in run("query", " ;", code=2).stderr, "an empty query is refused")
    check(run("query", recording).stdout == run("query").stdout, "a recording alone is listed")
    check("no table gpu" in run("query", "FROM gpu", code=2).stderr, "a table that is not there is explained")
    tables = run("query").stdout
    for word in ("slots ", "waits ", "ran_instead_ns", "time"):
        check(word in tables, f"without SQL it says that there is {word}")


def check_selection(recording):
    rows = rows_of(recording, "slots")
    first = min(int(row["slot_start_unix_ns"]) for row in rows)
    pid = next(row["tgid"] for row in rows if row["kind"] == "user")
    comm = next(row["comm"] for row in reversed(rows) if row["kind"] == "user")
    from_ns, to_ns = first // 10**9 * 10**9 + 1_250_000_000, first // 10**9 * 10**9 + 2_750_000_000
    times = ["--since", f"@{from_ns / 1e9:.3f}", "--until", f"@{to_ns / 1e9:.3f}"]
    check_table(recording, "slots", "of a range", lambda row: from_ns <= int(row["slot_start_unix_ns"]) < to_ns, times)
    check_table(recording, "waits", "of a range", lambda row: from_ns <= int(row["slot_start_unix_ns"]) < to_ns, times)
    for table in ("seconds", "minutes"):
        check_table(recording, table, "of a range", lambda row: from_ns - int(row["slot_ns"]) < int(row["slot_start_unix_ns"]) < to_ns, times)
    check_table(recording, "slots", "of a process", lambda row: row["tgid"] == pid, ["--pid", pid])
    check_table(recording, "slots", "of a name", lambda row: row["comm"] == comm, ["--comm", comm])


def check_unfinished(recording):
    """The last segment is being written, and ends in the midst of a frame."""
    shutil.copytree(recording, "live.rec")
    whole = len(rows_of(recording, "slots"))
    for table in ("slots", "waits", "seconds", "minutes", "processes"):
        last = sorted(Path("live.rec").glob(f"{table}-*.csv.zst"))[-1]
        last.rename(f"{last}.part")
    Path("live.rec/manifest.ndjson").write_text(Path("live.rec/manifest.ndjson").read_text().splitlines()[0] + "\n")
    shown = json.loads(run("query", "--json", "SELECT count(*) AS n FROM slots", "live.rec").stdout)[0]["n"]
    check(shown == whole, f"what is being written is there: {shown} of {whole} rows")
    last = sorted(Path("live.rec").glob("slots-*.part"))[-1]
    os.truncate(last, last.stat().st_size - 10)
    shown = json.loads(run("query", "--json", "SELECT count(*) AS n FROM slots", "live.rec").stdout)[0]["n"]
    read = len(run("explain", "--rows", "slots", "live.rec").stdout.splitlines())
    check(0 < shown < whole, f"of a frame that is cut nothing is taken: {shown} of {whole} rows")
    check(abs(read - shown) < 40, f"as explain --rows does: {read} lines, {shown} rows")


def check_outputs(recording):
    sql = "SELECT time, tgid, comm, cpu_ns FROM slots WHERE tgid > 0 ORDER BY cpu_ns DESC, tgid, slot_start_ns LIMIT 50"
    for name in ("x.parquet", "x.csv", "x.json", "x.ndjson"):
        run("query", sql, recording, "-o", name)
        check(os.stat(name).st_mode & 0o777 == 0o640, f"{name}: others may not read it")
    check(not list(Path(".").glob("*.part")), "nothing is left beside what was written")
    lists = [list(csv.DictReader(open("x.csv", encoding="utf-8"))), json.load(open("x.json", encoding="utf-8")),
             [json.loads(line) for line in open("x.ndjson", encoding="utf-8")],
             json.loads(run("query", "--json", "FROM 'x.parquet'", recording).stdout)]
    for rows in lists:
        check([str(row["cpu_ns"]) for row in rows] == [row["cpu_ns"] for row in lists[0]], "all formats have the same rows, in that order")
    table = run("query", sql + " -- a comment;", recording).stdout.splitlines()
    check(len(table) == 52 and table[-1] == "50 rows" and table[0].split() == ["time", "tgid", "comm", "cpu_ns"], f"as text: {table[:2]}")
    by_order = [int(line.split()[-1]) for line in table[1:-1]]
    check(by_order == sorted(by_order, reverse=True), "rows are in the order that was asked for")


def check_errors(recording):
    told = run("query", "FROM slots", recording, "-o", "/nowhere/x.csv", code=6).stderr
    check("cannot write /nowhere/x.csv: No such file" in told, f"a file that cannot be written: {told}")
    check("SLOTSCOPE_DUCKDB" in run("query", "SELECT 1", recording, code=2, env={"SLOTSCOPE_DUCKDB": "/nowhere.so"}).stderr,
          "a library that is not there is named")
    wrong = run("query", "SELEC 1", recording, code=2).stderr
    check("SELEC 1" in wrong and "COPY" not in wrong, f"what is wrong is told of the query as it was given: {wrong}")
    for statement in ("CREATE TABLE x (a INT)", "COPY (SELECT 1) TO 'side.csv'", "SELECT 1; COPY (SELECT 1) TO 'side.csv'"):
        check("one statement" in run("query", statement, recording, code=2).stderr, f"{statement}: refused")
    check(not os.path.exists("side.csv"), "and not done")
    check(".parquet" in run("query", "SELECT 1", recording, "-o", "x.txt", code=2).stderr, "an unknown kind of file is refused")
    unknown = run("query", "SELECT nosuch FROM slots", recording, code=2).stderr
    check("nosuch" in unknown and "COPY" not in unknown, "an unknown column is named, and no SQL of ours")
    unknown = run("query", "FROM slotz", recording, code=2).stderr
    check("no table slotz" in unknown and "slots, seconds" in unknown, "an unknown table: which there are")
    check(run("query", recording, "FROM slots LIMIT 1").stdout == run("query", "FROM slots LIMIT 1", recording).stdout, "the recording may come first")
    shutil.copytree(recording, "hurt")
    slots = sorted(Path("hurt").glob("slots-*.zst"))
    slots[0].write_bytes(slots[0].read_bytes()[:-9] + b"\0" * 9)
    check("it is damaged at byte" in run("query", "SELECT sum(cpu_ns) FROM slots", "hurt", code=9).stderr, "damage is told as explain tells it")
    slots[0].unlink()
    for words in (["query", "SELECT 1", "hurt"], ["explain", "hurt"]):
        done = run(*words, code=9)
        check(f"{slots[0]} is missing" in done.stderr, f"{words}: a segment is missing")
        check("Quiet" not in done.stdout, f"{words}: what could not be read is not quiet")
    for path in Path("hurt").glob("processes-*.zst"):
        path.unlink()
    done = run("explain", "hurt", code=9)
    check("could not be read" in done.stdout, "who is who is missing, and the rest is told")
    check("processes-" in run("explain", "hurt", "--rows", "waits", code=9).stderr, "rows are told, and what is missing as well")
    for statement in ("INSTALL httpfs", "LOAD httpfs"):
        check("one statement" in run("query", statement, recording, code=2).stderr, f"{statement}: refused")
    far = run("query", "FROM read_csv('https://example.invalid/x.csv')", recording, code=2).stderr
    check("httpfs" in far and "download" not in far.lower(), f"no extension is downloaded: {far}")
    with open("damaged.csv", "w", encoding="utf-8") as file:
        file.write("slot_start_ns,slot_start_unix_ns,tgid,comm,kind,cpu_ns,slot_ns\n1,1700000000000000000,1,a,user,x,1000000\n")
    check("cpu_ns" in run("query", "SELECT sum(cpu_ns) FROM slots", "damaged.csv", code=2).stderr, "a field that is no number is an error")


def check_recipes(recording):
    """Blocks of doc/query.md that say what they are."""
    text = (TOP / "doc/query.md").read_text(encoding="utf-8")
    os.makedirs("recipes", exist_ok=True)
    if not os.path.exists("recipes/slotscope.rec"):
        os.symlink(os.path.abspath(recording), "recipes/slotscope.rec")
    nr = 0
    for block in text.split("```")[1::2]:
        kind, _, body = block.partition("\n")
        if kind == "python":
            done = subprocess.run(["/usr/bin/python3", "-c", body], capture_output=True, text=True, cwd="recipes")
        elif kind == "sql":
            done = subprocess.run([SLOTSCOPE, "query", body], capture_output=True, text=True, cwd="recipes")
        elif kind == "sh":
            done = subprocess.run(["sh", "-ec", body], capture_output=True, text=True, cwd="recipes",
                                  env={**os.environ, "PATH": f"{os.path.dirname(SLOTSCOPE)}:{os.environ['PATH']}"})
        else:
            continue
        nr += 1
        check(done.returncode == 0 and done.stdout.strip(), f"{body}: {done.stdout} {done.stderr}")
    check(nr >= 5, f"{nr} recipes were run")


def main():
    os.environ["SLOTSCOPE_DUCKDB"] = subprocess.run([TOP / "scripts/duckdb.sh"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run("gen", "--milliseconds", "3200", "--processes", "60", "--switches", "1500", "--waits", "--lost", "50", "--seed", "21", "machine.raw")
        run("replay", "machine.raw", "--segment", "1", "-o", "slotscope.rec")
        check(len(list(Path("slotscope.rec").glob("slots-*"))) > 2, "there are several segments")
        check_recording("slotscope.rec")
        check_selection("slotscope.rec")
        check_unfinished("slotscope.rec")
        check_outputs("slotscope.rec")
        check_errors("slotscope.rec")
        check_recipes("slotscope.rec")
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
