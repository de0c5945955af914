#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh [--update]: for each NAME.args here, whose first line holds options of gen and whose second line
# options of replay: gen makes NAME.raw again, byte for byte, and replay of NAME.raw gives NAME.csv, line for
# line but for the version. NAME.raw is kept too, so that files of older versions are seen to be readable.
# --update writes them anew: look at the difference before it is committed.
set -euo pipefail
cd "$(dirname "$0")"
slotscope=${SLOTSCOPE_BINARY:-../../build/slotscope}
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
failed=0
nr_files=0

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
done
[ $failed = 0 ] && echo "golden: $nr_files files gave what was expected"
exit $failed
