#!/bin/sh
# SPDX-License-Identifier: MIT
# in-guest.sh kmod|bpf: the live tests and the life of the module, inside a guest. Ends with a line
# "PASS" or says what failed; the exit code is 0 or 1. QUICK=1 leaves out what does not depend on the
# kernel's flavour, QUICK=0 only live tests of that kind, and what a guest with RDT says better. QUICK=2 is for a guest of
# many in one run: what no other one of them, nor this machine's own kernel, says; 3: that the source works at all.
set -u

SLOTSCOPE_TEST_SOURCE=$1
SLOTSCOPE_BINARY=/slotscope/slotscope
SLOTSCOPE_TEST_SCALE=${SCALE:-8} # a fork takes many times as long in an emulated machine
SLOTSCOPE_TEST_STRICT=1 # a test that is skipped has failed
export SLOTSCOPE_TEST_SOURCE SLOTSCOPE_BINARY SLOTSCOPE_TEST_SCALE SLOTSCOPE_TEST_STRICT
births=$((32000 / SLOTSCOPE_TEST_SCALE)) crowd=300 # processes that are more than a small table has room for
threads=4200 # of one process that are more than are counted at load
case $(uname -r) in *-debug-*) births=100 crowd=120 threads=0 ;; esac # it takes a second for a few of them
[ -z "${QUICK:-}" ] || births=1000
failures=0
# shellcheck source=tests/vm/common.sh
. ./common.sh

load_module() { # load_module PARAMETER...
	insmod slotscope.ko "$@" || fail "insmod $*"
	keep_on slotscope
}

expect() { # expect CODE COMMAND...: runs it and compares its status
	code=$1
	shift
	"$@" >/tmp/out 2>&1
	got=$?
	[ "$got" = "$code" ] || {
		cat /tmp/out
		fail "'$*' gave $got, not $code"
	}
}

# part COMMAND...: and how long it took, by a clock that nobody steps.
part() {
	read -r begun _ </proc/uptime
	"$@"
	read -r ended _ </proc/uptime
	echo "part: $* took $((${ended%.*} - ${begun%.*})) s"
}

live_tests() {
	./live_tests "$@" || fail "live tests, source $SLOTSCOPE_TEST_SOURCE"
}

