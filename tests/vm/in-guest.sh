#!/bin/sh
# SPDX-License-Identifier: MIT
# in-guest.sh kmod|bpf: the live tests and the life of the module, inside a guest. Ends with a line
# "PASS" or says what failed; the exit code is 0 or 1.
set -u

SLOTSCOPE_TEST_SOURCE=$1
SLOTSCOPE_BINARY=/slotscope/slotscope
SLOTSCOPE_TEST_SCALE=${SCALE:-8} # a fork takes many times as long in an emulated machine
export SLOTSCOPE_TEST_SOURCE SLOTSCOPE_BINARY SLOTSCOPE_TEST_SCALE
failures=0

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
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

# until_true N COMMAND: polls for at most N tenths of a second.
until_true() {
	tries=$1
	shift
	while ! "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		usleep 100000
	done
}

live_tests() {
	./live_tests --gtest_brief=1 "$@" || fail "live tests, source $SLOTSCOPE_TEST_SOURCE"
}

is_loaded() { grep -q '^slotscope ' /proc/modules; }
is_unloadable() { rmmod slotscope; }

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
	grep -q ',,[0-9]*,user,' old.csv && fail "a user process has no name in a recording that began after it"

	# procfs: one word is understood, everything else is refused.
	echo dump >/proc/slotscope/rmids || fail "dump was refused"
	printf dump >/proc/slotscope/rmids || fail "dump without a newline was refused"
	for word in dumps dum "" "dump dump" dumpdumpdumpdumpdump reset; do
		echo "$word" >/proc/slotscope/rmids 2>/dev/null && fail "'$word' was accepted"
	done
	[ "$(stat -c %a /proc/slotscope/rmids)" = 600 ] || fail "/proc/slotscope/rmids is not 0600"
	[ "$(awk '$2 == "live"' /proc/slotscope/rmids | awk '{ print $3 }' | sort | uniq -d | wc -l)" = 0 ] ||
		fail "a process has two RMIDs"

	# In use while a collector is attached; free at once when it is gone, however it went.
	./slotscope record --source kmod --output a.csv 2>err &
	collector=$!
	until_true 100 grep -q recording err || fail "the collector does not record"
	rmmod slotscope 2>/tmp/out && fail "rmmod took the module away from a collector"
	kill -9 $collector
	wait $collector 2>/dev/null
	until_true 20 is_unloadable || fail "rmmod fails after the collector was killed"
	is_loaded && fail "the module is still loaded"

	# Load and unload while processes are born and die.
	./live_tests --workload storm 4000 >/dev/null &
	storm=$!
	for _ in 1 2 3 4 5; do
		expect 0 insmod slotscope.ko
		expect 0 rmmod slotscope
	done
	wait $storm

	# Bad parameters are refused with a sentence.
	for parameter in rmids=0 rmids=1 rmids=513 max_processes=1 cpus=x cpus=9999; do
		insmod slotscope.ko $parameter 2>/dev/null && fail "parameter $parameter was accepted"
	done
	expect 0 insmod slotscope.ko rmids=32
	grep -q '^rmids: 32$' /proc/slotscope/info || fail "rmids=32 has no effect"
	expect 0 rmmod slotscope
	kill $old
}

if [ "$1" = kmod ]; then
	module_life
	insmod slotscope.ko || fail "insmod"
	live_tests
	# Nothing is left of the processes that the tests made.
	grep -E '^(rmid_bad_frees|untracked|unknown_dead): [1-9]' /proc/slotscope/info && fail "the module's counters say so"
	rmmod slotscope || fail "rmmod"
	# Few RMIDs: storms and crowds that exhaust them.
	insmod slotscope.ko rmids=48 || fail "insmod rmids=48"
	live_tests --gtest_filter='Storms*:Exhaustion*'
	rmmod slotscope || fail "rmmod"
else
	live_tests
fi
if [ $failures = 0 ]; then echo PASS; else exit 1; fi
