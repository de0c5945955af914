#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh [--update]: for each NAME.args here, whose first line holds options of gen and whose second line
# options of replay: gen makes NAME.raw again, byte for byte, and replay of NAME.raw gives NAME.csv, line for
# line but for the version. NAME.raw is kept too, so that files of older versions are seen to be readable.
# abiN/NAME.raw are the same files with messages of an older version, abi1 as 0.1.0 made them; they are never made again, and
# give the same CSV, or abiN/NAME.csv, where they lack something. abiN/columns are those that they can know; others are empty.
# For each folder in detect/: detect with the options in its `args`, run there, gives its verdicts.ndjson; where something
# in it cannot be read, `problems` has what is said of that. make_hang.py makes the dumps again, byte for byte.
# --update writes them anew: look at the difference before it is committed.
set -euo pipefail
cd "$(dirname "$0")"
slotscope=${SLOTSCOPE_BINARY:-../../build/slotscope}
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
failed=0
nr_files=0

# knows_more COLUMNS CSV: names the columns that have a value in some row and are not of those.
knows_more() {
	awk -F, 'NR == FNR { for (i = 1; i <= NF; i++) may[$i] = 1; next }
		/^#/ { next }
		!named { for (i = 1; i <= NF; i++) name[i] = $i; named = 1; next }
		{ for (i = 1; i <= NF; i++) if ($i != "" && !(name[i] in may) && !said[i]++) print name[i] }' "$1" "$2"
}

# sums FILE...: of tables of a recording, what each process has of each column that is a sum and always measured.
sums() {
	zstd -dcq "$@" | awk -F, '/^[0-9]/ { p = $3 "," $4 "," ($3 == "" ? $7 : ""); for (i = 8; i <= 11; i++) sum[p "," i] += $i }
		END { for (p in sum) printf "%s %.0f\n", p, sum[p] }' | sort
}

fail() { # fail NAME WHAT
	echo "$1: $2" >&2
	failed=1
}

for args in *.args; do
	name=${args%.args}
	nr_files=$((nr_files + 1))
	{ read -ra gen && read -ra replay; } <"$args"
	"$slotscope" gen "${gen[@]}" "$temp/$name.raw" >"$temp/log"
	if [ "${1:-}" = --update ]; then
		cp "$temp/$name.raw" "$name.raw"
		chmod 644 "$name.raw"
	fi
	cmp "$name.raw" "$temp/$name.raw" || fail "$name" "gen ${gen[*]} makes another file"
	"$slotscope" replay "${replay[@]}" -o "$temp/$name.csv" "$name.raw" >"$temp/log"
	sed 1d "$temp/$name.csv" >"$temp/rows"
	[ "${1:-}" = --update ] && cp "$temp/rows" "$name.csv"
	diff "$name.csv" "$temp/rows" | head -n 10 || true
	cmp -s "$name.csv" "$temp/rows" || fail "$name" "replay ${replay[*]} gives another CSV"
	# As a recording: the same rows, whatever the segments.
	"$slotscope" replay "${replay[@]}" --segment 1 -o "$temp/$name.rec" "$name.raw" >"$temp/log"
	zstd -dcq "$temp/$name.rec"/slots-*.zst | grep '^[0-9]' | cmp -s - <(grep '^[0-9]' "$name.csv") ||
		fail "$name" "a recording has other rows than the CSV"
	cmp -s <(sums "$temp/$name.rec"/slots-*.zst) <(sums "$temp/$name.rec"/seconds-*.zst) ||
		fail "$name" "seconds are not the sums of their slots"
done
for raw in abi*/*.raw; do
	name=$(basename "$raw" .raw)
	nr_files=$((nr_files + 1))
	{ read -r && read -ra replay; } <"$name.args"
	"$slotscope" replay "${replay[@]}" -o "$temp/$name.csv" "$raw" >"$temp/log"
	sed 1d "$temp/$name.csv" >"$temp/rows"
	expected=${raw%.raw}.csv
	[ "${1:-}" != --update ] || cmp -s "$name.csv" "$temp/rows" || cp "$temp/rows" "$expected"
	[ -f "$expected" ] || expected=$name.csv
	cmp -s "$expected" "$temp/rows" || fail "$raw" "replay ${replay[*]} gives another CSV than $expected"
	for column in $(knows_more "${raw%/*}/columns" "$temp/rows"); do
		fail "$raw" "a row has $column, which is not in ${raw%/*}/columns: can so old a recording know it?"
	done
done
slotscope=$(realpath "$slotscope")
for folder in detect/*/; do
	name=$(basename "$folder")
	nr_files=$((nr_files + 1))
	read -ra args <"$folder/args"
	code=0
	(cd "$folder" && TZ=UTC "$slotscope" detect "${args[@]}" >"$temp/verdicts" 2>"$temp/problems") || code=$?
	expected=0
	[ ! -f "$folder/problems" ] || expected=9
	[ $code = $expected ] || fail "$name" "detect ${args[*]} exits with $code: $(head -n 3 "$temp/problems")"
	if [ "${1:-}" = --update ]; then
		cp "$temp/verdicts" "$folder/verdicts.ndjson"
		[ ! -f "$folder/problems" ] || cp "$temp/problems" "$folder/problems"
	fi
	diff "$folder/verdicts.ndjson" "$temp/verdicts" | cut -c 1-400 | head -n 4 || true
	cmp -s "$folder/verdicts.ndjson" "$temp/verdicts" || fail "$name" "detect ${args[*]} gives other verdicts"
	[ ! -f "$folder/problems" ] || diff "$folder/problems" "$temp/problems" || fail "$name" "other problems are told"
done
python3 detect/make_hang.py "$temp"
for dump in detect/hang_of_4_ranks/nccl_trace_rank_*; do
	cmp "$dump" "$temp/$(basename "$dump")" || fail hang_of_4_ranks "make_hang.py makes another dump"
done
cmp detect/hang_with_slots/host.csv "$temp/host.csv" || fail hang_with_slots "make_hang.py makes another host.csv"
[ $failed = 0 ] && echo "golden: $nr_files files gave what was expected"
exit $failed
