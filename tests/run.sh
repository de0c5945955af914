#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh [--two GROUP... --] [GROUP...]: runs groups of tests that are built already, says how long each took, and ends with one
# line: "N passed, N failed, N skipped". Groups: check unit fleet page query ship ship-newer kubernetes image fuzz san live vm-KERNEL vm-KERNEL-some vm-matrix vm-debug
# qemu-rdt rdt rdt-6.1-some package package-6.1. A group that cannot run here is skipped, with the reason. --two: two groups
# at a time, in that order, and then what is behind --. vm-matrix is all kernels that scripts/kernels.sh knows, and ends with a table. Exit code 1 if
# anything failed. --two also tries again, alone, what is known to need the machine for itself (see alone_later).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

passed=0
failed=0
skipped=0
postponed=0
only_alone=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
[ -n "${SLOTSCOPE_FAILURES:-}" ] || first=1
export SLOTSCOPE_FAILURES=${SLOTSCOPE_FAILURES:-$logs/failures}

skip() { # skip NAME REASON
	echo "  SKIP   $1: $2"
	skipped=$((skipped + 1))
}

# failed_tests LOG: what GoogleTest's failed tests said, before all else: they may be far from the end.
failed_tests() {
	awk '/^\[ RUN      \]/ { said = "" }
		{ said = said $0 "\n" }
		/^\[  FAILED  \] .* ms\)$/ { printf "%s", said; said = "" }' "$1"
}

# What failed in short, for the end of it all: whoever keeps only that can still say why.
remember() { # remember NAME CODE LOG
	{
		echo "FAILED: $1 (exit code $2)"
		{ failed_tests "$3" && grep -a '^FAIL ' "$3"; } | cut -c 1-400 | head -n 12 | grep . || tail -n 8 "$3" | cut -c 1-400
	} >>"$SLOTSCOPE_FAILURES"
}

# alone_later CODE LOG COMMAND...: does a step that failed get a second try, alone? What compares a recording with the truth
# of the machine itself may find that machine taken by the group beside it, or by its host's other guests. Then what failed
# is said, and tried again when nothing runs beside it. Only what a test itself has found (exit code 1): a crash, a report of
# a kernel and a time-out say enough, and so does a second failure.
alone_later() {
	local code=$1 log=$2 names nr
	shift 2
	[ -n "${SLOTSCOPE_AGAIN:-}" ] && [ "$code" = 1 ] || return
	# A crash within a guest, or of a program that a test runs, is a 1 like any other.
	! grep -qaE 'Segmentation fault|Aborted|core dumped|terminate called|stack smashing|Which is: 13[2-9]$' "$log" || return
	case $* in
	build/live_tests)
		# Those of its list at the end, if these are all that failed.
		names=$(sed -nE '/^\[  FAILED  \] [0-9]+ tests?, listed below:/,$s/^\[  FAILED  \] ([^ ,]+)(, where .*)?$/\1/p' "$log")
		nr=$(sed -nE 's/^ *([0-9]+) FAILED TESTS?$/\1/p' "$log")
		[ -n "$nr" ] && [ "$nr" = "$(wc -l <<<"$names")" ] && [ "$nr" -lt 8 ] || return # more are not by chance
		again=("$@" --gtest_filter="$(paste -sd: <<<"$names")")
		;;
	env*tests/vm/suite.sh*)
		# What the module itself says of its books is not the host's doing.
		! grep -qaE '^FAIL (.*two RMIDs|the module.s counters|.* is counted as an error|a load that failed|.*identity)' "$log" || return
		again=("$@")
		;;
	tests/vm/qemu-rdt/run.sh*) again=(env ${SLOTSCOPE_RDT_SECONDS:+SLOTSCOPE_RDT_SECONDS=$SLOTSCOPE_RDT_SECONDS} "$@") ;;
	*) return 1 ;;
	esac
}