module_life() {
	expect 5 ./slotscope record --source kmod --duration 1
	sleep 300 &
	old=$!
	expect 0 insmod slotscope.ko
	is_loaded || fail "the module is not loaded"

	# Processes older than the collector are named by the dump.
	expect 0 ./slotscope record --source kmod --duration 0.5 --output old.csv
	expect 0 ./slotscope rmids
	grep -q " $old " /tmp/out || fail "rmids does not list the process $old, older than the module"
	grep -q ',,[0-9]*,user,' old.csv && {
		grep '^# [a-z_]*: [1-9]' old.csv
		grep ',,[0-9]*,user,' old.csv | head -n 5
		fail "a user process has no name in a recording that began after it"
	}

	# procfs: one word is understood, everything else is refused.
	echo dump >/proc/slotscope/rmids || fail "dump was refused"
	printf dump >/proc/slotscope/rmids || fail "dump without a newline was refused"
	for word in dumps dum "" "dump dump" dumpdumpdumpdumpdump reset; do
		echo "$word" >/proc/slotscope/rmids 2>/dev/null && fail "'$word' was accepted"
	done
	for text in 'dump\0' 'dump\0ab' 'dump\n\n' ' dump' 'DUMP'; do
		# shellcheck disable=SC2059 # it is a format
		printf "$text" >/proc/slotscope/rmids 2>/dev/null && fail "'$text' was accepted"
	done
	# Nobody listens: nothing ticks.
	has_no_ticks || fail "without a listener there are ticks: $(ticks)"
	# Root of a user namespace has no capability in ours.
	for file in rmids info; do
		unshare -r cat /proc/slotscope/$file >/tmp/out 2>&1 && fail "root of another user namespace may read $file"
		grep -q 'not permitted' /tmp/out || fail "it is refused with '$(cat /tmp/out)', not EPERM"
		unshare -r sh -c 'cat <&3' 3</proc/slotscope/$file >/tmp/out || fail "a file that was opened before is not read by who has it"
	done
	# Whoever has that one capability may.
	./live_tests --workload open-as-perfmon || fail "CAP_PERFMON is not what is asked for"
	dd if=/proc/slotscope/rmids bs=7 2>/dev/null | wc -l | grep -q '^512$' || fail "read in small pieces, the RMID table has other lines"
	[ "$(awk '$2 == "live"' /proc/slotscope/rmids | awk '{ print $3 }' | sort | uniq -d | wc -l)" = 0 ] ||
		fail "a process has two RMIDs"

	# A module of another ABI is refused, with both numbers.
	sed 's/^abi: .*/abi: 4711/' /proc/slotscope/info >other-abi
	mount -o bind other-abi /proc/slotscope/info
	expect 5 ./slotscope record --source kmod --duration 1 --output abi.csv
	grep -q 4711 /tmp/out || fail "the refusal does not name the module's ABI"
	[ -e abi.csv.part ] && fail "a refused recording left a file"
	# Whoever does not insist on the module records without it, and is told.
	expect 0 ./slotscope record --source auto --duration 0.5 --output abi.csv
	grep -q '4711.*recording without it' /tmp/out || fail "it does not say why it records without the module: $(cat /tmp/out)"
	grep -q '^# source: bpf (.*4711' abi.csv || fail "the file does not say why: $(grep '^# source' abi.csv)"
	umount /proc/slotscope/info

	# In use while a collector is attached; free at once when it is gone, however it went.
	./slotscope record --source kmod --output a.csv 2>err &
	collector=$!
	until_true 100 grep -q recording err || fail "the collector does not record"
	rmmod slotscope 2>/tmp/out && fail "rmmod took the module away from a collector"
	kill -9 $collector
	wait $collector 2>/dev/null
	until_true 20 is_unloadable || fail "rmmod fails after the collector was killed"
	is_loaded && fail "the module is still loaded"

	# Ticks come with the first listener and go with the last; tracefs may be one that stays until after the unload.
	expect 0 insmod slotscope.ko
	echo 1 >/sys/kernel/tracing/events/slotscope/ss_tick/enable
	hard_timers 0 1
	expect 0 ./slotscope record --source kmod --duration 0.5 --output ticks.csv
	hard_timers 0 1
	echo 0 >/sys/kernel/tracing/events/slotscope/ss_tick/enable
	until_true 20 has_no_ticks || fail "without a listener there are ticks again: $(ticks)"
	expect 0 ./slotscope record --source kmod --duration 0.5 --output ticks.csv
	until_true 20 has_no_ticks || fail "after a recording there are ticks: $(ticks)"
	echo 1 >/sys/kernel/tracing/events/slotscope/ss_rdt_sample/enable
	expect 0 rmmod slotscope
	has_no_ticks || fail "after an unload there are ticks: $(ticks)"

	# Load and unload while processes are born and die.
	./live_tests --workload storm "$births" >/dev/null &
	storm=$!
	for _ in 1 2 3 4 5; do
		expect 0 insmod slotscope.ko
		expect 0 rmmod slotscope
	done
	wait $storm

	# Bad parameters are refused with a sentence.
	for parameter in rmids=0 rmids=1 rmids=513 max_processes=1 max_processes=4194305 rdt_budget_us=0 rdt_budget_us=201 \
		cpus=x cpus=9999; do
		dmesg -c >/dev/null
		insmod slotscope.ko $parameter 2>/dev/null && fail "parameter $parameter was accepted"
		dmesg | grep -q "slotscope: parameter ${parameter%%=*}=" || fail "parameter $parameter was refused without a sentence"
	done
	insmod slotscope-no-probe.ko 2>/dev/null && fail "it loads on a kernel without a tracepoint that it needs"
	dmesg | grep -q 'slotscope: this kernel has no tracepoint sched_wakeup_nix' || fail "it does not say which tracepoint is missing"

	# A table that is too small: who found no room is counted, and said; and the largest there is.
	load_module max_processes=64
	./live_tests --workload crowd $crowd >/dev/null || fail "crowd"
	grep -q '^untracked: [1-9]' /proc/slotscope/info || fail "a crowd of $crowd has room in a table of 64: $(cat /proc/slotscope/info)"
	rmmod slotscope || fail "rmmod"
	dmesg | grep -q 'slotscope: .*raise max_processes' || fail "the kernel log does not say that the table was too small"
	# Those that found no room are looked for again once there is some, with all their threads.
	load_module max_processes=64
	start_workload sleepers $crowd
	rm -f /tmp/busy-says
	./live_tests --workload busy 60000 >/tmp/busy-says &
	busy=$!
	until_true 100 test -s /tmp/busy-says || fail "the workload busy does not start"
	grep -q '^untracked: [1-9]' /proc/slotscope/info || fail "$crowd sleepers have room in a table of 64: $(cat /proc/slotscope/info)"
	# First in vain: nobody is born between that look and the end of the sleepers.
	walk_in_vain || fail "nobody looks for those that found no room: $(cat /proc/slotscope/info)"
	end_workload
	tgid=$(sed -n 's/^busy //p' /tmp/busy-says)
	until_true 300 is_tracked "$tgid" || fail "a process that found no room is not adopted: $(cat /proc/slotscope/info)"
	kill $busy
	wait $busy 2>/dev/null
	until_true 20 is_gone "$tgid" || fail "an adopted process keeps its RMID after its end"
	rmmod slotscope || fail "rmmod"
	# A process of more threads than are counted at load has its RMID, and gives it back.
	if [ $threads -gt 0 ]; then
		start_workload threads $threads
		load_module
		grep -q '^walk_uncounted: 1$' /proc/slotscope/info || fail "$threads threads were counted: $(grep walk /proc/slotscope/info)"
		is_tracked $workload || fail "a process of $threads threads has no RMID"
		end_workload
		until_true 400 is_gone $workload || fail "a process of $threads threads keeps its RMID after its end"
		grep -E '^(unknown_dead|stale|rmid_bad_frees): [1-9]' /proc/slotscope/info && fail "the end of $threads threads is counted as an error"
		rmmod slotscope || fail "rmmod"
	fi
	load_module max_processes=4194304
	./live_tests --workload crowd $crowd >/dev/null || fail "crowd"
	grep -q '^untracked: 0$' /proc/slotscope/info || fail "the largest table has no room"
	rmmod slotscope || fail "rmmod"
	expect 0 insmod slotscope.ko rmids=32
	grep -q '^rmids: 32$' /proc/slotscope/info || fail "rmids=32 has no effect"
	expect 0 rmmod slotscope
	kill $old
}

