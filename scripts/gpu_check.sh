#!/bin/bash
# SPDX-License-Identifier: MIT
# gpu_check.sh [--stand-in]: records programs on a machine with an NVIDIA GPU and compares with what CUDA and NVML say, and CUPTI
# where there is PyTorch. Needs root, nvcc, and build/portable (make portable; SLOTSCOPE_PORTABLE: elsewhere); nothing is installed.
# Leaves its files in $OUT.
# Exit code 0, 1 if something is wrong, 77 if there is no GPU, 69 if this machine does not let the recorder work.
# --stand-in compares what our stand-in libraries do, without a GPU, to test the comparison itself.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
slotscope=${SLOTSCOPE_PORTABLE:-$top/build/portable}/slotscope
stand_in=
[ "${1:-}" != --stand-in ] || stand_in=1
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
wrong=0

claim() { # claim ok|WRONG|info TEXT
	[ "$1" != WRONG ] || wrong=1
	printf '%-5s %s\n' "$1" "$2"
}
claims() { # each line of a file: ok|WRONG|info TEXT
	[ -s "$1" ] || claim WRONG "a comparison said nothing"
	while read -r verdict text; do claim "$verdict" "$text"; done <"$1"
}

# build NAME NVCC-OPTION...: $out/NAME
build() {
	local name=$1 nvcc
	shift
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	"$nvcc" -O1 -std=c++17 "$@" -o "$out/$name" "$top/tests/cuda/gpu_check.cu" -ldl >"$out/nvcc.log" 2>&1 || {
		cat "$out/nvcc.log"
		echo "gpu_check.sh: nvcc could not build the program" >&2
		exit 69
	}
}

# command_of PROGRAM MODE [N]: prints the command to run
command_of() {
	if [ "$stand_in" ]; then
		case $2 in
		memory) set -- cuda 0 ;;
		streams) set -- cuda 1 ;;
		devices) set -- cuda 2 ;;
		gaps) set -- cuda-gaps $((1 - $3)) ;; # 0 computes, 1 sleeps
		train) set -- cuda-train ;;
		launches) set -- cuda-flood $(($3 / 1000)) ;;
		spin) set -- cuda-seldom "$3" ;;
		esac
		echo "'$top/build/live_tests' --workload $*"
	elif [ "$1" = torch ]; then
		echo "python3 '$top/tests/cuda/torch_check.py' $2"
	else
		echo "LD_LIBRARY_PATH='${cuda_lib:-}:${LD_LIBRARY_PATH:-}' '$out/$1' ${*:2}"
	fi
}
run() { sh -c "$(command_of "$@")"; }

pinned=() # what a program is started by

# record NAME PROGRAM MODE [N]: truth to NAME.truth, rows to NAME.csv, by device to NAME.gpu.csv
record() {
	local name=$1
	shift
	"$slotscope" record --gpu on --max-overhead 100 --raw "$out/$name.raw" --spans "$out/$name.spans.csv" --gpu-csv "$out/$name.gpu.csv" \
		-o "$out/$name.csv" -- "${pinned[@]}" sh -c "$(command_of "$@") >'$out/$name.truth'" >"$out/$name.log" 2>&1
	local code=$?
	if grep -q '^failed' "$out/$name.truth" 2>/dev/null; then
		grep '^failed' "$out/$name.truth"
		exit $((code == 77 ? 77 : 1))
	fi
	case $code in
	0) ;;
	3 | 4)
		cat "$out/$name.log"
		exit 69
		;;
	*)
		cat "$out/$name.log"
		claim WRONG "$name: the recording ended with exit code $code"
		return 1
		;;
	esac
	awk -F': ' -v name="$name" '/^# (identity|lost_records|lost_cuda_calls|late_cuda_calls|unknown_cuda_frees): / { value[substr($1, 3)] = $2 }
		END { bad = value["identity"] !~ /^holds/ || value["lost_records"] || value["lost_cuda_calls"] || value["late_cuda_calls"] || value["unknown_cuda_frees"]
			print bad ? "WRONG" : "ok", name ": identity " substr(value["identity"], 1, 5) ", lost records " value["lost_records"] \
				", lost CUDA calls " value["lost_cuda_calls"] ", frees of unknown memory " value["unknown_cuda_frees"] }' \
		"$out/$name.csv" >"$out/claims"
	claims "$out/claims"
}