# step NAME COMMAND...: 69 and 77 mean that it cannot run here, 72 that the emulator of a guest tripped over
# its own defect (see tests/vm/guest.sh): then it is tried again, at most four times.
step() {
	local name=$1 start=$SECONDS log code attempt line again=()
	shift
	log=$logs/${name//[^a-z0-9.-]/_}
	for attempt in 1 2 3 4 5; do
		"$@" >"$log" 2>&1
		code=$?
		[ $code = 72 ] || break
		echo "         $name: attempt $attempt: $(tail -n 1 "$log")"
	done
	case $code in
	0)
		echo "  PASS   $name ($((SECONDS - start)) s)"
		[[ $name != *', alone' ]] || only_alone+=("${name%, alone}")
		grep -E 'tests? from .* ran\.|SKIP|names no folder of real captures|bytes: [0-9]* processes|^stress: ' "$log" |
			grep -v '^\[  SKIPPED .* ms)$' | sort -u | sed 's/^/         /'
		passed=$((passed + 1))
		;;
	69 | 77) skip "$name" "$(tail -n 1 "$log")" ;;
	*)
		if alone_later $code "$log" "$@"; then
			echo "  AGAIN  $name ($((SECONDS - start)) s): what failed is tried again, alone"
			failed_tests "$log"
			grep '^FAIL ' "$log"
			printf -v line '%q ' "${step_as[@]:-step}" "$name, alone" "${again[@]}"
			echo "$line" >>"$SLOTSCOPE_AGAIN"
			postponed=$((postponed + 1))
			return
		fi
		echo "  FAIL   $name (exit code $code, $((SECONDS - start)) s)"
		failed_tests "$log"
		grep '^FAIL ' "$log"
		echo "         its output ends with (what was before that, below):"
		tail -n 15 "$log"
		echo "         before that:"
		tail -n 100 "$log" | head -n -15
		remember "$name" $code "$log"
		failed=$((failed + 1))
		;;
	esac
}

# in_shards PROGRAM ARG...: a test program in four processes; the few long tests are likely to be in several.
in_shards() {
	local index pids=() code=0
	for index in 0 1 2 3; do
		GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$index "$@" >"$logs/shard$index" 2>&1 &
		pids+=($!)
	done
	for index in 0 1 2 3; do
		wait "${pids[$index]}" || code=1
		cat "$logs/shard$index"
	done
	return $code
}

# That they run, and that the engines that are compared find the same. What they measure here says nothing.
benchmarks_agree() {
	local out
	out=$(SLOTSCOPE_BENCH_MESSAGES=1000000 build/bench_pipeline_bench --benchmark_min_time=0.001 2>&1 &&
		build/bench_detect_bench --benchmark_min_time=0.001 --benchmark_filter=-job 2>&1)
	local code=$?
	echo "$out"
	! grep 'ERROR OCCURRED' <<<"$out" && return $code
}