# A module that sends less than the relay knows: the rest is zero, and nothing behind it is read. Its ticks, which
# say nothing of missed ones, are followed by the number 4711.
shorter_messages() {
	insmod slotscope-short.ko || fail "insmod slotscope-short.ko"
	expect 0 ./slotscope record --source kmod --duration 1 --output short.csv
	grep -q '^# missed_ticks: 0$' short.csv || fail "of a shorter message more was read than was sent: $(grep missed_ticks short.csv)"
	grep -q '^# identity: holds' short.csv || fail "with a module of shorter messages: $(grep '^# identity' short.csv)"
	rmmod slotscope || fail "rmmod"
}

# The N-th step of loading that can fail does, for every N, while processes are born and die.
failing_loads() {
	./live_tests --workload storm "$births" >/dev/null &
	storm=$!
	step=1
	while ! insmod slotscope-fault.ko fail_step=$step 2>/dev/null; do
		[ ! -e /proc/slotscope ] || fail "a load that failed at step $step left /proc/slotscope"
		is_loaded && fail "a load that failed at step $step left the module"
		step=$((step + 1))
		[ $step -lt 100 ] || break
	done
	# Three tables, six probes, the walk, the tick, the worker, three files.
	expected=$((3 + 6 + 1 + 1 + 1 + 3))
	[ $step = $((expected + 1)) ] || fail "$((step - 1)) steps of loading can fail, not $expected"
	rmmod slotscope || fail "rmmod"
	wait $storm

	# Loaded while a CPU is away, which then comes; unloaded while it is away.
	echo 0 >/sys/devices/system/cpu/cpu1/online
	load_module
	hard_timers 0
	echo 1 >/sys/devices/system/cpu/cpu1/online
	hard_timers 0 1
	echo 0 >/sys/devices/system/cpu/cpu1/online
	hard_timers 0
	rmmod slotscope || fail "rmmod while a CPU is offline"
	echo 1 >/sys/devices/system/cpu/cpu1/online
}

# Each watched CPU has its tick, in hard interrupt context also with PREEMPT_RT: on the first of its clocks.
hard_timers() { # hard_timers CPU...
	until_true 20 are_hard_timers "$@" || fail "ticks by CPU and clock: $(ticks), not on clock 0 of the CPUs $*"
}
# The list is made timer by timer: one that expires meanwhile may be missing, or be there twice.
ticks() { awk '/^cpu:/ { cpu = $2 } /^ clock [0-9]+:/ { clock = $2 } / ss_tick/ { print cpu "/" clock }' /proc/timer_list | sort -u; }
has_no_ticks() { [ -z "$(ticks)" ]; }
are_hard_timers() { [ "$(ticks | tr -d '\n')" = "$(printf '%s/0:' "$@")" ]; }

# snapshots FILE: in the background, reads the RMID table while /tmp/busy exists; each time it is whole and of one
# moment. Fails for what it sees itself.
snapshots() {
	reads=0 failures=0
	while [ -e /tmp/busy ]; do
		cat /proc/slotscope/rmids >"$1" || fail "the RMID table cannot be read"
		reads=$((reads + 1))
		awk 'NR == 1 { next } NF < 6 || $1 != NR - 1 { exit 1 } $2 == "live" && live[$3, $6]++ { exit 1 }
			END { if (NR != 512) exit 1 }' "$1" || fail "a snapshot of the RMID table is not consistent: $1"
	done
	[ $reads -gt 3 ] || fail "only $reads snapshots"
	[ $failures = 0 ]
}

dumps() {
	failures=0
	while [ -e /tmp/busy ]; do
		echo dump >/proc/slotscope/rmids || fail "a dump was refused"
		cat /proc/slotscope/info >/dev/null || fail "info cannot be read"
	done
	[ $failures = 0 ]
}

# Readers and writers of procfs while processes are born and die and a CPU goes and comes back; then the module
# goes while they are at it, and while somebody has the file open.
procfs_in_use() {
	load_module
	touch /tmp/busy
	./live_tests --workload storm "$births" >/dev/null &
	storm=$!
	snapshots /tmp/snapshot.1 &
	users=$!
	for command in "snapshots /tmp/snapshot.2" dumps dumps; do
		$command &
		users="$users $!"
	done
	for online in 0 1 0 1; do
		usleep 200000
		echo $online >/sys/devices/system/cpu/cpu1/online
	done
	wait $storm
	rm /tmp/busy
	for user in $users; do
		wait "$user" || fail "a user of procfs failed (above)"
	done

	exec 3</proc/slotscope/rmids
	read -r _ <&3 || fail "the RMID table has no first line"
	(while [ ! -e /tmp/done ]; do
		cat /proc/slotscope/rmids
		echo dump >/proc/slotscope/rmids
	done) >/dev/null 2>&1 &
	for _ in 1 2 3; do
		until_true 20 is_unloadable || fail "rmmod fails while procfs is in use"
		insmod slotscope.ko || fail "insmod"
	done
	touch /tmp/done
	wait
	cat <&3 >/dev/null 2>&1 # an error or an end, not the module's old code
	exec 3<&-
	rmmod slotscope || fail "rmmod"
}

