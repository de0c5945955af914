#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh FOLDER SECONDS [TARGET...]: runs the fuzzers in FOLDER, each on its corpus for so long. What they find
# new goes to FOLDER/corpus, what breaks them to FOLDER/crash-*.
set -euo pipefail
folder=$1
seconds=$2
shift 2
here=$(dirname "$0")
[ $# -gt 0 ] || set -- items_fuzz raw_fuzz state_fuzz options_fuzz remediate_fuzz threshold_fuzz fr_dump_fuzz kernel_log_fuzz cluster_fuzz elf_fuzz recording_fuzz
run() { # run TARGET
	local target=$1 log=$folder/$1.log rc=0
	mkdir -p "$folder/corpus/$target"
	"$folder/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=8192 -print_final_stats=1 \
		-artifact_prefix="$folder/crash-$target-" "$folder/corpus/$target" "$here/corpus/$target" >"$log" 2>&1 || rc=$?
	echo "fuzz: $target for $seconds s: $(grep -oE '(number_of_executed_units|peak_rss_mb): *[0-9]+' "$log" | tr -s ' ' | paste -sd ' ')"
	[ $rc = 0 ] || tail -n 40 "$log"
	return $rc
}

# Two at a time.
failed=0
while [ $# -gt 0 ]; do
	pids=()
	for target in "${@:1:2}"; do
		run "$target" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
	shift $(($# < 2 ? $# : 2))
done
exit $failed