# The same, on one CPU with somebody who never sleeps.
record_beside_hog() { # record_beside_hog NAME PROGRAM MODE [N]
	local hog code pinned=(taskset -c 0)
	taskset -c 0 sh -c 'while :; do :; done' &
	hog=$!
	record "$@"
	code=$?
	kill $hog
	wait $hog 2>/dev/null
	return $code
}

# Columns of slots.csv: 1 slot_start_ns, 3 tgid, 20 gpu_mem_bytes, 21 gpu_active_ns, 22 gpu_launches.
compare_memory() { # compare_memory NAME
	awk -F, -v name="$1" '
		FNR == NR { split($0, word, " "); if (word[1] == "mem") { n++; pid = word[2]; at[n] = word[3]; bytes[n] = word[4]; used[n] = word[5]; has_used = word[5] != "" } next }
		/^#/ || $3 != pid { next }
		{ end = $1 + 1000000
		  for (i = 1; i <= n; i++) if (end > at[i] && end <= at[i] + 2000000) { checked++; if ($20 != bytes[i]) { bad++; print "info", name ": behind step " i ": " $20 " bytes, in truth " bytes[i] } } }
		END { for (i = 1; i <= n; i++) { off = used[i] - bytes[i]; if (off < 0) off = -off; if (off > most) most = off }
			print (bad || checked < n / 2) ? "WRONG" : "ok", name ": memory is right in " checked - bad " of " checked " slots behind " n " steps"
			if (has_used) print "info", name ": cudaMemGetInfo is at most " most / 1048576 " MiB off (pools, padding, managed memory that is not there yet)" }' \
		"$out/$1.truth" "$out/$1.csv" >"$out/claims"
	claims "$out/claims"
}

compare_streams() { # compare_streams NAME
	awk -F, -v name="$1" '
		FNR == NR { split($0, word, " "); if (word[1] == "active") { n++; pid = word[2]; from[n] = word[3]; to[n] = word[4]; events[n] = word[5] * 1000 }
			if (word[1] == "sum") expected = word[3]; next }
		/^#/ || $3 != pid { next }
		{ launches += $22; for (i = 1; i <= n; i++) if ($1 + 1000000 > from[i] && $1 < to[i]) active[i] += $21 }
		END { print launches == expected ? "ok" : "WRONG", name ": launches " launches + 0 ", in truth " expected
			for (i = 1; i <= n; i++) { most = to[i] - from[i]; bad += active[i] > most || active[i] < 0.97 * events[i] - 50000
				if (events[i] > 0) { r = active[i] / events[i]; if (r > worst) worst = r } }
			print bad ? "WRONG" : "ok", name ": active time is between that of the kernels and that of the calls in " n - bad " of " n " phases"
			if (worst) print "info", name ": at most " worst " x the time between CUDA events" }' \
		"$out/$1.truth" "$out/$1.csv" >"$out/claims"
	claims "$out/claims"
}

# Columns of gpu.csv: 3 kind, 5 gpu_uuid, 6 tgid, 14 sm_active_pct, 15 sm_active_source, 18 gpu_used_bytes.
compare_devices() { # compare_devices NAME UUID
	awk -F, -v name="$1" -v uuid="$2" '/^#/ || $3 == "kind" { next }
		$3 == "process" { if ($5 == uuid) right++; else if ($5 == "") unknown++; else other++ }
		$3 == "gpu" && $5 == uuid { if ($15 == "gpm") { gpm++; if ($14 > most) most = $14 } if ($18 > used) used = $18 }
		END { print (other || !right) ? "WRONG" : "ok", name ": the GPU is " uuid " in " right + 0 " rows, unknown in " unknown + 0 ", another in " other + 0
			print "info", name ": GPM in " gpm + 0 " rows, SMs busy " most + 0 "% at most; NVML has " used / 1048576 " MiB in use at most" }' \
		"$out/$1.gpu.csv" >"$out/claims"
	claims "$out/claims"
}