# Process ids go round, below a small limit and at the largest there is.
pids_go_round() {
	limit=$(cat /proc/sys/kernel/pid_max)
	echo 700 >/proc/sys/kernel/pid_max
	live_tests --gtest_filter='Storms*512Rmids:Lifetimes*Many500*'
	echo 4194304 >/proc/sys/kernel/pid_max
	echo 4194000 >/proc/sys/kernel/ns_last_pid
	live_tests --gtest_filter='Storms*512Rmids:Lifetimes*Many500*'
	echo "$limit" >/proc/sys/kernel/pid_max
}

record_in_background() { # record_in_background FILE: returns when it records; $collector is its pid
	rm -f err # an earlier one's
	./slotscope record --source "$SLOTSCOPE_TEST_SOURCE" --max-overhead 100 --output "$1" --raw "$1.raw" >out 2>err &
	collector=$!
	until_true 200 grep -q recording err || fail "the collector does not record"
}

stop_recording() {
	kill "$collector"
	wait "$collector" || {
		cat out err
		fail "the recording failed"
	}
}

# Holds in the file, and a replay of its raw file gives the same one.
holds_identity() {
	grep -q '^# identity: holds' "$1" || fail "$1: $(grep '^# identity' "$1")"
	expect 0 ./slotscope replay --output replayed.csv "$1.raw"
	cmp "$1" replayed.csv || fail "a replay of $1.raw gives another file"
	rm -f "$1.raw" replayed.csv
}

rows_of_kind() { awk -F, -v kind="$2" '!/^#/ && $7 == kind' "$1" | wc -l; }

# A CPU goes and comes back: its time is offline in between, and measured again after.
hotplug() {
	record_in_background hotplug.csv
	sleep 1
	echo 0 >/sys/devices/system/cpu/cpu1/online || fail "CPU 1 does not go offline"
	sleep 1
	echo 1 >/sys/devices/system/cpu/cpu1/online || fail "CPU 1 does not come back"
	sleep 1
	stop_recording
	holds_identity hotplug.csv
	offline=$(rows_of_kind hotplug.csv offline)
	slots=$(sed -n 's/^# slots: //p' hotplug.csv)
	[ "$offline" -gt 500 ] || fail "only $offline slots with an offline CPU"
	[ "$offline" -lt $((slots - 500)) ] || fail "$offline of $slots slots with an offline CPU: it was not measured again"
}

# A CPU that does not get away, or not back: every state of hotplug that can fail does, and what was done is undone.
failing_hotplugs() {
	record_in_background failing.csv
	cpu=/sys/devices/system/cpu/cpu1
	undone=" "
	while read -r state name; do
		# Each of some eighty, or ours and those beside it.
		case ${QUICK:-}$name in [0-9]sched:active | [0-9]slotscope:online | [0-9]workqueue:online) ;; [0-9]*) continue ;; esac
		for online in 0 1; do
			echo "${state%:}" 2>/dev/null >$cpu/hotplug/fail || continue # an early state, which cannot
			if ! echo $online 2>/dev/null >$cpu/online; then
				undone="$undone$name/$online "
				[ "$(cat $cpu/online)" != $online ] || fail "hotplug failed in $name, but CPU 1 is where it should not be"
				are_ticks_of_module $((1 - online))
				echo $online >$cpu/online || fail "hotplug fails again after $name"
			fi
			are_ticks_of_module $online
			echo -1 >$cpu/hotplug/fail # nobody was asked in this state
		done
	done </sys/devices/system/cpu/hotplug/states
	until_true 300 are_all_measured failing.csv.part || fail "a CPU whose hotplug failed is not measured again"
	stop_recording
	holds_identity failing.csv
	for name in sched:active/0 slotscope:online/0 workqueue:online/0 slotscope:online/1 sched:active/1; do
		case $name/$SLOTSCOPE_TEST_SOURCE in slotscope*/bpf) continue ;; esac
		case $undone in *" $name "*) ;; *) fail "hotplug did not fail in $name, only in$undone" ;; esac
	done
}
# In the last tenth of a second of a recording that goes on.
are_all_measured() { # are_all_measured FILE
	tail -n 5000 "$1" | awk -F, '!/^#/ && $1 + 0 > 0 { start[++n] = $1; away[n] = $7 == "offline" || $7 == "lost" ? $8 : 0 }
		END { for (last = start[n]; start[n] > last - 100000000; n--) sum += away[n]; exit !last || sum > 10000000 }'
}
are_ticks_of_module() { # are_ticks_of_module ONLINE: of CPU 1
	case $SLOTSCOPE_TEST_SOURCE$1 in
	kmod0) hard_timers 0 ;;
	kmod1) hard_timers 0 1 ;;
	esac
}

