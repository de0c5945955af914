#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ship_test.py SLOTSCOPE [LIBRARY]: what slotscope ship puts into Debian's ClickHouse, against the recording itself; killed, stopped, refused and
full servers, killed shippers; the questions of doc/fleet-database.md, as DuckDB answers them; the dashboards' questions.

The server is scripts/clickhouse.sh's; with a LIBRARY, scripts/chdb.sh's, less is tested of today's engine. As root also: a full disk, and a recording that is being made."""
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

from server import ClickHouse, NewerClickHouse, free_port, server_program

SLOTSCOPE = str(Path(sys.argv[1]).resolve())
IS_ROOT = os.geteuid() == 0
METRICS_PORT = free_port()
failures = []
folder = Path(tempfile.mkdtemp(prefix="slotscope-ship-"))
random.seed(int(os.environ.get("SLOTSCOPE_SEED", "1")))


def check(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


def run(*words, code=0):
    done = subprocess.run([SLOTSCOPE, *map(str, words)], capture_output=True, text=True)
    check(done.returncode == code, f"{words}: exit code {done.returncode}, not {code}: {done.stderr[-600:]}")
    return done


def ship(server, *words, code=0):
    return run("ship", "--clickhouse", server.url, *words, code=code)


def make(name, milliseconds, segment, *more):
    """A recording of a machine that does not exist."""
    raw, recording = folder / f"{name}.raw", folder / f"{name}.rec"
    run("gen", "--milliseconds", milliseconds, "--waits", *more, raw)
    run("replay", raw, "-o", recording, "--segment", segment)
    raw.unlink()
    return recording


def tables_of(recording):
    """Those that are shipped."""
    return sorted({path.name.split("-")[0] for path in Path(recording).glob("*.csv.zst")} - {"minutes"})


def normal(line, numbers):
    """With numbers of a few digits as any program prints them."""
    if not numbers:
        return line
    fields = line.split(",")
    for place in numbers:
        if fields[place]:
            fields[place] = repr(float(fields[place]))
    return ",".join(fields)


def rows_in(recording, table):
    """(columns, line -> how often), by an own reader."""
    columns, lines = "", Counter()
    for path in sorted(Path(recording).glob(f"{table}-*.csv.zst")):
        text = subprocess.run(["zstdcat", path], check=True, capture_output=True, text=True).stdout
        own = [line for line in text.splitlines() if not line.startswith("# ")]
        check(columns in ("", own[0]), f"{path}: its columns are others")
        columns = own[0]
        numbers = [i for i, name in enumerate(columns.split(",")) if name.endswith("_pct")]
        lines.update(normal(line, numbers) for line in own[1:])
    return columns.split(","), lines


def rows_out(server, table, columns, where="1"):
    """The same of the server, which escapes what is escaped already."""
    names = ", ".join(f"`{name}`" for name in columns)
    numbers = [i for i, name in enumerate(columns) if name.endswith("_pct")]
    lines = server.ask(f"SELECT {names} FROM {table} WHERE {where}").splitlines()
    return Counter(normal(line.replace("\\N", "").replace("\t", ",").replace("\\\\", "\\"), numbers) for line in lines)


def agrees(truth, shipped):
    return truth == shipped


def check_rows(server, recording, what, where="1"):
    nr = 0
    for table in tables_of(recording):
        columns, truth = rows_in(recording, table)
        shipped = rows_out(server, table, columns, where)
        lacking, more = truth - shipped, shipped - truth
        check(agrees(truth, shipped), f"{what}: of {table} {sum(lacking.values())} rows of {sum(truth.values())} are not there, and {sum(more.values())} are that should "
              f"not; such as {list(lacking)[:1]} and {list(more)[:1]}")
        check(sum(truth.values()) > 0, f"{what}: {table} has no rows")
        for mutant in mutants(truth):
            check(not agrees(mutant, shipped), f"{what}: a mutant of {table} would be noticed")
        nr += sum(truth.values())
    return nr


def mutants(truth):
    """A row less, one twice, and a number of one in another."""
    first = next(iter(truth))
    yield truth - Counter([first])
    yield truth + Counter([first])
    fields = first.split(",")
    place = max(i for i, field in enumerate(fields) if field.isdigit())
    fields[place] = str(int(fields[place]) + 1)
    yield truth - Counter([first]) + Counter([",".join(fields)])


def fresh(server):
    server.ask("DROP DATABASE IF EXISTS slotscope")
    ship(server, "--set-up")


def follow(server, recording, *words, url=None):
    """(process, its output's file)."""
    out = open(folder / "follow", "w+b")
    process = subprocess.Popen([SLOTSCOPE, "ship", "--clickhouse", url or server.url, "--follow", *map(str, words), recording], stdout=out, stderr=out)
    return process, out


def ends(process, out):
    process.send_signal(signal.SIGINT)
    check(process.wait(60) == 0, "a shipper that is stopped ends with 0")
    out.seek(0)
    return out.read().decode()


def wait_for(condition, what, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            check(False, f"not within {seconds} s: {what}")
            return False
        time.sleep(0.1)
    return True


def said(out, sentence):
    out.flush()
    return sentence in (folder / "follow").read_text(errors="replace")


def test_all_of_it(server, recording):
    fresh(server)
    check("up to date" in ship(server, "--set-up").stdout, "to set it up twice is to have it")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = ship(server, recording).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    nr = check_rows(server, recording, "shipped")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{nr} rows, {cpu_s:.2f} s of CPU time: {cpu_s / nr * 1e6:.2f} s for a million; {told.strip()}")
    check(f"shipped {nr} rows" in told, f"it says how many: {told}, not {nr}")
    again = ship(server, recording).stdout
    check("shipped 0 rows" in again and "0.0 kB sent" in again, f"nothing is sent twice: {again}")
    states = server.rows("SELECT state, sum(rows), count() FROM batches GROUP BY state")
    check(states == [["shipped", str(nr), str(sum(len(list(recording.glob(f'{t}-*'))) for t in tables_of(recording)))]], f"the batches are entered: {states}")
    check(server.ask("SELECT count() FROM lost_batches") == "0\n", "nothing was lost")
    # What the batches' table has lost is not sent again, either: the rows are there.
    server.ask("TRUNCATE TABLE batches")
    told = ship(server, recording).stdout
    check("0.0 kB sent" in told and "were there already" in told, f"rows are asked for before they are sent: {told}")
    check_rows(server, recording, "shipped again")
    kinds = dict(server.rows("SELECT name, type FROM system.columns WHERE database = 'slotscope' AND table = 'slots'"))
    check(kinds["slot_start_ns"] == "UInt64" and kinds["cycles"] == "Nullable(UInt64)", f"types: {kinds}")


def test_killed_shippers(server, recording):
    """At any moment, many times; the last one goes through."""
    fresh(server)
    begun = time.monotonic()
    ship(server, recording)
    whole_s = time.monotonic() - begun
    nr_killed = 0
    for i in range(60):
        if nr_killed == 8:
            break
        if i % 4 == 0:  # what is there already takes no time
            fresh(server)
        process = subprocess.Popen([SLOTSCOPE, "ship", "--clickhouse", server.url, recording], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(random.uniform(0.1, 0.8) * whole_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            nr_killed += 1
    check(nr_killed == 8, f"only {nr_killed} shippers were killed")
    # What was under way when it was killed is done, or not.
    done = subprocess.run([SLOTSCOPE, "ship", "--clickhouse", server.url, recording], capture_output=True, text=True)
    check(done.returncode == 0, f"the last one: {done.stderr}")
    print(f"{nr_killed} shippers were killed")
    check_rows(server, recording, "after kills of the shipper")


def nr_batches(server):
    return int(server.ask("SELECT uniqExact(batch) FROM batches"))


def nr_of(recording):
    return sum(len(list(recording.glob(f"{table}-*"))) for table in tables_of(recording))


def nr_rows_out(server, recording):
    return {table: int(server.ask(f"SELECT count() FROM {table}")) for table in tables_of(recording)}


def nr_rows_in(recording):
    return {table: sum(rows_in(recording, table)[1].values()) for table in tables_of(recording)}


def test_killed_server(server, recording):
    """In the midst of it, three times."""
    fresh(server)
    begun = time.monotonic()
    ship(server, recording)
    whole_s = time.monotonic() - begun
    nr_killed = 0
    for _ in range(20):
        if nr_killed == 3:
            break
        fresh(server)
        process, out = follow(server, recording)
        time.sleep(random.uniform(0.1, 0.5) * whole_s)
        is_midst = nr_batches(server) < nr_of(recording)
        server.kill()
        if is_midst:
            nr_killed += 1
            wait_for(lambda: said(out, "does not answer"), "it says that the server is away", 30)
        server.start()
        wait_for(lambda: nr_batches(server) == nr_of(recording), "all is shipped after the server was killed")
        ends(process, out)
        check_rows(server, recording, "after a kill of the server")
    check(nr_killed == 3, f"only {nr_killed} servers were killed in the midst of it")


def test_a_server_that_stands_still(server, recording):
    """For longer than a shipper waits: what it was sent is carried out later, when it was sent again already."""
    truth = nr_rows_in(recording)
    for part in (0.1, 0.3, 0.5):
        fresh(server)
        os.environ["SLOTSCOPE_TEST_SILENCE_S"] = "1"
        process, out = follow(server, recording)
        del os.environ["SLOTSCOPE_TEST_SILENCE_S"]
        time.sleep(part)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        check(process.poll() is None, "it waits for who stands still")
        server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: nr_batches(server) == nr_of(recording), "all is shipped after the server stood still")
        check(not said(out, "does not answer") or said(out, "it has been asked, and has said nothing for 1 s"), "who stands still is told apart from who is not there")
        wait_for(lambda: nr_rows_out(server, recording) == truth, "what is there twice becomes one", 60)
        ends(process, out)
        check_rows(server, recording, "after it stood still")


def metrics():
    """Of the shipper that follows, without what their names have in common."""
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as page:
        lines = [line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#")]
    return {name.removeprefix("slotscope_ship_"): float(value) for name, value in lines if name.startswith("slotscope_ship_")}


def metrics_or_none():
    try:
        return metrics()
    except (urllib.error.URLError, ConnectionError):
        return {}


def segments_of(recording):
    return [json.loads(line) for line in (recording / "manifest.ndjson").read_text().splitlines()[1:]]


def write_segments(recording, segments):
    (recording / "manifest.ndjson").write_text("".join(json.dumps(line) + "\n" for line in [{"slotscope": "recording", "version": 1}, *segments]))


def take_away(recording, segment):
    """As the ring does."""
    with open(recording / "manifest.ndjson", "a") as manifest:
        manifest.write(json.dumps({"removed": segment["segment"], "tables": list(segment["tables"])}) + "\n")
    for table in segment["tables"].values():
        (recording / table["file"]).unlink()


def test_removed_while_the_server_is_away(server, recording):
    fresh(server)
    copy = folder / "removed.rec"
    shutil.copytree(recording, copy)
    server.kill()
    process, out = follow(server, copy, f"--metrics={METRICS_PORT}")
    wait_for(lambda: said(out, "does not answer"), "the server is away")
    first = segments_of(copy)[0]
    nr_shipped = len(first["tables"].keys() - {"minutes"})
    told = metrics()
    check("waiting_batches" not in told, f"nobody has said what is there already, and metrics do not claim to know: {told}")
    check(told["server_answers"] == 0 and told["recording_readable"] == 1 and "last_success_timestamp_seconds" not in told, f"that the server is away: {told}")
    take_away(copy, first)
    time.sleep(3)  # it looks again, and again nobody answers
    server.start()
    left = nr_of(copy)
    wait_for(lambda: nr_batches(server) == left + nr_shipped, "each batch is shipped, or entered as removed")
    wait_for(lambda: metrics().get("server_answers") == 1, "metrics say that the server answers")
    told = metrics()
    check(told["waiting_batches"] == 0 and "oldest_waiting_timestamp_seconds" not in told and time.time() - told["last_success_timestamp_seconds"] < 60,
          f"that nothing waits, since when: {told}")
    check(told['batches_total{outcome="removed"}'] == nr_shipped and told['batches_total{outcome="shipped"}'] == left, f"and what became of it: {told}")
    check(told["rows_total"] == sum(nr_rows_in(copy).values()), f"rows: {told}")
    told = ends(process, out)
    check("was removed from the recording before it was shipped" in told, f"that is said: {told}")
    lost = server.rows("SELECT DISTINCT state, segment FROM lost_batches")
    check(lost == [["removed", str(first["segment"])]], f"and it is in the database: {lost}")
    check_rows(server, copy, "what is left")
    shutil.rmtree(copy)


def test_shipped_and_removed(server, recording):
    """The ring removes what was shipped before, while a shipper that has just begun cannot ask the server for that."""
    fresh(server)
    copy = folder / "shipped.rec"
    shutil.copytree(recording, copy)
    ship(server, copy)
    server.kill()
    process, out = follow(server, copy, f"--metrics={METRICS_PORT}")
    wait_for(lambda: said(out, "does not answer"), "the server is away")
    take_away(copy, segments_of(copy)[0])
    time.sleep(3)  # it looks again
    server.start()
    wait_for(lambda: metrics().get("server_answers") == 1, "it has asked")
    told = metrics()
    ends(process, out)
    check(told["waiting_batches"] == 0 and told['batches_total{outcome="removed"}'] == 0, f"nothing waits, and nothing is lost: {told}")
    check(server.ask("SELECT count() FROM lost_batches") == "0\n", "nor does the database say so")
    shutil.rmtree(copy)


def test_backlog(server, recording):
    """What metrics say of what waits, while the server takes none of it: its disk is full, say (here: a column is missing)."""
    fresh(server)
    server.ask("ALTER TABLE batches DROP COLUMN bytes")
    process, out = follow(server, recording, f"--metrics={METRICS_PORT}")
    wait_for(lambda: metrics_or_none().get("server_answers") == 0, "it has asked")
    told = metrics()
    ends(process, out)
    segments = segments_of(recording)
    files = [file["bytes"] for segment in segments for table, file in segment["tables"].items() if table != "minutes"]
    truth = (len(files), sum(files), (segments[0]["end_ns"] + segments[0]["unix_offset_ns"]) / 1e9)
    waiting = (told.get("waiting_batches"), told.get("waiting_bytes"), told.get("oldest_waiting_timestamp_seconds", 0))
    check(waiting[:2] == truth[:2] and abs(waiting[2] - truth[2]) < 0.001, f"metrics say what waits: {waiting}, not {truth}")


def test_set_up_anew_while_it_follows(server, recording):
    """What the new database does not have is shipped again, when there is something to ship."""
    fresh(server)
    copy = folder / "anew.rec"
    shutil.copytree(recording, copy)
    segments = segments_of(copy)
    last = segments.pop()
    write_segments(copy, segments)
    aside = folder / "aside"
    aside.mkdir()
    for table in last["tables"].values():
        (copy / table["file"]).rename(aside / table["file"])
    process, out = follow(server, copy)
    wait_for(lambda: nr_batches(server) == nr_of(copy), "all but the last is shipped")
    fresh(server)
    for table in last["tables"].values():
        (aside / table["file"]).rename(copy / table["file"])
    write_segments(copy, [*segments, last])
    wait_for(lambda: nr_batches(server) == nr_of(copy), "all of it is shipped into the new one")
    ends(process, out)
    check_rows(server, copy, "into a new database")
    shutil.rmtree(copy)


def test_what_cannot_be_shipped_stands_in_nobodys_way(server, recording):
    fresh(server)
    copy = folder / "odd.rec"
    shutil.copytree(recording, copy)
    segments = segments_of(copy)
    # A verdict whose evidence has no rank; a file that cannot be read; one that another program has packed.
    add_verdict(copy, segments[0], {"pattern.id": "15", "headline": "x", "host_evidence": [{"rank": 1, "role": "suspect"}, {"rank": None, "role": "suspect"}]})
    write_segments(copy, segments)
    foreign = copy / segments[1]["tables"]["slots"]["file"]
    text = subprocess.run(["zstdcat", foreign], check=True, capture_output=True).stdout
    foreign.write_bytes(subprocess.run(["zstd", "-qc"], input=text, check=True, capture_output=True).stdout)
    unreadable = copy / segments[0]["tables"]["waits"]["file"]
    whole = unreadable.read_bytes()
    unreadable.unlink()
    unreadable.mkdir()
    told = ship(server, copy, code=9)
    check("refused" in told.stdout and "no Int32" in told.stderr, f"a row that has no place: {told}")
    check(unreadable.name in told.stderr and "1 file is still to be shipped" in told.stdout, f"a file that cannot be read waits: {told}")
    columns, truth = rows_in(copy, "slots")
    check(agrees(truth, rows_out(server, "slots", columns)), "what another program has packed is shipped to the row")
    lost = server.rows("SELECT table_name, state, rows FROM lost_batches")
    check(server.ask("SELECT count() FROM rank_evidence") == "0\n" and lost == [["rank_evidence", "refused", "0"]], f"what was refused is in the database: {lost}")
    unreadable.rmdir()
    unreadable.write_bytes(whole)
    ship(server, copy)
    check_rows(server, copy, "when it can be read")
    shutil.rmtree(copy)


def add_verdict(recording, segment, verdict):
    name = re.sub("^slots", "verdicts", segment["tables"]["slots"]["file"]).replace(".csv.", ".ndjson.")
    packed = subprocess.run(["zstd", "-qc"], input=(json.dumps(verdict) + "\n").encode(), check=True, capture_output=True).stdout
    (recording / name).write_bytes(packed)
    segment["tables"]["verdicts"] = {"file": name, "bytes": len(packed)}


def test_refusals(server, recording):
    fresh(server)
    password = folder / "password"
    with_user = server.url.replace("//", "//rack7@")
    password.write_text("wrong\n")
    told = run("ship", "--clickhouse", with_user, "--password-file", password, recording, code=3).stderr
    check("refuses" in told and "password" in told and "wrong" not in told, f"a wrong password: {told}")
    password.write_text("not so secret\n")
    told = run("ship", "--clickhouse", with_user, "--password-file", password, recording).stdout
    check("shipped" in told, "the right one")
    told = run("ship", "--clickhouse", server.url.replace("//", "//a:b@"), recording, code=2).stderr
    check("--password-file" in told, f"a password in the URL: {told}")
    told = run("ship", "--clickhouse", "http://127.0.0.1:1", recording, code=6).stderr
    check("does not answer" in told and "run this again" in told, f"nobody is there: {told}")
    for words in ([], ["--clickhouse", "ftp://x"], ["--clickhouse", server.url, "--milliseconds", "some"], ["--clickhouse", server.url + "/a-b"],
                  ["--clickhouse", server.url, "--max-waiting", "1G"], ["--clickhouse", server.url, "--set-up", "x.rec"], ["--clickhouse", server.url, "--ttl", "30d"], ["--clickhouse", server.url, "--set-up", "--ttl", "x"],
                  ["--clickhouse", server.url, "--set-up", "--ttl", "0"], ["--clickhouse", server.url, "--ca-file", "x"]):
        run("ship", *words, code=2)
    told = run("ship", "--clickhouse", server.url, "--set-up", "--ttl", "30d", code=2).stderr
    check("cannot delete rows by itself" in told and "doc/fleet-database.md" in told, f"a server without TTL: {told}")
    told = run("ship", "--clickhouse", server.url, folder / "no.rec", code=9)
    check("No such file" in told.stderr and "shipped" not in told.stdout, f"a recording that is not there: {told}")
    (folder / "file.csv").write_text("")
    run("ship", "--clickhouse", server.url, folder / "file.csv", code=2)
    (folder / "empty.rec").mkdir()
    run("ship", "--clickhouse", server.url, folder / "empty.rec", code=9)


def test_an_older_schema(server, recording):
    server.ask("DROP DATABASE IF EXISTS slotscope")
    told = ship(server, recording, code=2).stderr
    check("--set-up" in told and "no tables" in told, f"no tables: {told}")
    fresh(server)
    newest = int(server.ask("SELECT max(version) FROM schema_versions"))
    check(newest >= 2, "there is more than one version")
    # As it was before the last file.
    server.ask("CREATE TABLE older (version UInt32, applied DateTime('UTC')) ENGINE = MergeTree ORDER BY version")
    server.ask(f"INSERT INTO older SELECT * FROM schema_versions WHERE version < {newest}")
    server.ask("DROP TABLE schema_versions")
    server.ask("RENAME TABLE older TO schema_versions")
    server.ask("DROP TABLE worst_waits")
    told = ship(server, recording, code=2).stderr
    check(f"version {newest - 1}" in told and "--set-up" in told, f"an older schema: {told}")
    check(server.ask("SELECT count() FROM slots") == "0\n", "nothing was shipped into it")
    told = ship(server, "--set-up").stdout
    check("applied" in told, f"brought up to date: {told}")
    ship(server, recording)
    check_rows(server, recording, "after an upgrade")


def test_a_column_of_a_newer_recorder(server, recording):
    """It is said, and the rest is shipped."""
    fresh(server)
    server.ask("ALTER TABLE slots DROP COLUMN migrations")
    told = ship(server, recording).stderr
    check("no column migrations in its table slots" in told, f"a column that is not there: {told}")
    columns, truth = rows_in(recording, "slots")
    check(server.ask("SELECT count() FROM slots") == f"{sum(truth.values())}\n", "the rest is there")


def test_damage(server, recording):
    fresh(server)
    damaged = folder / "damaged.rec"
    shutil.copytree(recording, damaged)
    victim = sorted(damaged.glob("slots-*"))[1]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0xff
    victim.write_bytes(data)
    told = ship(server, damaged, code=9).stderr
    check(victim.name in told and "what could be read was shipped" in told, f"damage: {told}")
    state = server.rows("SELECT table_name, state, rows FROM lost_batches")
    check(len(state) == 1 and state[0][:2] == ["slots", "damaged"], f"and it is in the database: {state}")
    _, truth = rows_in(recording, "slots")
    there = int(server.ask("SELECT count() FROM slots"))
    check(0 < sum(truth.values()) - there < sum(truth.values()) / 2, f"{there} rows of {sum(truth.values())}")
    # One that is not there at all, which the manifest still knows, is not waited for.
    fresh(server)
    victim.unlink()
    told = ship(server, damaged, code=9)
    check(victim.name in told.stderr and "1 missing" in told.stdout, f"a file that is missing: {told.stderr} {told.stdout}")
    state = server.rows("SELECT table_name, state, rows FROM lost_batches")
    check(state == [["slots", "removed", "0"]], f"and it is in the database: {state}")
    check("still to be shipped" not in ship(server, damaged).stdout, "nothing of it waits")
    # It comes back, as whoever copies a recording may have it.
    shutil.copy(recording / victim.name, victim)
    ship(server, damaged)
    check(server.ask("SELECT count() FROM slots") == f"{sum(truth.values())}\n", "it is shipped when it is there")
    shutil.rmtree(damaged)


def test_rows_that_are_there_twice(server, recording):
    """By a request that was carried out later, or another shipper: whoever ships next makes them one."""
    fresh(server)
    ship(server, recording)
    truth = nr_rows_in(recording)
    for table in ("slots", "waits", "processes"):
        server.ask(f"INSERT INTO {table} SELECT * FROM {table} WHERE batch = (SELECT max(batch) FROM {table})")
    check(sum(nr_rows_out(server, recording).values()) > sum(truth.values()), "rows are there twice")
    told = ship(server, recording).stdout
    check("shipped 0 rows" in told, f"nothing is sent again: {told}")
    check_rows(server, recording, "after they were there twice")
    # Also of what was given up when it had been sent, and nobody had said so.
    columns = "host, batch, boot_id, segment, table_name, start, start_unix_ns, end_unix_ns, {}, bytes, {}, version"
    server.ask("CREATE TABLE entered AS batches")
    server.ask(f"INSERT INTO entered ({columns.format('rows', 'state')}) SELECT {columns.format('0', repr('given up'))} FROM batches WHERE table_name = 'waits'")
    others = server.rows("SELECT count() FROM batches WHERE table_name != 'waits'")
    server.ask(f"INSERT INTO entered ({columns.format('rows', 'state')}) SELECT {columns.format('rows', 'state')} FROM batches WHERE table_name != 'waits'")
    server.ask("TRUNCATE TABLE batches")
    server.ask("INSERT INTO batches SELECT * FROM entered")
    check(server.rows("SELECT count() FROM batches WHERE state = 'shipped'") == others, "the others were shipped")
    server.ask("INSERT INTO waits SELECT * FROM waits")
    told = ship(server, recording).stdout
    check("shipped 0 rows" in told, f"nothing is sent again: {told}")
    check_rows(server, recording, "after what was given up was there twice")


def test_two_shippers(server, recording):
    fresh(server)
    process, out = follow(server, recording)
    with open(folder / "other", "wb") as told:
        other = subprocess.Popen([SLOTSCOPE, "ship", "--clickhouse", server.url, "--follow", str(recording)], stdout=told, stderr=told)
    wait_for(lambda: nr_batches(server) == nr_of(recording), "two shippers ship it")
    wait_for(lambda: nr_rows_out(server, recording) == nr_rows_in(recording), "each row is there once", 60)
    other.terminate()
    other.wait(30)
    ends(process, out)
    check_rows(server, recording, "by two shippers")


def test_a_newer_schema(server, recording):
    fresh(server)
    server.ask("INSERT INTO schema_versions (version, applied) VALUES (99, now())")
    told = ship(server, recording).stderr
    check("version 99" in told, f"it is said: {told}")
    check_rows(server, recording, "into a newer schema")
    told = ship(server, "--set-up").stdout
    check("newer than this slotscope" in told and "(version 99)" in told, f"it is set up already: {told}")


def test_stopped(server, recording):
    fresh(server)
    server.process.send_signal(signal.SIGSTOP)
    with open(folder / "stopped", "wb") as told:
        process = subprocess.Popen([SLOTSCOPE, "ship", "--clickhouse", server.url, str(recording)], stdout=told, stderr=told)
    caught = Path(f"/proc/{process.pid}/status")
    wait_for(lambda: int(re.search(r"SigCgt:\t(\w+)", caught.read_text()).group(1), 16) >> (signal.SIGTERM - 1) & 1, "it takes the signal")
    time.sleep(1)  # it has asked something, as a rule, and waits
    process.terminate()
    process.wait(30)
    server.process.send_signal(signal.SIGCONT)
    told = (folder / "stopped").read_text()
    check(process.returncode == 7 and "stopped by a signal" in told and "cannot do it" not in told, f"{process.returncode}: {told}")


def test_given_up(server, recording):
    fresh(server)
    process, out = follow(server, recording, "--max-waiting", "1M")
    wait_for(lambda: nr_batches(server) == nr_of(recording), "each batch is shipped or given up")
    told = ends(process, out)
    check("--max-waiting" in told and "given up" in told, f"what waits is limited: {told}")
    states = dict(server.rows("SELECT state, count() FROM batches GROUP BY state"))
    check(int(states.get("given up", 0)) > 0 and int(states.get("shipped", 0)) > 0, f"states: {states}")
    check(server.ask("SELECT count() FROM batches WHERE state = 'given up' AND table_name IN ('seconds', 'processes')") == "0\n", "milliseconds go first")


def test_incidents_only(server, recording):
    fresh(server)
    protected = folder / "protected.rec"
    shutil.copytree(recording, protected)
    segments = segments_of(protected)
    middle = segments[len(segments) // 2]
    begin = middle["start_ns"] + middle["unix_offset_ns"] + 1000
    told = ship(server, "--milliseconds", "incidents", protected).stdout
    check(server.ask("SELECT count() FROM slots") == "0\n" and int(server.ask("SELECT count() FROM seconds")) > 0, f"without an incident only seconds: {told}")
    # An incident later protects what was there before.
    with open(protected / "manifest.ndjson", "a") as manifest:
        manifest.write(json.dumps({"protected_from_ns": begin, "to_ns": begin + 1000}) + "\n")
    ship(server, "--milliseconds", "incidents", protected)
    got = server.rows("SELECT DISTINCT segment FROM batches WHERE table_name = 'slots'")
    check(got == [[str(middle["segment"])]], f"its segment: {got}")
    ship(server, protected)
    check_rows(server, recording, "all of it, afterwards")
    shutil.rmtree(protected)


def test_full_disk(program, recording):
    """Of the server: nothing is lost, and it goes on when there is room again."""
    mount = folder / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", mount], check=True)
    server = ClickHouse(program, folder / "full", data=mount)
    try:
        ship(server, "--set-up")
        process, out = follow(server, recording)
        wait_for(lambda: said(out, "cannot do it"), "a full disk is said")
        subprocess.run(["mount", "-o", "remount,size=400m", mount], check=True)
        wait_for(lambda: nr_batches(server) == nr_of(recording), "all is shipped when there is room again")
        wait_for(lambda: said(out, "answers again"), "and that is said")
        ends(process, out)
        check_rows(server, recording, "after a full disk")
    finally:
        server.stop()
        subprocess.run(["umount", mount], check=True)


def test_tls(program, recording):
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    server = ClickHouse(program, folder / "tls", tls=(certificate, key))
    try:
        url = f"https://localhost:{server.https}"
        run("ship", "--clickhouse", url, "--ca-file", certificate, "--set-up")
        told = run("ship", "--clickhouse", url, recording, code=6).stderr
        check("certificate" in told.lower(), f"nobody has signed it: {told}")
        run("ship", "--clickhouse", url, "--ca-file", certificate, recording)
        check_rows(server, recording, "by TLS")
    finally:
        server.stop()


def record_live(server):
    """A recording while it is made, whose ring is short; the recorder does not know of it."""
    fresh(server)
    recording = folder / "live.rec"
    metrics_port = free_port()
    recorder = subprocess.Popen([SLOTSCOPE, "record", "--source", os.environ.get("SLOTSCOPE_TEST_SOURCE", "bpf"), "--segment", "2", "--keep", "1h", "--metrics", str(metrics_port), "-o", recording],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: (recording / "manifest.ndjson").exists(), "it records")
    process, out = follow(server, recording, f"--metrics={METRICS_PORT}")
    wait_for(lambda: int(server.ask("SELECT count() FROM slots")) > 0, "its first segments are there while it goes on")
    test_machines_dashboard(metrics_port)
    check(recorder.poll() is None, "while it goes on")
    recorder.send_signal(signal.SIGINT)
    check(recorder.wait(60) == 0, "the recorder ends well")
    wait_for(lambda: nr_batches(server) == nr_of(recording), "and so is the last")
    ends(process, out)
    check_rows(server, recording, "live")
    return recording


def test_live(server):
    end = pods_that_meet(300)
    try:
        return record_live(server)
    finally:
        end()


def questions():
    """(title, ClickHouse's SQL, what slotscope query runs) of doc/fleet-database.md."""
    text = (TOP / "doc" / "fleet-database.md").read_text()
    return re.findall(r"^### (.*?)\n.*?```sql\n(.*?)```.*?```sh\nslotscope query \"(.*?)\"\n```", text, re.M | re.S)


def as_text(rows, columns):
    """What both answer: numbers of a millionth, none for nothing."""
    text = []
    for row in rows:
        values = ["" if row[name] in (None, "\\N") else str(row[name]) for name in columns]
        text.append(tuple(f"{float(value):.6f}" if name == "ms" else value for name, value in zip(columns, values)))
    return text


def test_questions(server, recording):
    """Of a fleet, and of one recording: the same answers."""
    segments = segments_of(recording)
    # A verdict with what this host saw, as record --detect writes it.
    verdict = {"pattern.id": "15", "headline": "ranks 0, 2 wait; held up by ranks 1, 3", "operation": "nccl:all_reduce", "pg_description": "default_pg",
               "host_evidence": [{"rank": 0, "role": "hanging", "state": "asleep", "pid": 11, "comm": "python3"},
                                 {"rank": 1, "role": "suspect", "state": "waiting", "pid": 12, "comm": "train", "wait_ms": 17.5, "wait_cause": "others", "culprit": {"pid": 7, "comm": "tar", "ms": 12.25}},
                                 {"rank": 3, "role": "suspect", "state": "silent", "pid": 13, "comm": "train"}]}
    first = segments[0]
    add_verdict(recording, first, verdict)
    write_segments(recording, segments)
    fresh(server)
    ship(server, recording)
    check(server.ask("SELECT headline, json FROM verdicts").split("\t")[0] == verdict["headline"], "the verdict is there")
    duckdb = subprocess.run([TOP / "scripts" / "duckdb.sh"], capture_output=True, text=True)
    check(duckdb.returncode == 0, f"DuckDB: {duckdb.stderr}")
    os.environ["SLOTSCOPE_DUCKDB"] = duckdb.stdout.strip()
    for block in re.findall(r"```sql\n(.*?)```", (TOP / "doc" / "fleet-database.md").read_text(), re.S):
        server.ask(block)  # raises, if the server does not understand it
        if PODS and "ml/train-0" in block:
            (begin, end), = server.rows("SELECT toString(min(time), 'UTC'), toString(max(time) + 1, 'UTC') FROM waits")
            block = block.replace("2026-11-29 03:12:00", begin).replace("2026-11-29 03:13:00", end)
            check(any(server.rows(block.replace("ml/train-0", pod)) for pod, in server.rows("SELECT DISTINCT pod FROM process_places WHERE pod != ''")),
                  "somebody kept some pod waiting in all of that time")
    asked = questions()
    check(len(asked) == 4, f"{len(asked)} questions")
    for title, fleet, one in asked:
        got = json.loads(server.ask(fleet.strip() + " FORMAT JSON"))["data"]
        truth = json.loads(run("query", "--json", re.sub(r"\s+", " ", one), recording).stdout)
        columns = list(truth[0]) if truth else []
        check(len(truth) > 0 and as_text(got, columns) == as_text(truth, columns), f"{title} {[pair for pair in zip(as_text(got, columns), as_text(truth, columns)) if pair[0] != pair[1]][:3]}, "
              f"{len(got)} rows and {len(truth)}")
        check(as_text(got[1:], columns) != as_text(truth, columns), f"{title} An answer less would be noticed")
        check("host" not in (got[0] if got else {}) or {row["host"] for row in got} == {first["host"]}, f"{title} The host is this one")
        for uid in PODS if "pod" in title else ():
            check(any(uid in row.values() for row in got), f"{title} {uid} is among {got[:4]}")


PODS = ["0f2a5c1e-1111-4222-8333-444455556666", "0f2a5c1e-7777-4888-8999-aaaabbbbcccc"]  # that there are, if cgroups can be made


def pods_that_meet(seconds):
    """Two pods, each with a process that wants all of one CPU."""
    base = Path("/sys/fs/cgroup/cpu" if Path("/sys/fs/cgroup/cpu").exists() else "/sys/fs/cgroup") / "kubepods-of-the-test" / "kubepods" / "burstable"
    made, busy = [], []
    for number, uid in enumerate(list(PODS)):
        place = base / f"pod{uid}" / (f"{number}" * 64)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            print(f"no cgroup can be made here ({error}): there are no pods")
            PODS.clear()
            return lambda: None
        made.append(place)
        busy.append(subprocess.Popen(["sh", "-c", f"echo $$ >'{place}/cgroup.procs' && exec taskset -c 0 timeout {seconds} sh -c 'while :; do :; done'"]))
    def end():
        for process in busy:
            process.terminate()
            process.wait()
        for place in made:
            for path in (place, *place.parents):
                if "kubepods" not in str(path):
                    break
                try:
                    path.rmdir()
                except OSError:
                    break
    return end


TOP = Path(__file__).resolve().parents[2]


def panels(name):
    """(title, its questions) of a dashboard."""
    dashboard = json.loads((TOP / "deploy" / "grafana" / name).read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    check(len(ids) == len(set(ids)) and dashboard["uid"] == name[:-len(".json")], f"{name}: ids are unique")
    return [(panel["title"], [target.get("expr") or target["rawSql"] for target in panel["targets"]]) for panel in dashboard["panels"]]


VIEWS = {"Longest waits": "worst_waits", "Who kept whom waiting": "who_kept_whom_waiting", "Noisy neighbours": "noisy_neighbours"}


def of_a_dashboard(view):
    """The view's question, of the time and the hosts that are looked at."""
    schema = sorted((TOP / "deploy" / "clickhouse").glob("*.sql"))
    sql = [found for path in schema for found in re.findall(rf"CREATE VIEW (?:IF NOT EXISTS )?{view} AS\n(.*?);\n", path.read_text(), re.S)][-1]
    sql = " ".join(re.sub("--.*", "", sql).split())
    sql = re.sub(r"WHERE time > now\(\) - (3720|86520)\b", "WHERE time >= $__fromTime - 120 AND time <= $__toTime AND host IN (${host:singlequote})", sql)
    return re.sub(r"time > now\(\) - (3600|86400)\b", "$__timeFilter(time) AND host IN (${host:singlequote})", sql) + " LIMIT 50"


def test_fleet_dashboard(server):
    """Behind test_questions(): each panel has something to show, as Grafana's ClickHouse source would ask."""
    host = server.rows("SELECT DISTINCT host FROM batches")[0][0]
    for title, questions in panels("slotscope-fleet.json"):
        for sql in questions:
            asked = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 >= now() - 3600 AND \1 <= now() + 60", sql).replace("${host:singlequote}", f"'{host}'")
            asked = asked.replace("$__fromTime", "(now() - 3600)").replace("$__toTime", "(now() + 60)")
            check("$" not in asked, f"{title}: a variable is left: {asked}")
            if title in VIEWS:
                check(sql == of_a_dashboard(VIEWS[title]), f"{title} is another question than the view {VIEWS[title]}")
            rows = server.rows(asked)
            check(bool(rows) == (title != "Segments that are not there"), f"{title}: {len(rows)} rows of {asked}")
            check(server.rows(asked.replace(f"'{host}'", "'nobody'")) == [] or "host IN" not in sql, f"{title}: of another host there is nothing")


def test_machines_dashboard(metrics_port):
    """While a recorder and a shipper go on: each panel has something to show, as Grafana's Prometheus source would ask."""
    program = subprocess.run([TOP / "scripts" / "prometheus.sh"], check=True, capture_output=True, text=True).stdout.strip()
    home, port = folder / "prometheus", free_port()
    home.mkdir()
    by_machine = r"[{source_labels: [__address__], regex: '(.*):\d+', target_label: instance}]"
    (home / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}}
rule_files: [{TOP}/deploy/prometheus/slotscope.rules.yml]
scrape_configs:
- {{job_name: slotscope, static_configs: [{{targets: ["127.0.0.1:{metrics_port}"]}}], relabel_configs: {by_machine}}}
- {{job_name: slotscope-ship, static_configs: [{{targets: ["127.0.0.1:{METRICS_PORT}"]}}], relabel_configs: {by_machine}}}
""")
    with open(home / "out", "wb") as out:
        prometheus = subprocess.Popen([f"{program}/prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                      stdout=out, stderr=out)

    def ask(expression):
        question = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{question}", timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def has(expression):
        try:
            return ask(expression)
        except (urllib.error.URLError, ConnectionError):
            return None

    # What this machine has none of: nodes that are compared, processes with a GPU.
    silent = {"Health, and where straggling begins"}
    try:
        if not PODS:
            silent.add("Pods that waited most")
        wait_for(lambda: has(f"rate(slotscope_{'pod_' if PODS else ''}wait_seconds_total[5s]) > 0"), "waiting is scraped")
        wait_for(lambda: has("rate(slotscope_ship_batches_total[5s])"), "and what was shipped")
        machine = [series["metric"]["instance"] for series in ask("slotscope_slots_total")]
        check(machine == ["127.0.0.1"], f"a machine is one instance: {machine}")
        for title, questions in panels("slotscope-nodes.json"):
            answers = []
            for expression in questions:
                asked = expression.replace("$__rate_interval", "10s").replace("$instance", machine[0])
                check("$" not in asked, f"{title}: a variable is left: {asked}")
                answers += ask(asked)
            check(bool(answers) == (title not in silent), f"{title}: {len(answers)} series of {questions}")
        # What dashboards and alerts ask for is what is served.
        served = "".join(path.read_text() for path in (TOP / "collector").glob("*/*_metrics.cc"))
        asked = (TOP / "deploy" / "grafana" / "slotscope-nodes.json").read_text() + (TOP / "deploy" / "prometheus" / "slotscope.rules.yml").read_text()
        names = {re.sub("_bucket$", "", name) for name in re.findall(r"\bslotscope_\w+", asked)}
        lacking = sorted(name for name in names if f'"{name}"' not in served)
        check(len(names) > 10 and not lacking, f"nobody serves {lacking}")
    finally:
        prometheus.terminate()
        prometheus.wait(30)


def newer(library):
    """What depends on the server's version: types, codecs, words."""
    server = NewerClickHouse(library, folder / "newer")
    try:
        print(f"ClickHouse {server.ask('SELECT 1, version()').split()[1]}")
        recording = make("rec", 4000, 1)
        small = make("small", 2000, 1, "--switches", 1000)
        test_all_of_it(server, make("rdt", 2000, 1, "--l3-domains", 2, "--more-counters", 5))
        kinds = dict(server.rows("SELECT name, type FROM system.columns WHERE database = 'slotscope' AND table = 'slots'"))
        codecs = dict(server.rows("SELECT name, compression_codec FROM system.columns WHERE database = 'slotscope' AND table = 'slots'"))
        check(kinds["comm"] == "LowCardinality(String)" and "DoubleDelta" in codecs["slot_start_ns"] and "Delta" in codecs["row"], f"it has what Debian's lacks: {kinds}, {codecs}")
        told = ship(server, "--set-up", "--ttl", "30d").stdout
        kept = dict(server.rows("SELECT name, engine_full LIKE '%TTL time + toIntervalDay(30)%' FROM system.tables WHERE database = 'slotscope' AND engine LIKE '%MergeTree'"))
        check("30 days" in told and {name for name, is_kept in kept.items() if is_kept == "0"} == {"batches", "schema_versions"}, f"rows have a TTL: {told} {kept}")
        for test in (test_an_older_schema, test_a_column_of_a_newer_recorder, test_given_up, test_incidents_only, test_rows_that_are_there_twice, test_two_shippers,
                     test_a_newer_schema, test_set_up_anew_while_it_follows, test_killed_server):
            test(server, small if test is not test_given_up else recording)
        if IS_ROOT:
            test_questions(server, test_live(server))
            test_fleet_dashboard(server)
    finally:
        server.stop()


def main():
    if len(sys.argv) > 2:
        try:
            newer(sys.argv[2])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{len(failures)} failures")
        return 1 if failures else 0
    program = server_program()
    server = ClickHouse(program, folder / "server")
    try:
        recording = make("rec", 4000, 1)
        small = make("small", 2000, 1, "--switches", 1000)
        test_all_of_it(server, make("rdt", 2000, 1, "--l3-domains", 2, "--more-counters", 5))
        test_killed_shippers(server, recording)
        test_killed_server(server, recording)
        test_a_server_that_stands_still(server, recording)
        for test in (test_refusals, test_an_older_schema, test_a_column_of_a_newer_recorder, test_given_up, test_incidents_only, test_removed_while_the_server_is_away, test_shipped_and_removed, test_backlog,
                     test_rows_that_are_there_twice, test_two_shippers, test_a_newer_schema, test_stopped, test_set_up_anew_while_it_follows, test_what_cannot_be_shipped_stands_in_nobodys_way):
            test(server, small if test is not test_given_up else recording)
        test_damage(server, recording)
        test_tls(program, small)
        if IS_ROOT:
            test_full_disk(program, recording)
            test_questions(server, test_live(server))
            test_fleet_dashboard(server)
    finally:
        server.stop()
        if not os.environ.get("SLOTSCOPE_KEEP_FILES"):
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