# Launches and activity of a PyTorch process between two moments at which nothing was under way.
# The time without work that is found is a lower bound of what no kernel ran in.
compare_torch() { # compare_torch NAME [hog]
	awk -F, -v name="$1" -v hog="${2:-}" '
		FNR == NR { split($0, word, " "); if (word[1] == "kernels" || word[1] == "launches") { pid = word[2]; from = word[3]; to = word[4]; nr = word[5]; busy = word[6] * 1000 } next }
		$1 == "slot_start_ns" { for (i = 1; i <= NF; i++) column[$i] = i }
		$7 == "lost" && $1 + 1000000 > from && $1 < to { lost += $8 } # CPU time that nobody saw
		/^#/ || $3 != pid { next }
		$1 + 1000000 > from && $1 < to { launches += $22; active += $21; empty += $21 == "" || $22 == ""
			idle += $column["gpu_no_work_ns"]; waited += $column["gpu_no_work_waited_ns"]; unknown += $column["gpu_no_work_unknown_ns"] }
		END { print (launches == nr && nr > 0) ? "ok" : "WRONG", name ": launches " launches + 0 ", in truth " nr + 0
			print empty ? "WRONG" : "ok", name ": " empty + 0 " slots do not know their launches or activity"
			if (busy) print (active < 0.97 * busy || active > to - from) ? "WRONG" : "ok", name ": active " active / 1e6 " ms, kernels by CUPTI " busy / 1e6 " ms, of " (to - from) / 1e6 " ms"
			most = to - from - busy
			if (busy) print (idle > 1.01 * most + 2000000 || !idle) ? "WRONG" : "ok", name ": without work for at least " idle / 1e6 " ms, by CUPTI for " most / 1e6 " ms: " (idle ? sprintf("%.0f%% of it is found", 100 * idle / most) : "not visible from the host")
			print (unknown > 0.01 * idle + 1000000 + lost) ? "WRONG" : "ok", name ": why is not known for " unknown / 1e6 " ms of that"
			if (hog) print (waited > 0) ? "ok" : "WRONG", name ": beside a hog on its CPU, for " waited / 1e6 " ms of that it waited for a CPU" }' \
		"$out/$1.truth" "$out/$1.csv" >"$out/claims"
	claims "$out/claims"
}

# What it did between a wait for the GPU and the next launch, by the kernel; and by the GPU, if that says it.
compare_gaps() { # compare_gaps NAME
	awk -F, -v name="$1" '
		function off(a, b) { return a > b ? a - b : b - a }
		FNR == NR { split($0, word, " "); if (word[1] == "gaps") { pid = word[2]; ran = word[3]; waited = word[4]; rest = word[5] }
			if (word[1] == "idle") idle = word[3] * 1000; next }
		$1 == "slot_start_ns" { for (i = 1; i <= NF; i++) column[$i] = i }
		$7 == "lost" { lost += $8 }
		/^#/ || $3 != pid { next }
		{ in_rows += $9; none += $column["gpu_no_work_ns"]; by_ran += $column["gpu_no_work_ran_ns"]; by_wait += $column["gpu_no_work_waited_ns"]
		  by_rest += $column["gpu_no_work_asleep_ns"] + $column["gpu_no_work_cuda_wait_ns"]; unknown += $column["gpu_no_work_unknown_ns"] }
		# It may also have waited between the two ends of a gap and its clocks, and run unseen.
		END { all = ran + waited + rest; most = all / 100 + 2000000 + lost + (in_rows > waited ? in_rows - waited : 0)
			print (!pid || off(none, all) > most) ? "WRONG" : "ok", name ": without work for " none / 1e6 " ms, in truth " all / 1e6 " ms"
			print (off(by_ran, ran) > most || off(by_wait, waited) > most || off(by_rest, rest) > most) ? "WRONG" : "ok", name ": as it ran, waited and slept for " \
				by_ran / 1e6 ", " by_wait / 1e6 " and " by_rest / 1e6 " ms, in truth " ran / 1e6 ", " waited / 1e6 " and " rest / 1e6
			print (unknown > all / 100 + lost) ? "WRONG" : "ok", name ": why is not known for " unknown / 1e6 " ms"
			if (idle) print "info", name ": by CUDA events no kernel of it ran in " idle / 1e6 " ms: " sprintf("%.0f%%", 100 * none / idle) " of it is found" }' \
		"$out/$1.truth" "$out/$1.csv" >"$out/claims"
	claims "$out/claims"
}