# Seconds by which the wall clock is ahead of the one that counts from boot; the kernel reads both at once.
wall_clock_ahead() { awk '$1 == "btime" { print $2 }' /proc/stat; }

# The wall clock is set, forth and back: Unix times follow, and nothing else changes.
clock_step() {
	record_in_background step.csv
	ahead=$(wall_clock_ahead)
	for seconds in 3600 -1800; do
		sleep 1
		now=$(date +%s)
		date -s "@$((now + seconds))" >/dev/null || fail "the clock cannot be set"
	done
	sleep 1
	stop_recording
	holds_identity step.csv
	steps=$(grep -c '^# unix_offset_ns: ' step.csv)
	[ "$steps" = 3 ] || fail "$steps lines with the clock's offset, not that of the start and one per step"
	# From the first row to the last the wall clock gained what it did, some 1800 s, known to the second.
	awk -F, -v gained=$(($(wall_clock_ahead) - ahead)) '
		!/^#/ && $1 + 0 > 0 { if (!n++) first = $2 - $1; last = $2 - $1 }
		END { off = (last - first) / 1e9 - gained; exit gained < 1000 || off < -1.1 || off > 1.1 }' step.csv ||
		fail "Unix times do not follow the clock"
}

is_tracked() { awk -v tgid="$1" '$2 == "live" && $3 == tgid { found = 1 } END { exit !found }' /proc/slotscope/rmids; }
is_gone() { ! is_tracked "$1"; }

# Waits until the module has looked once more for those that found no room. By what the shell has built in: a birth
# would be a reason to look again.
walk_in_vain() {
	walks_before='' deadline=$(($(cut -d. -f1 /proc/uptime) + 60))
	while read -r uptime _ </proc/uptime && [ "${uptime%.*}" -lt "$deadline" ]; do
		while read -r key walks; do [ "$key" != adoption_walks: ] || break; done </proc/slotscope/info
		[ -n "$walks_before" ] || walks_before=$walks
		[ "$walks" = "$walks_before" ] || return 0
	done
	return 1
}

# free_rmids N: at least so many are free, or in limbo. taken_back N: so many were taken from who sleeps.
free_rmids() { [ "$(awk '$2 == "free" || $2 == "limbo"' /proc/slotscope/rmids | wc -l)" -ge "$1" ]; }
taken_back() { [ "$(sed -n 's/^rmid_taken_back: //p' /proc/slotscope/info)" -ge "$1" ]; }

# start_workload NAME ARG: returns when it says that it is ready; $workload is its pid.
start_workload() {
	rm -f /tmp/workload
	./live_tests --workload "$@" >/tmp/workload &
	workload=$!
	until_true 600 grep -q ready /tmp/workload || fail "the workload $1 does not start"
}
end_workload() {
	kill -9 "$workload"
	wait "$workload" 2>/dev/null
}

# busy_has_rmid CSV WITHIN: the process that computed has rows under an RMID from WITHIN slots on, to its end.
busy_has_rmid() {
	tgid=$(sed -n 's/^busy //p' /tmp/busy-says)
	awk -F, -v tgid="$tgid" -v within="$2" '/^#/ || $3 != tgid { next }
		{ rows++; if ($7 == "unassigned") { if (rows > within) late++; without++ } else if ($7 == "user") with++ }
		END { print "busy " tgid ": " with + 0 " rows with an RMID, " without + 0 " without"; exit !(with > 100 && !late) }' "$1"
}

nr_workloads() { pidof live_tests | wc -w; }
are_workloads() { [ "$(nr_workloads)" = "$1" ]; }

# record_busy MILLISECONDS: to who.csv, while a process computes for so long.
record_busy() {
	record_in_background who.csv
	./live_tests --workload busy "$1" >/tmp/busy-says
	usleep 200000
	stop_recording
	holds_identity who.csv
}