# Each target that there is, two at a time: what ends otherwise than with 0 has failed.
fuzz_replays() {
	# shellcheck disable=SC2016 # for the inner shell
	basename -s .cc tests/fuzz/*_fuzz.cc | xargs -P 2 -I TARGET sh -c '
		said=$("build/fuzz-replay/$1" "tests/fuzz/corpus/$1" 2>&1)
		code=$?
		echo "$1: $said"
		exit $((code != 0))' sh TARGET
}

live() {
	if [ "$(id -u)" != 0 ]; then
		skip live "it needs root, to load eBPF programs"
	elif [ ! -r /sys/kernel/btf/vmlinux ]; then
		skip live "this kernel has no BTF"
	else
		step "live, eBPF source" build/live_tests
		step "gpu_check.sh, against the stand-in" scripts/gpu_check.sh --stand-in
	fi
}

# The report's page, in a browser.
page() {
	step "the report's page in Chromium" tests/report/page_test.py build/slotscope
}

# SQL, by the real DuckDB.
query() {
	if ! scripts/duckdb.sh >/dev/null; then
		skip query "DuckDB's library cannot be fetched (see above)"
		return
	fi
	step "SQL over a recording, DuckDB" tests/query/query_test.py build/slotscope
}

# Into the real ClickHouse.
ship() {
	if ! scripts/clickhouse.sh >/dev/null || ! scripts/duckdb.sh >/dev/null; then
		skip ship "ClickHouse or DuckDB's library cannot be fetched (see above)"
		return
	fi
	step "recordings into ClickHouse" tests/ship/ship_test.py build/slotscope
}

# Into today's, as a library; see tests/ship/newer_server.py.
ship_newer() {
	local library
	if ! library=$(scripts/chdb.sh) || ! scripts/duckdb.sh >/dev/null; then
		skip ship-newer "chDB's or DuckDB's library cannot be fetched (see above)"
		return
	fi
	step "recordings into today's ClickHouse" tests/ship/ship_test.py build/slotscope "$library"
}

# What is given to Kubernetes.
kubernetes() {
	local modules
	if ! modules=$(scripts/kubernetes_models.sh); then
		skip kubernetes "the schemas of its API cannot be fetched (see above)"
		return
	fi
	step "manifests, the API's schema" node tests/kubernetes/manifests.js "$modules" deploy/kubernetes
}

# A fleet, and the real Prometheus.
fleet() {
	local folder
	if ! folder=$(scripts/prometheus.sh); then
		skip fleet "Prometheus is not installed, and cannot be fetched (see above)"
		return
	fi
	step "rules for Prometheus" tests/fleet/rules.sh "$folder/promtool"
	step "fleet of 8 nodes, Prometheus" env SLOTSCOPE_PROMETHEUS="$folder" build/fleet_tests
}

# cell KERNEL kmod|bpf RESULT: of the table of vm-matrix.
cell() {
	[ -z "${SLOTSCOPE_CELLS:-}" ] || echo "$1 $2 $3" >>"$SLOTSCOPE_CELLS"
}

# guest KERNEL kmod|bpf NAME COMMAND...: a step that is that cell. A kernel that Debian does not serve is no failure,
# and neither is one without headers; everything else that keeps a guest from its tests is one.
guest() {
	local kernel=$1 source=$2 name=$3 before=$failed skips=$skipped later=$postponed step_as=(guest "$1" "$2")
	shift 3
	step "$name" "$@"
	if [ $skipped != $skips ] && [ -n "${SLOTSCOPE_CELLS:-}" ]; then
		skipped=$skips failed=$((failed + 1))
	fi
	if [ $postponed != "$later" ]; then return; fi
	if [ $failed = "$before" ]; then cell "$kernel" "$source" passed; else cell "$kernel" "$source" FAILED; fi
}

# vm KERNEL [some]: what a guest with that kernel can test; some leaves out what other kernels say as well.
vm() {
	local kernel=$1 quick='' elsewhere=1 reason code
	if ! command -v qemu-system-x86_64 >/dev/null; then
		skip "guest $kernel" "qemu-system-x86_64 is not installed"
		[ -z "${SLOTSCOPE_CELLS:-}" ] || failed=$((failed + 1))
		cell "$kernel" kmod "no QEMU"
		cell "$kernel" bpf "no QEMU"
		return
	fi
	reason=$(scripts/kernels.sh fetch "$kernel" 2>&1)
	code=$?
	if [ $code = 66 ]; then
		skip "guest $kernel" "$reason"
		cell "$kernel" kmod "not served"
		cell "$kernel" bpf "not served"
		return
	elif [ $code != 0 ]; then
		# shellcheck disable=SC2016 # for the inner shell
		step "kernel $kernel" sh -c 'echo "$1"; exit 1' sh "$reason"
		cell "$kernel" kmod "no kernel"
		cell "$kernel" bpf "no kernel"
		return
	fi
	case ${2:-}$kernel in
	some6.1 | [!s]*) step "BPF programs build with the types of $kernel" tests/vm/types.sh "$kernel" ;;
	esac
	case $kernel in *-rt) quick=1 ;; esac
	# The oldest and the newest also have what no kernel can change.
	case $kernel in 6.1 | 7.3) elsewhere='' ;; esac
	case ${2:-}$kernel in
	some6.1) quick=0 ;;
	some*) quick=2 ;;
	esac
	if scripts/kernels.sh kdir "$kernel" >/dev/null 2>&1; then
		step "module builds for $kernel without a warning" make "build/kmod/$kernel/slotscope.ko"
		guest "$kernel" kmod "guest $kernel, module" env QUICK=$quick ELSEWHERE=$elsewhere tests/vm/suite.sh "$kernel" kmod
	else
		case $kernel in
		6.16 | 6.17 | 6.18 | 6.19 | 7.0 | 7.1) ;; # Debian serves these without headers
		*) step "headers of kernel $kernel" scripts/kernels.sh kdir "$kernel" ;;
		esac
		cell "$kernel" kmod "no headers"
	fi
	case $kernel${2:-} in
	6.12some | 6.12-rtsome | 7.3some) ;;
	6.1some | 7.0some) guest "$kernel" bpf "guest $kernel, eBPF source" env QUICK=3 tests/vm/suite.sh "$kernel" bpf ;;
	*) guest "$kernel" bpf "guest $kernel, eBPF source" env QUICK=$quick ELSEWHERE=$elsewhere tests/vm/suite.sh "$kernel" bpf ;;
	esac
}

# All kernels, two guests at a time, and the table: kernel, release, module, eBPF source.
vm_matrix() {
	local name names
	export SLOTSCOPE_CELLS=$logs/cells
	: >"$SLOTSCOPE_CELLS"
	mapfile -t names < <(scripts/kernels.sh matrix)
	two_at_a_time "${names[@]/#/vm-}"
	echo
	printf '%-14s %-26s %-12s %s\n' kernel release module eBPF
	for name in "${names[@]}"; do
		printf '%-14s %-26s %-12s %s\n' "$name" "$(scripts/kernels.sh release "$name" 2>/dev/null || echo -)" \
			"$(result_of "$name" kmod)" "$(result_of "$name" bpf)"
	done
}
result_of() { sed -n "s/^$1 $2 //p" "$SLOTSCOPE_CELLS" | grep . || echo "-"; }

# Guests on a kernel with KASAN, lockdep and kmemleak; any report of these fails.
vm_debug() {
	local kernel=${DEBUG_KERNEL:-6.12-debug} machine
	step "a debug kernel" scripts/kernels.sh fetch "$kernel"
	step "module builds for $kernel without a warning" make "build/kmod/$kernel/slotscope.ko"
	step "guest $kernel, module" tests/vm/suite.sh "$kernel" kmod
	step "guest $kernel, eBPF source" tests/vm/suite.sh "$kernel" bpf
	step "a kernel where a seccomp filter can refuse uretprobes" scripts/kernels.sh fetch 6.12-unsafe
	step "guest 6.12-unsafe, uretprobes" tests/vm/suite.sh 6.12-unsafe unsafe
	if qemu_rdt; then
		for machine in sockets coexist; do
			step "RDT in guest $kernel, $machine" tests/vm/qemu-rdt/run.sh "$kernel" "$machine"
		done
	fi
	step "stress in guest $kernel, ${STRESS_SECONDS:-600} s" tests/vm/suite.sh "$kernel" stress "${STRESS_SECONDS:-600}"
}

# To build it takes minutes, once; what is beside it goes first.
qemu_rdt() {
	if [ "$(id -u)" != 0 ] && ! tests/vm/qemu-rdt/build.sh --cached >/dev/null; then
		skip "QEMU with RDT" "building it needs root the first time, for packages"
		return 1
	fi
	step "QEMU with RDT" nice -n 19 tests/vm/qemu-rdt/build.sh
}

# RDT hardware, emulated: all machines on one kernel, the most telling ones on the other. In `make test`, what
# has most to say.
rdt() { # rdt KERNEL MACHINE...
	local kernel=$1 machine
	shift
	step "module builds for $kernel without a warning" make "build/kmod/$kernel/slotscope.ko"
	for machine; do
		step "RDT in guest $kernel, $machine" tests/vm/qemu-rdt/run.sh "$kernel" "$machine"
	done
}

# take FILE: the number in it, which goes up by one.
take() {
	local number
	exec {lock}<>"$1"
	flock "$lock"
	read -r number <&"$lock"
	echo $((number + 1)) >"$1"
	exec {lock}>&-
	echo "$number"
}

# two_at_a_time GROUP...: whoever is ready takes the next one. What is to be tried again follows, one by one.
two_at_a_time() {
	local groups=("$@") index pids=() pid p f s line
	local summary='[0-9]* passed, [0-9]* failed, [0-9]* skipped'
	echo 0 >"$logs/next"
	: >"$logs/again"
	set -m # a process group for each, which ends as one
	for _ in 0 1; do
		{
			while index=$(take "$logs/next") && [ "$index" -lt ${#groups[@]} ]; do
				SLOTSCOPE_AGAIN=$logs/again tests/run.sh "${groups[index]}" 2>&1 | tee "$logs/$index.group" | grep --line-buffered -v -e '^$' -e "$summary"
			done
		} &
		pids+=($!)
	done
	set +m
	trap 'for pid in "${pids[@]}"; do kill -- -"$pid"; done; exit 130' INT TERM HUP
	wait "${pids[@]}"
	trap - INT TERM HUP
	for index in "${!groups[@]}"; do
		read -r p f s < <(tail -n 1 "$logs/$index.group" | grep -x "$summary" | tr -dc '0-9 \n') ||
			p=0 f=1 s=0 # it did not get to its end
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
		rm -f "$logs/$index.group"
	done
	while read -r line <&3; do
		eval "$line"
	done 3<"$logs/again"
}

while [ "${1:-}" = --two ]; do
	shift
	groups=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do groups+=("$1") && shift; done
	two_at_a_time "${groups[@]}"
	[ $# = 0 ] || shift
done
for group in "$@"; do
	case $group in
	check) step "style and dependencies" scripts/check.sh ;;
	unit)
		step "unit and property tests" in_shards build/unit_tests --gtest_brief=1
		step "golden files" tests/golden/run.sh
		step "schemas of verdicts" tests/schemas/run.sh
		step "benchmarks, on small inputs" benchmarks_agree
		;;
	fleet) fleet ;;
	page) page ;;
	query) query ;;
	ship) ship ;;
	ship-newer) ship_newer ;;
	kubernetes) kubernetes ;;
	image) step "the image, with the manifest's rights" tests/kubernetes/image.sh build/slotscope-image.tar ;;
	fuzz) step "corpora of the fuzzers" fuzz_replays ;;
	san)
		step "unit tests, ASan and UBSan" build/asan/unit_tests --gtest_brief=1
		export TSAN_OPTIONS=suppressions=$PWD/tests/tsan.suppressions
		step "unit tests, TSan" env SLOTSCOPE_ORACLE_CASES=300 build/tsan/unit_tests --gtest_brief=1
		step "fleet, TSan" env SLOTSCOPE_PROMETHEUS="$(scripts/prometheus.sh)" build/tsan/fleet_tests
		;;
	live) live ;;
	qemu-rdt) qemu_rdt ;;
	vm-debug) vm_debug ;;
	vm-matrix) vm_matrix ;;
	vm-*-some) group=${group#vm-} && vm "${group%-some}" some ;;
	vm-*) vm "${group#vm-}" ;;
	package) step "packages, dkms, their modules in guests 6.1 and 6.12" tests/package.sh 6.1 6.12 ;;
	package-6.1) step "packages, dkms, their modules in guest 6.1" tests/package.sh 6.1 ;;
	rdt-6.1-some) qemu_rdt && SLOTSCOPE_RDT_SECONDS=3 rdt 6.1 reuse coexist ;;
	rdt)
		if qemu_rdt; then
			rdt 6.1 plain counted sockets clusters unit3 wrap24 wrap44 wrap62 unavailable3 unavailable7 reuse exhausted sleepers \
				occupancy partition coexist poor forbidden reboot
			rdt 6.12 plain counted sockets clusters reuse sleepers coexist poor
		fi
		;;
	*)
		echo "run.sh: there is no group $group" >&2
		exit 2
		;;
	esac
done
echo
[ -z "${first:-}" ] || [ ! -s "$SLOTSCOPE_FAILURES" ] || cat "$SLOTSCOPE_FAILURES"
[ ${#only_alone[@]} = 0 ] || printf 'passed only alone, at the second try: %s\n' "${only_alone[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
