#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh FOLDER SECONDS [TARGET...]: runs the fuzzers in FOLDER, each on its corpus for so long. What they find
# new goes to FOLDER/corpus, what breaks them to FOLDER/crash-*.
set -euo pipefail
folder=$1
seconds=$2
shift 2
here=$(dirname "$0")
[ $# -gt 0 ] || set -- items_fuzz raw_fuzz options_fuzz
for target in "$@"; do
	mkdir -p "$folder/corpus/$target"
	echo "fuzz: $target for $seconds s"
	log=$folder/$target.log
	rc=0
	"$folder/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=8192 -print_final_stats=1 \
		-artifact_prefix="$folder/crash-$target-" "$folder/corpus/$target" "$here/corpus/$target" >"$log" 2>&1 || rc=$?
	grep -E '^stat::(number_of_executed_units|peak_rss_mb)' "$log" || true
	[ $rc = 0 ] || {
		tail -n 40 "$log"
		exit 1
	}
done