# While 600 others sleep, of which 511 had all RMIDs, who runs has one within 100 ms. The sleepers live on. (A debug kernel
# would take half an hour for so many: it has fewer of both.)
rmids_go_to_who_runs() {
	sleepers=600 rmids='' reserve=32 free=480 nappers=150 rmids_of_nappers=128
	! is_debug || sleepers=150 rmids=rmids=128 reserve=8 free=120 nappers=60 rmids_of_nappers=48
	nr_before=$(nr_workloads)
	load_module $rmids
	./live_tests --workload busy-again 500 >/tmp/again-says &
	again=$!
	until_true 100 is_tracked $again || fail "who runs first has no RMID"
	until_true 100 grep -q '^State:.S' /proc/$again/status || fail "busy-again does not sleep"
	start_workload sleepers $sleepers
	until_true 100 taken_back $reserve || fail "nobody who sleeps loses an RMID: $(grep rmid /proc/slotscope/info)"
	until_true 20 free_rmids $reserve || fail "fewer RMIDs are free than the reserve"
	record_busy 1000
	busy_has_rmid who.csv 100 || fail "who runs has no RMID: $(grep rmid /proc/slotscope/info)"
	[ "$(nr_workloads)" -gt $sleepers ] || fail "sleepers are gone"
	# One that has lost its own, too, when it runs again: some are kept free for that.
	until_true 50 is_gone $again || fail "who slept for longest has kept its RMID"
	record_in_background who.csv
	kill -USR1 $again
	wait $again
	usleep 200000
	stop_recording
	holds_identity who.csv
	cp /tmp/again-says /tmp/busy-says
	busy_has_rmid who.csv 100 || fail "who runs again has no RMID: $(grep rmid /proc/slotscope/info)"
	[ "$(awk '$2 == "live" { print $3, $6 }' /proc/slotscope/rmids | sort | uniq -d | wc -l)" = 0 ] || fail "a process has two RMIDs"
	end_workload
	until_true 50 free_rmids $free || fail "the sleepers' RMIDs are not free after their end"

	# A user with a crowd that runs every half second cannot keep them from others. (Where all is done, as many as there are
	# RMIDs; 600 of them alone keep both CPUs of a guest busy where its host is slow.)
	[ -n "${QUICK:-}" ] || is_debug || { nappers=511 rmids_of_nappers=512; }
	rmmod slotscope || fail "rmmod"
	load_module rmids=$rmids_of_nappers
	start_workload nappers $nappers
	usleep 2000000
	record_busy 3000
	busy_has_rmid who.csv 1000 || fail "a user's crowd keeps RMIDs from others: $(cat /proc/loadavg; grep rmid /proc/slotscope/info)"
	# Nor from its own processes, if somebody has selected one of them.
	./slotscope record --source kmod --max-overhead 100 --output who.csv -- \
		./live_tests --workload busy-user 2000 >/tmp/busy-says 2>err || fail "record -- COMMAND"
	busy_has_rmid who.csv 500 || fail "a selected process has no RMID: $(cat err; grep rmid /proc/slotscope/info)"
	# Also one that has been there before.
	./live_tests --workload busy-user 4000 >/tmp/busy-says &
	busy=$!
	until_true 100 grep -q busy /tmp/busy-says || fail "busy-user does not start"
	./slotscope record --source kmod --max-overhead 100 --pid "$(sed -n 's/^busy //p' /tmp/busy-says)" --duration 2 --output who.csv \
		2>err || fail "record --pid: $(cat err)"
	wait $busy
	busy_has_rmid who.csv 500 || fail "a process that --pid selects has no RMID: $(cat err; grep rmid /proc/slotscope/info)"
	end_workload
	until_true 50 are_workloads "$nr_before" || fail "the crowd outlives its parent: $(nr_workloads) processes, $nr_before before"
	# Nor a cgroup's crowd, whose user is that of the others.
	mkdir -p /tmp/cgroup
	mount -t cgroup2 none /tmp/cgroup
	mkdir /tmp/cgroup/crowd
	echo $$ >/tmp/cgroup/crowd/cgroup.procs
	start_workload roots-nappers $nappers
	echo $$ >/tmp/cgroup/cgroup.procs
	usleep 2000000
	record_busy 3000
	busy_has_rmid who.csv 1000 || fail "a cgroup's crowd keeps RMIDs from others: $(cat /proc/loadavg; grep rmid /proc/slotscope/info)"
	end_workload
	until_true 50 are_workloads "$nr_before" || fail "the crowd outlives its parent: $(nr_workloads) processes, $nr_before before"
	until_true 50 rmdir /tmp/cgroup/crowd && umount /tmp/cgroup
	rm -f who.csv* replayed.csv # all files are in memory
	grep -E '^rmid_bad_frees: [1-9]' /proc/slotscope/info && fail "the module's counters say so"
	echo first 1 >/proc/slotscope/rmids || fail "'first 1' was refused"
	for text in 'first' 'first ' 'first x' 'first 0' 'first -1' 'first +1' 'first 1 2' 'first 99999999999' 'first 4000000'; do
		echo "$text" >/proc/slotscope/rmids 2>/dev/null && fail "'$text' was accepted"
	done
	rmmod slotscope || fail "rmmod"
}

unwatched_cpu() {
	load_module cpus=0
	record_in_background unwatched.csv
	for _ in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done
	sleep 1
	stop_recording
	holds_identity unwatched.csv
	[ "$(rows_of_kind unwatched.csv offline)" -gt 500 ] || fail "the time of a CPU that is not watched is not offline"
	grep -q '^# output_errors: 0$' unwatched.csv || fail "messages of the CPU that is not watched were lost"
	rmmod slotscope || fail "rmmod"
}

# A cpuset sets a CPU apart: it is left alone, also by a recording, and comes back when nobody records.
isolated_cpu() {
	insmod slotscope.ko || fail "insmod" # and nobody else listens
	mkdir -p /tmp/cgroup
	mount -t cgroup2 none /tmp/cgroup
	echo +cpuset >/tmp/cgroup/cgroup.subtree_control
	mkdir /tmp/cgroup/apart
	echo 1 >/tmp/cgroup/apart/cpuset.cpus || fail "there are no cpusets"
	record_in_background isolated.csv
	echo isolated >/tmp/cgroup/apart/cpuset.cpus.partition || fail "no CPU can be set apart"
	until_true 300 watches 0 || fail "a CPU that a cpuset has set apart is watched: $(grep watched /proc/slotscope/info)"
	hard_timers 0
	usleep 500000
	stop_recording
	holds_identity isolated.csv
	[ "$(rows_of_kind isolated.csv offline)" -gt 100 ] || fail "the time of a CPU that was set apart is not offline"
	echo member >/tmp/cgroup/apart/cpuset.cpus.partition
	until_true 300 watches 0-1 || fail "a CPU that is not set apart any more is not watched: $(grep watched /proc/slotscope/info)"
	rmdir /tmp/cgroup/apart && umount /tmp/cgroup
	rmmod slotscope || fail "rmmod"
}
watches() { grep -q "^watched_cpus: $1\$" /proc/slotscope/info; }