# Two processes that launch as fast as they can.
compare_rate() { # compare_rate PROGRAM
	local nr=${2:-300000}
	"$slotscope" record --gpu on --max-overhead 100 -o "$out/rate.csv" -- \
		sh -c "$(command_of "$1" launches "$nr") >'$out/rate1.truth' & $(command_of "$1" launches "$nr") >'$out/rate2.truth'; wait" >"$out/rate.log" 2>&1 ||
		claim WRONG "rate: the recording ended with exit code $?"
	awk -F, -v truth="$(awk '$1 == "sum" || $1 == "flood" { n += $3 } END { print n + 0 }' "$out"/rate[12].truth)" -v least="${3:-200000}" '
		/^# lost_cuda_calls: / { split($0, lost, ": "); said = 1 } /^[#s]/ { next } $22 > 0 { nr += $22; if (!first) first = $1; last = $1 }
		END { s = (last - first + 1000000) / 1e9
			print (nr == truth && nr > 0 && said && lost[2] == 0) ? "ok" : "WRONG", "rate: launches " nr + 0 ", in truth " truth ", lost " lost[2] ", in " s " s"
			print (nr / s >= least) ? "ok" : "WRONG", "rate: " nr / s " launches per second, wanted are " least }' \
		"$out/rate.csv" >"$out/claims"
	claims "$out/claims"
}

# A program that was there before: which GPU it uses is known if it sees one, what it holds is not.
record_later() { # record_later NAME PROGRAM MODE [N]
	local name=$1 program
	shift
	run "$@" >"$out/$name.truth" &
	program=$!
	sleep 2
	"$slotscope" record --gpu on --max-overhead 100 --duration 1.5 --gpu-csv "$out/$name.gpu.csv" -o "$out/$name.csv" >"$out/$name.log" 2>&1 ||
		claim WRONG "$name: the recording ended with exit code $?"
	wait $program
	awk -F, -v name="$name" '/^[^#s]/ && $3 == "process" { known += $10 != ""; launches += $12 }
		END { print known || !launches ? "WRONG" : "ok", name ": " launches + 0 " launches; memory is said in " known + 0 " rows, though it may have held some before" }' \
		"$out/$name.gpu.csv" >"$out/claims"
	claims "$out/claims"
}

# What a launch costs, alternated: alone and recorded.
compare_overhead() { # compare_overhead PROGRAM
	local round with=() without=()
	for round in 1 2 3 4 5; do
		without+=("$(run "$1" launches 20000 | awk '$1 == "launches" { print $3 / $4 }')")
		record "launches$round" "$1" launches 20000 >/dev/null || return
		with+=("$(awk '$1 == "launches" { print $3 / $4 }' "$out/launches$round.truth")")
	done
	local a b
	a=$(printf '%s\n' "${without[@]}" | sort -n | sed -n 3p)
	b=$(printf '%s\n' "${with[@]}" | sort -n | sed -n 3p)
	claim info "$1: a launch takes $a ns alone, $b ns recorded: $(awk "BEGIN { print $b - $a }") ns more (medians of 5)"
}

