# SPDX-License-Identifier: MIT
"""What a wrong module or collector would show: functions from rows to rows, each of which check.py has to find out; those of
occupancy also take what the counter of an RMID said (rmid, time in the guest). None: this run has nothing that can be changed so."""
import collections
import itertools

COLUMNS = ("mbm_total_bytes", "mbm_local_bytes")
OCCUPANCY = "llc_occupancy_bytes"


def _shown(rows):
    """Rows of users that show all bytes, by process and RMID; those with most time first. Where reads fail, few rows show
    the local ones as well."""
    shown = collections.defaultdict(list)
    for row in rows:
        if row["kind"] == "user" and row[COLUMNS[0]]:
            shown[row["tgid"], row["rmid"]].append(row)
    return sorted(shown.values(), key=lambda mine: -sum(int(row["cpu_ns"]) for row in mine))


def _changed(rows, changes):
    """changes: id of a row -> what it shows instead."""
    return [{**row, **changes[id(row)]} if id(row) in changes else row for row in rows]


def _of(row, other):
    """What row shows if it shows the other's bytes."""
    return {column: other[column] for column in COLUMNS if row[column] and other[column]}


def _scaled(row, factor):
    return {column: str(int(int(row[column]) * factor)) for column in COLUMNS if row[column]}


def swapped_owners(rows):
    """The bytes of two processes change places, where both show some: of the two that differ most there."""
    shown = [{row["slot_start_ns"]: row for row in mine} for mine in _shown(rows)[:20]]

    def common(pair):
        return [(pair[0][start], pair[1][start]) for start in pair[0].keys() & pair[1].keys()]

    def differ(pair):
        return abs(sum(int(row[COLUMNS[0]]) - int(other[COLUMNS[0]]) for row, other in common(pair)))

    pair = max(itertools.combinations(shown, 2), key=differ, default=None)
    if not pair or not differ(pair):
        return None
    changes = {}
    for row, other in common(pair):
        changes[id(row)], changes[id(other)] = _of(row, other), _of(other, row)
    return _changed(rows, changes)


def doubled_bytes(rows):
    shown = _shown(rows)
    return _changed(rows, {id(row): _scaled(row, 2) for row in shown[len(shown) // 8]}) if shown else None


def two_percent_more(rows):
    """Of everybody."""
    changes = {id(row): _scaled(row, 1.02) for mine in _shown(rows) for row in mine}
    return _changed(rows, changes) if changes else None


def one_slot_late(rows):
    """Of a load that is so even that a tenth of its bytes does not move, nobody could tell."""
    changes, moved, all_bytes = {}, 0, 0
    for mine in _shown(rows):
        for before, row in zip(mine, mine[1:]):
            changes[id(row)] = _of(row, before)
            moved += abs(int(before[COLUMNS[0]]) - int(row[COLUMNS[0]]))
            all_bytes += int(row[COLUMNS[0]])
    return _changed(rows, changes) if moved * 9 > all_bytes else None


def hundredth_not_ok(rows):
    mine = [row for row in rows if row["kind"] == "user" and row["rdt_status"] == "ok"]
    return _changed(rows, {id(row): {"rdt_status": "partial"} for row in mine[::100]}) if mine else None


def bytes_of_the_dead(rows):
    """The first row of an RMID's next owner has the bytes of the last five of the one before as well."""
    changes, last = {}, collections.defaultdict(list)  # rmid -> rows of who had it last
    for row in rows:
        if row["kind"] != "user" or not row[COLUMNS[0]]:
            continue
        before = last[row["rmid"]]
        if before and before[-1]["tgid"] != row["tgid"]:
            changes[id(row)] = {column: str(sum(int(one[column] or 0) for one in before[-5:] + [row]))
                                for column in COLUMNS if row[column]}
            before.clear()
        before.append(row)
    return _changed(rows, changes) if changes else None


def doubled_occupancy(rows, _):
    changes = {id(row): {OCCUPANCY: str(2 * int(row[OCCUPANCY]))} for row in rows if row[OCCUPANCY]}
    return _changed(rows, changes) if changes else None


def swapped_occupancies(rows, _):
    """Of neighbours in each slot, of which one has filled twice as much."""
    slots, changes = collections.defaultdict(list), {}
    for row in rows:
        if row["kind"] == "user" and row[OCCUPANCY]:
            slots[row["slot_start_ns"]].append(row)
    for mine in slots.values():
        for row, other in zip(mine, mine[1:] + mine[:1]):
            few, many = sorted(int(one[OCCUPANCY]) for one in (row, other))
            if 2 * few < many:
                changes[id(row)] = {OCCUPANCY: other[OCCUPANCY]}
    return _changed(rows, changes) if changes else None


def lines_of_the_dead(rows, counted):
    """The first row of an RMID's next owner is ok, with the lines that the one before had last."""
    changes, last = {}, {}
    for row in rows:
        if row["kind"] != "user":
            continue
        before = last.get(row["rmid"])
        if before and before["tgid"] != row["tgid"]:
            changes[id(row)] = {OCCUPANCY: str(counted(int(row["rmid"]), int(before["slot_start_ns"]))), "rdt_status": "ok"}
        last[row["rmid"]] = row
    return _changed(rows, changes) if changes else None


def taint_not_seen(rows, counted):
    """What is tainted is ok, with what the counter said then."""
    changes = {id(row): {OCCUPANCY: str(counted(int(row["rmid"]), int(row["slot_start_ns"]))), "rdt_status": "ok"}
               for row in rows if row["kind"] == "user" and row["rdt_status"] == "tainted"}
    return _changed(rows, changes) if changes else None


MUTANTS = {
    "swapped owners": swapped_owners,
    "doubled bytes": doubled_bytes,
    "two percent more": two_percent_more,
    "bytes one slot late": one_slot_late,
    "bytes of a dead owner": bytes_of_the_dead,
}
OCCUPANCY_MUTANTS = {
    "doubled occupancy": doubled_occupancy,
    "swapped occupancies": swapped_occupancies,
    "lines of a dead owner": lines_of_the_dead,
    "taint that is not seen": taint_not_seen,
}