# CUDA's probes while the kernel preempts them wherever it can. Since 6.13 it gives them a stack that all of a CPU share, and
# what they kept there was overwritten within seconds.
preempted_probes() {
	mode=/sys/kernel/debug/sched/preempt
	[ -e $mode ] || mount -t debugfs none /sys/kernel/debug
	[ -w $mode ] || return 0 # PREEMPT_RT, or built without a choice
	before=$(sed 's/.*(\(.*\)).*/\1/' $mode)
	echo full >$mode
	preempted='Cuda.ManyProcesses*'
	# Before 7.0 a task's storage is refused to who preempts somebody that is in it.
	! grep -q ' bpf_task_storage_busy$' /proc/kallsyms || preempted="$preempted:Cuda.WithoutStorage*"
	live_tests --gtest_filter="$preempted"
	echo "$before" >$mode
}

# What no guest can test: it has neither Python nor NVIDIA's libraries, a process takes too long to start, a recorder is
# never cheap, or takes too long to begin, what waits beside a hog is in no account of an emulated kernel, and a call takes as long
# as the host lets it. A fleet is the same on all kernels; so is what explain makes of rows.
not_here='Fleet.*:Overhead.ABurst*:Overhead.WhatTraps*:Overhead.Cuda*:Cudart.*:Remediate.EveryAllocation*:Remediate.AProcessBeside*:Remediate.TheChapters*:Remediate.WhoWas*:Cuda.Files*:Cuda.WithoutStorage*:Demo.*:Cuda.ManyCopies*:Cuda.Hundreds*:*ExplainLive*:TopLive*:Docs.*'
not_here="$not_here:Waits.OfWho*:*GpuGaps*IsBesideAHog:Cuda.WhatCannotBeProbed*:Unit.ItRecordsInIts*:Unit.S*:Unit.W*"
# Of some kernels Debian serves no modules, and so no slow disk.
[ -e null_blk.ko ] || not_here="$not_here:*GpuGaps*/WaitsForADisk"
# What no kernel can change. ELSEWHERE=1: another guest of this run does it.
program='Detect.*:Recording.*:*BadInput*:Replay*:*ReplayTest*:Cli.WithoutRoot*:Cli.FullDisk*:Cli.MaxSize*:Cli.Command*:Cli.Interrupt*'
program="$program:Cli.AFile*:Cli.Nohup*:Cli.TwoCollectorsOnOne*:Remediate.Another*:Remediate.Without*:Overhead.ARecording*"
program="$program:Accuracy.CommandRecords*:Accuracy.HostileNames*:Cuda.TheLastRaw*:Cuda.Replay*"
[ -z "${ELSEWHERE:-}" ] || not_here="$not_here:$program"
# Of the live tests, what depends on the kernel's flavour.
quick='Hotplug.*:*WaitTruth*:Cgroups.*:Identity.*:Lifetime*:Storms*512Rmids:Accuracy*:Waits.N*:Waits.T*:Waits.OfTheTime*:Waits.W*:*Quota.IsNoNeighboursFault/V2:State*:Uretprobes.*:Cli.AKernel*'
# The same for one of several guests.
core='Hotplug.*:*WaitTruth*Crowd:*WaitTruth*Shuffle:*WaitTruth*Realtime:*Quota.IsNoNeighboursFault/V2:State.OfWhoDoesNot*:Cgroups.*:Identity.Where*:Uretprobes.*'
core="$core:Accuracy.EverySwitch*:Accuracy.Counters*:Accuracy.AThreadsName*:Cuda.MemoryOf*:Lifetime.*:*LifetimeTest*By*:*LifetimeTest*Leader*"
core="$core:*LifetimeTest*Spinning*:*LifetimeTest*Vfork:*LifetimeTest*Zombie:*GpuGaps*/Sleeps:*GpuGaps*/IsThrottled:*GpuGaps*/W*"
few='*WaitTruth*Crowd:Cgroups.*:Uretprobes.*:Accuracy.EverySwitch*:Cuda.MemoryOf*:State.OfWhoDoesNot*:*LifetimeTest*Spinning*'
few="$few:FullTable.*:*Quota.IsNoNeighboursFault/V2:*GpuGaps*/Sleeps"
case $(uname -r) in 6.1.*) ;; *) few="$few:Overhead.AnIdle*" ;; esac # that it is left alone one of them can say
# With PREEMPT_RT all of it takes longer.
case $(uname -r) in *-rt-*) core="$core-*WaitTruth*Shuffle:*WaitTruth*Realtime" ;; esac