# Each comparison has to notice what it is there for: rows in which a column is another.
mutants() {
	local name compare column found
	while read -r name compare column; do
		awk -F, -v OFS=, -v what="$column" '$1 == "slot_start_ns" { for (i = 1; i <= NF; i++) column[$i] = i }
			!/^[#s]/ { $column[what] = $column[what] == "" ? "" : 2 * $column[what] } { print }' "$out/$name.csv" >"$out/mutant.csv"
		cp "$out/$name.truth" "$out/mutant.truth"
		found=$("$compare" mutant | grep -c '^WRONG')
		if [ "$found" -gt 0 ]; then
			claim ok "mutant: twice the $column of $name is noticed"
		else
			claim WRONG "mutant: twice the $column of $name is not noticed"
		fi
	done <<-'END'
		memory compare_memory gpu_mem_bytes
		streams compare_streams gpu_launches
		streams compare_streams gpu_active_ns
		gaps0 compare_gaps gpu_no_work_ns
		gaps0 compare_gaps gpu_no_work_asleep_ns
		gaps1 compare_gaps gpu_no_work_ran_ns
		train compare_torch gpu_launches
		train compare_torch gpu_no_work_ns
	END
}

[ -x "$slotscope" ] || {
	echo "gpu_check.sh: there is no $slotscope: make portable, on the machine that builds" >&2
	exit 69
}
[ "$(id -u)" = 0 ] || {
	echo "gpu_check.sh: it needs root" >&2
	exit 69
}

if [ "$stand_in" ]; then
	export LD_LIBRARY_PATH=$top/build/standin
	record memory live memory && compare_memory memory
	record streams live streams && compare_streams streams
	CUDA_VISIBLE_DEVICES=1 record devices live devices && compare_devices devices GPU-51075c09-0102-0304-0506-0708090a0100
	for computes in 0 1; do record "gaps$computes" live gaps $computes && compare_gaps "gaps$computes"; done
	record train live train && compare_torch train
	record_beside_hog train-hog live train && compare_torch train-hog hog
	compare_rate live 20000 1
	CUDA_VISIBLE_DEVICES=1 record_later later live spin 4000 && compare_devices later GPU-51075c09-0102-0304-0506-0708090a0100
	mutants
	exit $wrong
fi

[ -e /dev/nvidiactl ] || {
	echo "gpu_check.sh: there is no NVIDIA GPU on this machine (no /dev/nvidiactl)"
	exit 77
}
"$slotscope" gpu
echo
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
build shared -cudart shared ${arch:+-arch=sm_$arch}
build static -cudart static ${arch:+-arch=sm_$arch}
cuda_lib=$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")/../lib64

run shared exported >"$out/exported.truth" || {
	cat "$out/exported.truth"
	exit 77
}
uuid=$(awk '$1 == "uuid" { print $3 }' "$out/exported.truth")
claim info "$(awk '$1 == "exported" { print "of the driver'"'"'s functions, " $3 " are given to the runtime at the address that is exported, " $4 " at another" }' "$out/exported.truth")"
grep '^other' "$out/exported.truth"
for program in shared static; do
	record "memory-$program" "$program" memory && compare_memory "memory-$program" && compare_devices "memory-$program" "$uuid"
	record "streams-$program" "$program" streams && compare_streams "streams-$program"
done
record first shared first && compare_memory first && compare_streams first && compare_devices first "$uuid"
strip -o "$out/stripped" "$out/static"
record streams-stripped stripped streams && compare_streams streams-stripped
grep -h '^# note: process' "$out/streams-stripped.csv" | head -n 3
record spin shared spin 3 && compare_devices spin "$uuid"
CUDA_VISIBLE_DEVICES=$uuid record_later later shared spin 5 && compare_devices later "$uuid"
for computes in 0 1; do record "gaps$computes" shared gaps $computes && compare_gaps "gaps$computes"; done
record_beside_hog gaps-hog shared gaps 1 && compare_gaps gaps-hog
compare_overhead shared
compare_rate shared
if python3 -c 'import torch; assert torch.cuda.is_available(), "it sees no GPU"' 2>"$out/torch.log"; then
	record torch-memory torch memory && compare_memory torch-memory && compare_devices torch-memory "$uuid"
	record torch-train torch train && compare_torch torch-train
	record torch-graph torch graph && compare_torch torch-graph
	record_beside_hog torch-hog torch train && compare_torch torch-hog hog
	grep -h '^# note: process' "$out/torch-train.csv" | head -n 3
else
	claim info "PyTorch was not tried: $(tail -n 1 "$out/torch.log")"
fi
rm -f "$out"/*.raw "$out/shared" "$out/static" "$out/stripped"
echo "files are in $out"
exit $wrong