is_quick() { case ${QUICK:-} in [123]) true ;; *) false ;; esac; }
case ${QUICK:-} in
0) quick="$core:*LifetimeTest*:Waits.Nothing*:Accuracy.Shares*:Accuracy.AFlood*:Cuda.Calls*:State.WhoIsSent*" ;;
1) quick="Cuda.MemoryOf*:Cuda.Calls*:*GpuGaps*/S*:*GpuGaps*/IsStopped:*GpuGaps*/IsIn*:*GpuGaps*/IsT*:*GpuGaps*/W*:*GpuGaps*/N*:$quick" ;;
2) quick=$core ;;
3) quick=$few ;;
esac
# A debug kernel is looked at for what it says of locks and memory, and takes a minute for each test: those of them that
# have most to do with the kernel, and ask for nothing within so many milliseconds.
debug='Hotplug.*:*WaitTruth*Crowd:Cgroups.*:Uretprobes.*:Accuracy.EverySwitch*:Accuracy.AThreadsName*:Cuda.MemoryOf*:Cuda.Calls*'
debug="$debug:Lifetime.IoUring*:*LifetimeTest*By*:*LifetimeTest*Leader*:*LifetimeTest*Vfork:*LifetimeTest*Zombie"
is_debug() { case $(uname -r) in *-debug-*) true ;; *) false ;; esac; }
! is_debug || quick=$debug
# Hundreds at once starve the reader there.
! is_debug || export SLOTSCOPE_TEST_FORKS_AT_ONCE=20
# Some more than there are RMIDs. (A debug kernel, on which a fork takes more than a second, has a module with few.)
few_storms() {
	case ${QUICK:-} in [02]) SLOTSCOPE_TEST_SCALE=24 live_tests --gtest_filter='Storms*512Rmids' ;; esac
	! is_debug || [ "$SLOTSCOPE_TEST_SOURCE" = kmod ] || SLOTSCOPE_TEST_SCALE=160 live_tests --gtest_filter='Storms*96Rmids'
}

# A disk that takes 600 ms for each answer: whoever reads from it is known to wait for a disk (State.*).
slow_disk() {
	[ -e null_blk.ko ] || return 0 # a kernel of our own
	[ ! -e configfs.ko ] || insmod configfs.ko 2>/dev/null # or it has that built in
	insmod null_blk.ko nr_devices=1 gb=1 irqmode=2 completion_nsec=600000000 || fail "insmod null_blk"
	until_true 100 [ -b /dev/nullb0 ] || fail "there is no /dev/nullb0"
}

keep_scheduler_on
part slow_disk
if [ "$1" = kmod ]; then
	part module_life
	[ ! -e slotscope-fault.ko ] || part failing_loads
	[ ! -e slotscope-short.ko ] || part shorter_messages
	strings slotscope.ko | grep -q fail_step && fail "the module that users get has fault injection"
	case ${QUICK:-}$(uname -r) in 2*-rt-* | [!2]*) part procfs_in_use ;; esac # others' locks are those of 6.1
	case ${QUICK:-} in '' | 1) part rmids_go_to_who_runs ;; esac # QUICK=0: the guest with RDT has more to say of that
	part unwatched_cpu
	# Before 6.12 no module can know what cpusets have set apart; a debug kernel has none.
	case $(uname -r) in 6.1.* | *-debug-*) ;; *) part isolated_cpu ;; esac
	load_module
	part hotplug
	part failing_hotplugs
	part clock_step
	if [ -n "${QUICK:-}" ] || is_debug; then
		part live_tests --gtest_filter="$quick"
	else
		# CUDA's probes are the same with both sources, and on 6.1 each recording waits for the last one's. Storms come
		# below: how many RMIDs there are is said when the module is loaded.
		part live_tests --gtest_filter="-Storms*:Cuda.A*:Cuda.Many*:Cuda.R*:Cuda.O*:Cuda.D*:Cuda.L*:Cuda.G*:Cli.ModuleAbsent*:FullTable.*:$not_here"
	fi
	[ -n "${QUICK:-}" ] || is_debug || part pids_go_round
	part few_storms
	# Nothing is left of the processes that the tests made.
	grep -E '^(rmid_bad_frees|untracked|unknown_dead|stale): [1-9]' /proc/slotscope/info && fail "the module's counters say so"
	rmmod slotscope || fail "rmmod"
	# Few RMIDs: storms and crowds that exhaust them.
	load_module rmids=48
	is_quick || part live_tests --gtest_filter='Exhaustion*'
	! is_debug || SLOTSCOPE_TEST_SCALE=160
	[ -n "${QUICK:-}" ] || part live_tests --gtest_filter='Storms*96Rmids'
	rmmod slotscope || fail "rmmod"
	is_quick || dmesg | grep -q 'times no RMID was free' || fail "the kernel log does not say that RMIDs were short"
else
	part hotplug
	is_quick || part failing_hotplugs
	part clock_step
	part preempted_probes
	if [ -n "${QUICK:-}" ] || is_debug; then
		part live_tests --gtest_filter="$quick"
	else
		part live_tests --gtest_filter="-$not_here"
	fi
	part few_storms
fi
no_memory_leaks
lockdep_is_on
if [ $failures = 0 ]; then echo PASS; else exit 1; fi
